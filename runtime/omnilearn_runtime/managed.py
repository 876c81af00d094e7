"""What a session manages: models, optimizers and what belongs to an update. Joiners receive it, checkpoints hold it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

MODEL = "model"
OPTIMIZER = "optimizer"
_REDUCED = 2
"""Another number for every change of what members send each other in a round."""


class UnsuitableError(TypeError):
    """Something that cannot be trained by several workers; the sentence says what to do instead."""


@dataclass(frozen=True, slots=True)
class Managed:
    """The user's objects, by name."""

    models: Mapping[str, nn.Module]
    optimizers: Mapping[str, Optimizer]
    schedulers: Mapping[str, Any] = field(default_factory=dict)
    scheduler_per_epoch: bool = False
    scaler: Any = None
    clip_norm: float | None = None
    before_update: Callable[[], object] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters, tied ones once."""
        seen: set[Parameter] = set()
        for model_name, model in self.models.items():
            for name, parameter in model.named_parameters():
                if parameter not in seen:
                    seen.add(parameter)
                    yield f"{model_name}.{name}", parameter

    def trainable(self) -> list[tuple[str, Parameter]]:
        """Return the parameters that are to be updated."""
        return [(name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad]

    @property
    def looks_at_batches(self) -> bool:
        """True if the result depends on which samples are computed together, as with BatchNorm."""
        return any(isinstance(each, _BatchNorm) for model in self.models.values() for each in model.modules())

    def running_statistics(self) -> list[Tensor]:
        """Return the running means and variances of normalisation layers: each worker's forward changes its own."""
        found: list[Tensor] = []
        for model in self.models.values():
            for module in model.modules():
                if isinstance(module, _NormBase) and module.track_running_stats:
                    found += [each for each in (module.running_mean, module.running_var) if each is not None]
        return found

    def batch_counters(self) -> list[Tensor]:
        """Return the batch counters of normalisation layers."""
        return [
            module.num_batches_tracked
            for model in self.models.values()
            for module in model.modules()
            if isinstance(module, _NormBase) and module.num_batches_tracked is not None
        ]

    def fingerprint(self) -> str:
        """Return a digest of names, shapes and types: equal on all workers that run the same script.

        And of how a round is reduced, so that a runtime that does it otherwise is refused before its first one.
        """
        digest = hashlib.blake2b(f"{_REDUCED};".encode(), digest_size=16)
        for name, parameter in self.named_parameters():
            digest.update(f"{name}:{tuple(parameter.shape)}:{parameter.dtype};".encode())
        for name, optimizer in self.optimizers.items():
            digest.update(f"{name}:{type(optimizer).__name__}:{len(optimizer.param_groups)};".encode())
        digest.update(f"{sorted(self.schedulers)}{sorted(self.extra)}{self.scaler is not None}".encode())
        return digest.hexdigest()

    def parameter_hash(self) -> str:
        """Return a digest of all parameters' values, bit by bit."""
        digest = hashlib.blake2b(digest_size=16)
        for _, parameter in self.named_parameters():
            flat = parameter.detach().to("cpu").contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
        return digest.hexdigest()

    def to_tree(self) -> dict[str, Any]:
        """Return everything as one nested dictionary of tensors and plain values."""
        return {
            "models": {name: dict(model.state_dict()) for name, model in self.models.items()},
            "trainable": [name for name, _ in self.trainable()],
            **self.course(),
            "extra": {
                name: each.state_dict() if hasattr(each, "state_dict") else each for name, each in self.extra.items()
            },
        }

    def course(self) -> dict[str, Any]:
        """Return what every update changes beside the models: optimizers, schedulers, scaler."""
        return {
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "schedulers": {name: scheduler.state_dict() for name, scheduler in self.schedulers.items()},
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
        }

    def load(self, tree: Mapping[str, Any]) -> None:
        """Become what ``to_tree`` gave."""
        for name, model in self.models.items():
            model.load_state_dict(tree["models"][name])
        trainable = set(tree["trainable"])
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name in trainable)
        self.load_course(tree)
        for name, each in self.extra.items():
            _load_extra(each, tree["extra"][name])

    def load_course(self, tree: Mapping[str, Any]) -> None:
        """Become what ``course`` gave, as far as it goes."""
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(tree["optimizers"][name])
            # It has been stepped, by others or before: torch would warn about a scheduler that comes first.
            optimizer._opt_called = True  # type: ignore[attr-defined]
        for name, scheduler in self.schedulers.items():
            scheduler.load_state_dict(tree["schedulers"][name])
        if self.scaler is not None:
            self.scaler.load_state_dict(tree["scaler"])

    def update(self, apply: Callable[[], object] | None = None) -> None:
        """Apply the mean gradients that the parameters hold: unscale, clip, and step the optimizers, or ``apply``."""
        if self.scaler is not None:
            # A worker without a share has scaled no loss yet, and a scaler begins with the first.
            self.scaler.scale(torch.zeros((), device=next(self.named_parameters())[1].device))
        for optimizer in self.optimizers.values():
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
        if self.clip_norm is not None:
            self._clip(self.clip_norm)
        if self.before_update is not None:
            self.before_update()
        (apply or self._step)()
        if self.scaler is not None:
            self.scaler.update()

    def pass_over(self) -> None:
        """Let a step go by without an update: torch would warn about a scheduler that comes first."""
        for optimizer in self.optimizers.values():
            optimizer._opt_called = True  # type: ignore[attr-defined]

    def _step(self) -> None:
        for optimizer in self.optimizers.values():
            optimizer.step() if self.scaler is None else self.scaler.step(optimizer)

    def _clip(self, norm: float) -> None:
        """Clip the gradients; on one thread, because the order of a sum must not depend on a worker's CPUs."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        torch.nn.utils.clip_grad_norm_([parameter for _, parameter in self.trainable()], norm)
        torch.set_num_threads(threads)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the models into evaluation mode for a while."""
        modules = [module for model in self.models.values() for module in model.modules()]
        modes = [module.training for module in modules]
        for module in modules:
            module.training = False
        try:
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode

    def schedule(self) -> None:
        """Step the learning-rate schedulers once."""
        for scheduler in self.schedulers.values():
            scheduler.step()


def _load_extra(each: Any, state: Any) -> None:
    if hasattr(each, "load_state_dict"):
        each.load_state_dict(state)
    else:
        each.clear()
        each.update(state)


def manage(model: Any, optimizer: Any, scheduler: Any, extra: Mapping[str, Any] | None, **rest: Any) -> Managed:
    """Return the managed objects, checked; raises UnsuitableError with a sentence."""
    managed = Managed(
        models=_by_name(model, MODEL, nn.Module),
        optimizers=_by_name(optimizer, OPTIMIZER, Optimizer),
        schedulers={} if scheduler is None else _by_name(scheduler, "scheduler", object),
        extra=extra or {},
        **rest,
    )
    _check_models(managed)
    _check_optimizers(managed)
    _check_extra(managed)
    return managed


def _by_name(given: Any, name: str, kind: type) -> dict[str, Any]:
    found = dict(given) if isinstance(given, Mapping) else {name: given}
    for each in found.values():
        if not isinstance(each, kind):
            raise UnsuitableError(
                f"session.manage got a {type(each).__name__} as {name}: give it a {kind.__name__}, "
                "or a dictionary of them by name"
            )
    return found


def _check_models(managed: Managed) -> None:
    for model in managed.models.values():
        for name, module in model.named_modules():
            if getattr(module, "sparse", False) and isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
                raise UnsuitableError(
                    f"{name or 'the model'} has sparse gradients, which cannot be reduced: use sparse=False"
                )
        if isinstance(model, nn.parallel.DistributedDataParallel):
            raise UnsuitableError(
                "the model is wrapped in DistributedDataParallel: give session.manage the model itself"
            )
    for name, parameter in managed.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise UnsuitableError(
                f"{name} is not initialised yet: run one batch through the lazy model before session.manage"
            )
        if parameter.is_complex():
            raise UnsuitableError(f"{name} is complex, which cannot be reduced: use its real view (torch.view_as_real)")


def _check_optimizers(managed: Managed) -> None:
    known = {parameter for _, parameter in managed.named_parameters()}
    for name, optimizer in managed.optimizers.items():
        if isinstance(optimizer, LBFGS):
            raise UnsuitableError(
                "LBFGS evaluates the loss several times per step: use an optimizer that needs one gradient"
            )
        if any(parameter not in known for group in optimizer.param_groups for parameter in group["params"]):
            raise UnsuitableError(
                f"{name} updates parameters that are not of the managed model: give session.manage all models, by name"
            )


def _check_extra(managed: Managed) -> None:
    for name, each in managed.extra.items():
        if not isinstance(each, dict) and not hasattr(each, "load_state_dict"):
            raise UnsuitableError(
                f"extra['{name}'] is a {type(each).__name__}: give a dictionary, or something with state_dict and "
                "load_state_dict"
            )
    for scheduler in managed.schedulers.values():
        if isinstance(scheduler, ReduceLROnPlateau):
            raise UnsuitableError(
                "ReduceLROnPlateau needs a measurement at every step: give it as extra={'plateau': scheduler}, and "
                "step it yourself, on all workers, with a value of session.evaluate"
            )
