"""Small things that happen in the life of a job, each with a sentence or a consequence that a user expects."""

from __future__ import annotations

from datetime import datetime

from .jobs import group, job, tiny
from .kube import Kube

# Takes more memory than it may, once, as soon as it has a share.
_GREEDY = """
import os, runpy, threading, time
def grow():
    while not os.path.getsize("/var/run/omnilearn/share"):
        time.sleep(0.2)
    held = [bytearray(b"x" * (64 << 20)) for _ in range(64)]
if os.environ["OMNILEARN_WORKER"].endswith("-1") and "OMNILEARN_MEMORY_BOUND" not in os.environ:
    threading.Thread(target=grow, daemon=True).start()
runpy.run_path("train.py", run_name="__main__")
"""


def told(kube: Kube, name: str, words: str, kind: str = "Ready") -> bool:
    return words in kube.condition(name, kind).get("message", "")


def test_a_quota_is_told_and_the_others_train(kube: Kube) -> None:
    quota = {"hard": {"pods": "1"}}
    kube.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": quota})
    kube.apply(job("few", group("a", "500m", replicas=2, EPOCHS="2000", WIDTH="8")))
    kube.until("told", lambda: told(kube, "few", "exceeded quota"), 60)
    created = datetime.fromisoformat((kube.get("omnilearnjob", "few") or {})["metadata"]["creationTimestamp"])
    assert (kube.written("few") - created).total_seconds() <= 10
    kube.until("one trains", lambda: kube.members("few") == 1, 240)
    kube.until("told", lambda: "exceeded quota" in kube.condition("few", "Degraded").get("message", ""), 60)
    kube.run("delete", "resourcequota", "few")
    kube.until("both train", lambda: kube.members("few") == 2, 240)


def test_an_exit_code_that_the_job_names_fails_it_at_once(kube: Kube) -> None:
    made = tiny("hopeless", command=["python", "-c", "import sys; print('no licence'); sys.exit(42)"])
    made["spec"]["restart"] = {"maxFailures": 100, "failOnExitCodes": [42]}
    kube.apply(made)
    kube.until("failed", lambda: kube.condition("hopeless", "Failed").get("status") == "True", 60)
    assert told(kube, "hopeless", "hopeless-a-0 exited with 42", "Failed")
    assert len(kube.pods("hopeless")) == 1


def test_a_worker_that_fails_is_tried_again_at_a_time_that_is_told(kube: Kube) -> None:
    made = tiny("stubborn", command=["python", "-c", "raise SystemExit(1)"])
    made["spec"]["restart"] = {"maxFailures": 100}
    kube.apply(made)
    kube.until("told", lambda: told(kube, "stubborn", "stubborn-a-0 is tried again at "), 60)


def test_a_job_that_somebody_else_minds_is_left_alone(kube: Kube) -> None:
    foreign = tiny("foreign")
    foreign["spec"]["managedBy"] = "example.com/queue"
    kube.apply(foreign)
    kube.apply(tiny("own"))
    kube.until("the other one has begun", lambda: bool(kube.pods("own")), 60)
    assert (kube.pods("foreign"), kube.status("foreign")) == ([], {})


def test_a_job_goes_when_its_time_after_the_end_is_over(kube: Kube) -> None:
    made = tiny("brief")
    made["spec"]["ttlSecondsAfterFinished"] = 3
    kube.apply(made)
    kube.until("complete", lambda: kube.status("brief").get("phase") == "Complete", 180)
    kube.until("gone", lambda: kube.get("omnilearnjob", "brief") is None, 60)
    kube.until("its pods, too", lambda: not kube.pods("brief"), 60)


def test_a_worker_out_of_memory_comes_back_with_a_smaller_bound(kube: Kube) -> None:
    made = group("a", "500m", replicas=2, EPOCHS="4000")
    trainer = made["template"]["spec"]["containers"][0]
    trainer["command"] = ["python", "-c", _GREEDY]
    trainer["resources"]["limits"]["memory"] = "1500Mi"
    kube.apply(job("greedy", made))
    kube.until("it is told", lambda: any(reason == "WorkerOutOfMemory" for reason, _ in kube.events("greedy")), 180)
    kube.until("it trains again", lambda: "greedy-a-1-1" in kube.trainers("greedy"), 120)
    pods = [pod["metadata"] for pod in kube.pods("greedy") if pod["status"]["phase"] == "Running"]
    bounds = {
        each["labels"]["omnilearn.dev/worker"]: each["annotations"].get("omnilearn.dev/memory-bound") for each in pods
    }
    assert bounds["greedy-a-0"] is None
    assert int(bounds["greedy-a-1"] or 0) > 0
    assert kube.status("greedy")["workers"]["failures"] == 0
