"""Tokens of a real API server that are good, but not for this: no worker gets in by them.

What it says of a token that has expired, nobody can see in a minute: it gives none for less than ten minutes. By its
answer, that is a token like any other that is not valid (tests/bad_wire.py).
"""

from __future__ import annotations

import json

import pytest

from cluster import Cluster

from .jobs import RUNTIME_IMAGE, group, job
from .kube import Kube, Manifest

JOB, WORKER, POD = "digits", "digits-a-0", "digits-a-0-0"
_AUDIENCE = "--audience=omnilearn.dev"

# What a worker would say with tokens that are not its own: one answer for each.
_TRY = """
import json, sys
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from omnilearn_core.api.names import worker_path
from omnilearn_runtime.environment import read
environment = read()
said = []
for worker, token in json.load(sys.stdin):
    headers = {"Authorization": "Bearer " + (token or environment.fresh_token())}
    try:
        connect(environment.coordinator + worker_path(environment.job, worker), additional_headers=headers,
                ssl=environment.fresh_tls(), proxy=None).close()
        said.append([200, "let in"])
    except InvalidStatus as error:
        said.append([error.response.status_code, json.loads(error.response.body)["sentence"]])
print(json.dumps(said))
"""


def stranger(name: str) -> Manifest:
    """Return a pod that runs nowhere: what matters of it is that it has a name."""
    safe = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "c",
        "image": RUNTIME_IMAGE,
        "securityContext": safe | {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    spec = {"containers": [container], "nodeSelector": {"omnilearn.dev/nowhere": "true"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def token(kube: Kube, *words: str) -> str:
    return kube.run("create", "token", "default", *words).strip()


def bound(kube: Kube, pod: str, *words: str) -> str:
    """Return a token of a pod."""
    return token(kube, "--bound-object-kind=Pod", f"--bound-object-name={pod}", *(words or (_AUDIENCE,)))


def answers(kube: Kube, *tried: tuple[str, str]) -> list[tuple[int, str]]:
    """Return what the coordinator says to workers with tokens; an empty one is the pod's own."""
    said = kube.run("exec", "--stdin", POD, "--", "python", "-c", _TRY, given=json.dumps(tried))
    return [(status, sentence) for status, sentence in json.loads(said)]


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job of two workers that trains for long."""
    shared_kube.apply(job(JOB, group("a", "500m", replicas=2, EPOCHS="4000")))
    shared_kube.until("two members train", lambda: shared_kube.members(JOB) == 2, 240)
    return shared_kube


def test_tokens_that_are_good_elsewhere_are_good_for_nothing_here(running: Kube, kube: Kube) -> None:
    running.apply(stranger("stranger"))
    kube.apply(stranger(POD))
    own = bound(running, POD)
    tried = {
        "of another worker": ("digits-a-1", ""),
        "for the API server": (WORKER, bound(running, POD, "--audience=https://kubernetes.default.svc")),
        "of no pod": (WORKER, token(running, _AUDIENCE)),
        "of a pod that is no worker": (WORKER, bound(running, "stranger")),
        "of a pod of that name elsewhere": (WORKER, bound(kube, POD)),
        "changed on its way": (WORKER, own[:-8] + ("A" * 8 if own[-8:] != "A" * 8 else "B" * 8)),
        "of a worker for another job": ("digits-b-0", own),
    }
    said = dict(zip(tried, answers(running, *tried.values()), strict=True))
    statuses = {name: status for name, (status, _) in said.items()}
    assert statuses == dict.fromkeys(tried, 401) | {"of another worker": 403, "of a worker for another job": 403}
    assert all(len(sentence.split()) > 4 for _, sentence in said.values())


def test_a_token_goes_with_its_pod(running: Kube, installed: Cluster) -> None:
    gone = "digits-a-1-0"
    kept = bound(running, gone)
    running.run("delete", "pod", gone, "--grace-period=0", "--force")
    running.until("the pod is gone", lambda: running.get("pod", gone) is None, 60)
    [(status, sentence)] = answers(running, ("digits-a-1", kept))
    assert status in (401, 403), sentence
    running.until("its next attempt trains", lambda: "digits-a-1-1" in running.trainers(JOB), 120)
