"""What the operator's and the workers' accounts must not be able to do, and what nobody must be able to read."""

from __future__ import annotations

import json

import pytest

from cluster import Cluster, FailedError

from .install import SYSTEM
from .jobs import group, job
from .kube import Kube

JOB = "digits"
_OPERATOR = f"system:serviceaccount:{SYSTEM}:omnilearn-operator"

_MUST_NOT = [
    ("get", "secrets", "default"),
    ("list", "secrets", SYSTEM),
    ("create", "secrets", "default"),
    ("create", "pods/exec", "default"),
    ("get", "pods/log", "default"),
    ("update", "omnilearnjobs", "default"),
    ("patch", "omnilearnjobs", "default"),
    ("create", "omnilearnjobs", "default"),
    ("delete", "services", "default"),
    ("get", "configmaps", "default"),
    ("create", "deployments.apps", "default"),
    ("create", "serviceaccounts/token", "default"),
    ("create", "rolebindings.rbac.authorization.k8s.io", "default"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io", ""),
    ("impersonate", "users", ""),
    ("list", "nodes", ""),
    ("delete", "namespaces", ""),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io", ""),
]

# What a script could do with what is in its pod: ask the API server, by the coordinator's token.
_ASK = """
import ssl, urllib.error, urllib.request
token = open("/var/run/omnilearn/token").read()
request = urllib.request.Request("https://kubernetes.default.svc/api/v1/namespaces/default/pods")
request.add_header("Authorization", "Bearer " + token)
try:
    print(urllib.request.urlopen(request, timeout=10, context=ssl._create_unverified_context()).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def may(cluster: Cluster, account: str, verb: str, resource: str, namespace: str) -> bool:
    kind, _, sub = resource.partition("/")
    words = ["auth", "can-i", verb, kind, f"--as={account}", *([f"--subresource={sub}"] if sub else [])]
    words += [f"--namespace={namespace}"] if namespace else ["--all-namespaces"]
    try:
        return cluster.run(*words).strip().endswith("yes")
    except FailedError as error:
        # kubectl exits with 1 for "no", and says so, or warns; a question that it does not understand is an error.
        if "failed (1)" not in str(error) or "error" in str(error).lower():
            raise
        return False


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job of two workers that trains for long."""
    shared_kube.apply(job(JOB, group("a", "500m", replicas=2, EPOCHS="4000")))
    shared_kube.until("two members train", lambda: shared_kube.members(JOB) == 2, 240)
    return shared_kube


def test_the_question_is_understood(installed: Cluster) -> None:
    """Otherwise all that follows would say nothing."""
    assert may(installed, _OPERATOR, "create", "pods", "default")


@pytest.mark.parametrize(("verb", "resource", "namespace"), _MUST_NOT, ids=lambda each: str(each) or "everywhere")
def test_the_operator_may_not(installed: Cluster, verb: str, resource: str, namespace: str) -> None:
    assert not may(installed, _OPERATOR, verb, resource, namespace)


def test_a_real_call_is_refused_too(installed: Cluster) -> None:
    with pytest.raises(FailedError, match="forbidden"):
        installed.run("get", "secrets", "--namespace", "kube-system", f"--as={_OPERATOR}")


def test_a_worker_s_token_is_of_no_use_to_the_api_server(running: Kube) -> None:
    assert running.run("exec", "digits-a-0-0", "--", "python", "-c", _ASK).strip() == "401"


def test_the_workers_account_may_nothing_but_ask_what_it_may(running: Kube) -> None:
    account = f"system:serviceaccount:{running.namespace}:{running.pods(JOB)[0]['spec']['serviceAccountName']}"
    listed = running.run("auth", "can-i", "--list", f"--as={account}").splitlines()[1:]
    # Lines without a resource are of pages that everybody may read: version, health, what there is.
    resources = {line.split()[0].partition(".")[0] for line in listed if not line.startswith(" ")}
    assert resources == {"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}
    assert not may(running.cluster, account, "get", "pods", running.namespace)
    assert not may(running.cluster, account, "patch", "omnilearnjobs", running.namespace)


def test_a_worker_has_no_other_token(running: Kube) -> None:
    spec = running.pods(JOB)[0]["spec"]
    assert spec["automountServiceAccountToken"] is False
    sources = [source for volume in spec["volumes"] for source in volume.get("projected", {}).get("sources", [])]
    tokens = [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]
    assert [each["audience"] for each in tokens] == ["omnilearn.dev"]


def test_no_token_and_no_key_is_in_logs_status_or_events(running: Kube) -> None:
    system = Kube(running.cluster, SYSTEM)
    operator = system.every("pods", "app.kubernetes.io/name=omnilearn-operator")[0]["metadata"]["name"]
    texts = [
        system.run("logs", operator),
        *(running.run("logs", pod["metadata"]["name"]) for pod in running.pods(JOB)),
        json.dumps(running.every("events") + running.every("omnilearnjobs") + running.every("pods")),
    ]
    assert not [word for text in texts for word in ("eyJhbGci", "PRIVATE KEY") if word in text]
