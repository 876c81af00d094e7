"""What goes wrong ends in the right condition, with a sentence, and within seconds of its first sign."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from .jobs import Manifest, tiny
from .kube import Kube

_GOAL_SECONDS = 10.0


class Trouble(NamedTuple):
    """Why a pod does not run."""

    job: Manifest
    words: str
    """What the job's condition quotes of it."""

    since: Callable[[Kube, str], datetime]
    """When the cluster has said so first."""


def _unplaced(kube: Kube, name: str) -> datetime:
    (pod,) = kube.pods(name)
    times = [each["lastTransitionTime"] for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
    return datetime.fromisoformat(times[0])


def _warned(reason: str) -> Callable[[Kube, str], datetime]:
    def since(kube: Kube, name: str) -> datetime:
        told = [each for each in kube.every("events") if each["involvedObject"]["name"] == f"{name}-a-0-0"]
        return min(datetime.fromisoformat(each["firstTimestamp"]) for each in told if each["reason"] == reason)

    return since


def _large(name: str) -> Manifest:
    made = tiny(name)
    resources = made["spec"]["workers"][0]["template"]["spec"]["containers"][0]["resources"]
    resources["limits"]["cpu"] = resources["requests"]["cpu"] = "1000"
    return made


def _without_settings(name: str) -> Manifest:
    made = tiny(name, volumeMounts=[{"name": "settings", "mountPath": "/settings"}])
    volume = {"name": "settings", "configMap": {"name": "no-such-settings"}}
    made["spec"]["workers"][0]["template"]["spec"]["volumes"] = [volume]
    return made


def _unsaved(name: str) -> Manifest:
    made = tiny(name)
    made["spec"]["checkpoint"] = {"claimName": "no-such-claim"}
    return made


_TROUBLES = {
    "large": Trouble(_large("large"), "large-a-0-0: Unschedulable: 0/", _unplaced),
    "unsaved": Trouble(_unsaved("unsaved"), 'persistentvolumeclaim "no-such-claim" not found', _unplaced),
    "unset": Trouble(_without_settings("unset"), 'configmap "no-such-settings" not found', _warned("FailedMount")),
    # Nothing listens there.
    "wrong": Trouble(
        tiny("wrong", image="localhost:1/no-such-image:1"), "wrong-a-0-0: ErrImagePull", _warned("Failed")
    ),
}


def test_why_a_pod_does_not_run_is_told_within_ten_seconds_of_the_first_sign(
    kube: Kube, record_property: Callable[[str, object], None]
) -> None:
    for trouble in _TROUBLES.values():
        kube.apply(trouble.job)
    told: dict[str, datetime] = {}

    def all_told() -> bool:
        for name in _TROUBLES.keys() - told:
            if _TROUBLES[name].words in kube.condition(name, "Ready").get("message", ""):
                told[name] = kube.written(name)
        return len(told) == len(_TROUBLES)

    kube.until("all are told", all_told, 60)
    seconds = {name: (at - _TROUBLES[name].since(kube, name)).total_seconds() for name, at in told.items()}
    record_property("seconds_until_told", seconds)
    assert max(seconds.values()) <= _GOAL_SECONDS, seconds
    kube.until("the pause is told", lambda: "ImagePullBackOff" in kube.condition("wrong", "Ready")["message"], 60)


def test_a_job_that_does_not_start_in_time_fails_with_the_reason(kube: Kube) -> None:
    made = _large("late")
    made["spec"]["startupDeadlineSeconds"] = 3
    kube.apply(made)
    kube.until("failed", lambda: kube.condition("late", "Failed").get("status") == "True", 60)
    failed = kube.condition("late", "Failed")
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "within 3 s (startupDeadlineSeconds); late-a-0-0: Unschedulable" in failed["message"]
    kube.until("its pod goes", lambda: not kube.pods("late"), 60)


def test_a_failing_script_fails_the_job_with_its_last_lines(kube: Kube) -> None:
    made = tiny("failing", command=["python", "-c", "raise SystemExit('the data are not there')"])
    made["spec"]["restart"] = {"maxFailures": 1}
    kube.apply(made)
    kube.until("failed", lambda: kube.condition("failing", "Failed").get("status") == "True", 120)
    message = kube.condition("failing", "Failed")["message"]
    assert message.startswith(
        "2 failures of workers are more than restart.maxFailures, 1; the last: failing-a-0 exited"
    )
    assert "the data are not there" in message


def test_a_template_that_the_api_server_refuses_creates_nothing(kube: Kube) -> None:
    made = tiny("refused", imagePullPolicy="Sometimes")
    kube.apply(made)
    kube.until("told", lambda: kube.condition("refused", "Ready").get("reason") == "BadTemplate", 60)
    assert "imagePullPolicy" in kube.condition("refused", "Ready")["message"]
    assert kube.pods("refused") == []


def test_a_name_that_is_too_long_is_refused_with_a_sentence(kube: Kube) -> None:
    sentence = kube.refusal(tiny("n" * 60))
    assert "metadata.name" in sentence


def test_a_sidecar_does_not_keep_a_job_from_completing(kube: Kube) -> None:
    made = tiny("sidecar")
    containers = made["spec"]["workers"][0]["template"]["spec"]["containers"]
    containers.append(
        {
            "name": "sidecar",
            "image": containers[0]["image"],
            "command": ["python", "-c", "import time; time.sleep(10000)"],
            "resources": {"limits": {"cpu": "50m", "memory": "128Mi"}},
        }
    )
    kube.apply(made)
    kube.until("complete", lambda: kube.condition("sidecar", "Complete").get("status") == "True", 240)
