"""What Helm makes of the chart, as objects. Helm is HELM, one of PATH, or the one that `make cluster-up` has built."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml
from scripts.chart import CHART

from apiserver import cache_folder

Object = dict[str, Any]
NAMESPACE = "omnilearn-system"
ALL_OPTIONAL = (
    "podDisruptionBudget.enabled=true", "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true",
    "metrics.dashboard.enabled=true",
)  # fmt: skip
CERT_MANAGER = ("certificate.mode=certManager", "certificate.certManager.issuerRef.name=authority")


def found_helm() -> str | None:
    """Return a helm, if there is one."""
    built = sorted((cache_folder(os.environ) / "cluster").glob("helm-*/helm"))
    return os.environ.get("HELM") or shutil.which("helm") or (str(built[-1]) if built else None)


HELM = found_helm()
needs_helm = pytest.mark.skipif(HELM is None, reason="there is no helm: set HELM, or run make cluster-up once")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, far from the configuration of whoever runs the tests."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"}
    command = [HELM or "helm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


@cache
def rendering(*settings: str, release: str = "omnilearn") -> tuple[str, str]:
    """Return what helm prints and what it complains about."""
    arguments = [word for setting in settings for word in ("--set", setting)]
    done = helm("template", release, str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.35.0", *arguments)
    return done.stdout, done.stderr if done.returncode else ""


def rendered(*settings: str, release: str = "omnilearn") -> list[Object]:
    """Return all objects, those of `helm test` as well."""
    text, complaint = rendering(*settings, release=release)
    assert not complaint, complaint
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    """Return the objects of some kinds."""
    return [each for each in objects if each["kind"] in kinds]


def only(objects: list[Object], kind: str, suffix: str = "") -> Object:
    """Return the one object of a kind."""
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"].endswith(suffix)]
    return found


def of_helm_test(objects: list[Object]) -> list[Object]:
    """Return what is for `helm test` alone."""
    return [each for each in objects if each["metadata"]["labels"]["app.kubernetes.io/name"].endswith("-test")]


def installed(*settings: str, release: str = "omnilearn") -> list[Object]:
    """Return all objects but those of `helm test`."""
    everything = rendered(*settings, release=release)
    return [each for each in everything if each not in of_helm_test(everything)]


def pod_of(objects: list[Object]) -> Object:
    """Return the operator's pod."""
    pod: Object = only(objects, "Deployment")["spec"]["template"]
    return pod


def variables(objects: list[Object]) -> dict[str, Any]:
    """Return the operator's environment."""
    return {each["name"]: each.get("value") for each in pod_of(objects)["spec"]["containers"][0]["env"]}
