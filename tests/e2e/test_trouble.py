"""What goes wrong ends in the right condition, with a sentence."""

from __future__ import annotations

from .jobs import job, tiny
from .kube import Kube


def test_a_wrong_image_is_named_with_the_pod_that_wants_it(kube: Kube) -> None:
    kube.apply(tiny("wrong", image="localhost/no-such-image:1", imagePullPolicy="Never"))
    kube.until("told", lambda: "ErrImageNeverPull" in kube.condition("wrong", "Ready").get("message", ""), 60)
    assert "wrong-a-0-0: ErrImageNeverPull" in kube.condition("wrong", "Ready")["message"]


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
    kube.until("told", lambda: kube.condition("refused", "Ready").get("reason") == "BadTemplate", 30)
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


def test_a_job_without_room_says_what_its_pods_wait_for(kube: Kube) -> None:
    made = tiny("large")
    made["spec"]["workers"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1000"
    kube.apply(job("large", *made["spec"]["workers"]))
    kube.until("told", lambda: "Insufficient cpu" in kube.condition("large", "Ready").get("message", ""), 60)
