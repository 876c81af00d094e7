"""What a job becomes in the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.manifests.network import network_policy_of, service_of
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.manifests.pods import Worker, pod_of, template_hash

PLACE = Place(coordinator="wss://coordinator.omnilearn.svc:7443", authorities="-----BEGIN CERTIFICATE-----")


def job_with(
    container: dict[str, Any] | None = None, *, spec: dict[str, Any] | None = None, **more: Any
) -> OmniLearnJob:
    trainer = {"name": "trainer", "image": "me/train:1", "command": ["python", "train.py"], **(container or {})}
    pod = {"containers": [trainer], **(spec or {})}
    return OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "cifar", "namespace": "team", "uid": "u-1"},
            "spec": {
                "batch": {"global": 64},
                "workers": [{"name": "cpu", "replicas": 2, "template": {"spec": pod, **more.pop("template", {})}}],
                **more,
            },
        }
    )


def pod(job: OmniLearnJob, attempt: int = 0, place: Place = PLACE) -> dict[str, Any]:
    return pod_of(job, Worker(job.spec.workers[0], 1), attempt, place)


def trainer(made: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = made["spec"]["containers"][0]
    return container


def variables(made: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in trainer(made)["env"]}


def mounts(made: dict[str, Any]) -> dict[str, str]:
    return {each["mountPath"]: each["name"] for each in trainer(made)["volumeMounts"]}


def test_a_pod_is_named_after_worker_and_attempt_and_goes_with_its_job() -> None:
    metadata = pod(job_with(), attempt=3)["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("cifar-cpu-1-3", "team")
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("OmniLearnJob", "cifar", "u-1", True)


def test_a_pod_is_found_by_job_group_worker_and_attempt() -> None:
    labels = pod(job_with(template={"metadata": {"labels": {"team": "vision"}}}))["metadata"]["labels"]
    assert labels["team"] == "vision"
    assert labels[names.MANAGED_LABEL] == "true"
    assert (labels[names.JOB_LABEL], labels[names.GROUP_LABEL]) == ("cifar", "cpu")
    assert (labels[names.WORKER_LABEL], labels[names.ATTEMPT_LABEL]) == ("cifar-cpu-1", "0")


def test_what_the_user_has_written_stays_as_it_is() -> None:
    spec = {"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "low"}
    made = pod(job_with({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}, "tty": True}, spec=spec))
    assert spec.items() <= made["spec"].items()
    assert trainer(made)["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert trainer(made)["tty"] is True
    assert trainer(made)["command"] == ["python", "train.py"]


def test_a_worker_knows_who_it_is_and_where_the_coordinator_is() -> None:
    known = variables(pod(job_with(), attempt=2))
    assert (known[names.ENV_JOB], known[names.ENV_WORKER], known[names.ENV_ATTEMPT]) == ("cifar", "cifar-cpu-1", "2")
    assert known[names.ENV_COORDINATOR] == PLACE.coordinator
    assert known[names.ENV_ADDRESS] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_nobody_can_pretend_to_be_another_worker_by_a_variable() -> None:
    env = [{"name": "OMNILEARN_WORKER", "value": "cifar-cpu-0"}, {"name": "EPOCHS", "value": "3"}]
    known = variables(pod(job_with({"env": env})))
    assert known["OMNILEARN_WORKER"] == "cifar-cpu-1"
    assert known["EPOCHS"] == "3"


@pytest.mark.parametrize(("limit", "threads"), [("300m", "1"), ("1", "1"), ("2500m", "3"), (4, "4")])
def test_threads_follow_the_cpu_limit(limit: Any, threads: str) -> None:
    found = variables(pod(job_with({"resources": {"limits": {"cpu": limit}}})))
    assert found["OMP_NUM_THREADS"] == found["OMNILEARN_THREADS"] == threads


def test_a_users_own_number_of_threads_stays() -> None:
    container = {"resources": {"limits": {"cpu": "4"}}, "env": [{"name": "OMP_NUM_THREADS", "value": "2"}]}
    assert variables(pod(job_with(container)))["OMP_NUM_THREADS"] == "2"


def test_a_worker_proves_itself_by_a_token_for_us_alone_and_gets_no_other() -> None:
    made = pod(job_with())
    (ours,) = [each for each in made["spec"]["volumes"] if each["name"] == "omnilearn"]
    token = ours["projected"]["sources"][0]["serviceAccountToken"]
    assert token["audience"] == names.TOKEN_AUDIENCE
    assert made["spec"]["automountServiceAccountToken"] is False
    assert variables(made)[names.ENV_TOKEN_FILE] == "/var/run/omnilearn/token"
    assert made["metadata"]["annotations"][names.AUTHORITIES_ANNOTATION] == PLACE.authorities


def test_checkpoints_go_to_the_claim_if_there_is_one() -> None:
    assert "/checkpoints" not in mounts(pod(job_with()))
    made = pod(job_with(checkpoint={"claimName": "ckpt", "everySeconds": 30, "keep": 2}))
    assert mounts(made)["/checkpoints"] == "omnilearn-checkpoints"
    assert {"claimName": "ckpt"} in [each.get("persistentVolumeClaim") for each in made["spec"]["volumes"]]
    known = variables(made)
    assert (known[names.ENV_CHECKPOINT_SECONDS], known[names.ENV_CHECKPOINT_KEEP]) == ("30", "2")


def test_a_users_own_shared_memory_stays() -> None:
    container = {"volumeMounts": [{"name": "mine", "mountPath": "/dev/shm/"}]}  # noqa: S108 - a path in the pod
    made = pod(job_with(container, spec={"volumes": [{"name": "mine", "emptyDir": {"medium": "Memory"}}]}))
    assert "omnilearn-shm" not in [each["name"] for each in made["spec"]["volumes"]]
    assert "omnilearn-tmp" in [each["name"] for each in made["spec"]["volumes"]]


def test_a_pod_that_says_nothing_about_it_may_run_in_a_restricted_namespace() -> None:
    made = pod(job_with({"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}}))
    assert made["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert trainer(made)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    }


def test_an_installation_can_leave_security_contexts_alone() -> None:
    made = pod(job_with(), place=Place(PLACE.coordinator, PLACE.authorities, restricted=False))
    assert "securityContext" not in made["spec"]


def test_a_worker_leaves_before_its_grace_period_is_over() -> None:
    assert variables(pod(job_with()))[names.ENV_GRACE_SECONDS] == "25"
    assert variables(pod(job_with(spec={"terminationGracePeriodSeconds": 120})))[names.ENV_GRACE_SECONDS] == "115"


def test_a_sidecar_is_not_the_trainer() -> None:
    job = job_with(spec={"containers": [{"name": "logs", "image": "l"}, {"name": "trainer", "image": "t"}]})
    sidecar, training = pod(job)["spec"]["containers"]
    assert "env" not in sidecar
    assert "env" in training


def test_the_hash_of_a_template_changes_only_with_what_the_user_has_written() -> None:
    one, other = job_with().spec.workers[0], job_with({"image": "me/train:2"}).spec.workers[0]
    assert template_hash(one) == template_hash(job_with(checkpoint={"claimName": "c"}).spec.workers[0])
    assert template_hash(one) != template_hash(other)


def test_making_a_pod_leaves_the_job_as_it_is() -> None:
    job = job_with()
    before = job.to_manifest()
    pod(job)
    assert job.to_manifest() == before


def test_workers_find_each_other_by_name_before_they_are_ready() -> None:
    service = service_of(job_with())
    assert service["metadata"]["name"] == "cifar"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"][names.JOB_LABEL] == pod(job_with())["spec"]["subdomain"]


def test_only_workers_of_the_same_job_may_connect() -> None:
    spec = network_policy_of(job_with())["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"from": [{"podSelector": spec["podSelector"]}]}]
