"""Rules about pod templates."""

from __future__ import annotations

from omnilearn_core.api.job import Device, WorkerGroup
from omnilearn_core.api.names import TRAINER
from omnilearn_core.api.template import PodSpec

from .rule import Rule, Values

# CEL, written for the part that a rule is about. Every list is bounded, or its cost would be refused.
_NAMED = f"self.containers.filter(c, c.name == '{TRAINER}')"
_TRAINER_HAS_DEVICE = (
    f"self.template.spec.containers.exists(c, (c.name == '{TRAINER}' || size(self.template.spec.containers) == 1)"
    " && has(c.resources)"
    " && ((has(c.resources.claims) && size(c.resources.claims) > 0)"
    " || (has(c.resources.limits) && c.resources.limits.exists(k, k.contains('/')))))"
)


def _no_trainer(pod: PodSpec) -> Values | None:
    named = sum(container.name == TRAINER for container in pod.containers)
    return (len(pod.containers), named) if len(pod.containers) > 1 and named != 1 else None


def _restarts(pod: PodSpec) -> Values | None:
    policy = pod.restart_policy
    return (policy,) if policy is not None and policy != "Never" else None


def _gpu_without_device(group: WorkerGroup) -> Values | None:
    containers = group.template.spec.containers
    has_device = any(
        container.resources.claims or any("/" in limit for limit in container.resources.limits)
        for container in containers
        if container.name == TRAINER or len(containers) == 1
    )
    return (group.name,) if group.device is Device.GPU and not has_device else None


RULES: tuple[Rule, ...] = (
    Rule(
        at="spec.workers[].template.spec",
        field="containers",
        sentence="the pod has %d containers, of which %d are called 'trainer':"
        " call exactly one of them trainer, the one that trains",
        cel=f"size(self.containers) == 1 || size({_NAMED}) == 1",
        values=("size(self.containers)", f"size({_NAMED})"),
        broken=_no_trainer,
    ),
    Rule(
        at="spec.workers[].template.spec",
        field="restartPolicy",
        sentence="restartPolicy is '%s': leave it out, a worker that ends is replaced by a new pod",
        cel="!has(self.restartPolicy) || self.restartPolicy == 'Never'",
        values=("self.restartPolicy",),
        broken=_restarts,
    ),
    Rule(
        at="spec.workers[]",
        field="template.spec.containers",
        sentence="group '%s' has device gpu, but its trainer container has neither a limit such as nvidia.com/gpu"
        " nor a resource claim: add one, or set device to cpu",
        cel=f"self.device != 'gpu' || {_TRAINER_HAS_DEVICE}",
        values=("self.name",),
        broken=_gpu_without_device,
    ),
)
