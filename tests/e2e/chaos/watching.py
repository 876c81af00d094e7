"""Looking at the job again and again, cheaply: a process for every look would take the CPU that the job should have."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config

from e2e.install import SYSTEM
from e2e.kube import Kube, Manifest

from .seen import Seen, millicpus, seen

OPERATOR = "app.kubernetes.io/name=omnilearn-operator"
_SECONDS = 5.0


class UnreachableError(RuntimeError):
    """The API server does not answer now, which is to be expected while it is restarted."""


class Eyes:
    """Reads from the API server, over connections that stay open."""

    def __init__(self, kube: Kube, job: str) -> None:
        self._kube, self._job = kube, job
        configuration = client.Configuration()
        config.load_kube_config(config_file=str(kube.cluster.kubeconfig), client_configuration=configuration)
        configuration.retries = False  # who looks, looks again
        self._host, self._client = configuration.host, client.ApiClient(configuration)

    def look(self) -> Seen:
        """Return how the job is now; UnreachableError if nobody can say."""
        here = f"/namespaces/{self._kube.namespace}"
        return seen(
            time.monotonic(),
            self.get(f"/apis/omnilearn.dev/v1alpha1{here}/omnilearnjobs/{self._job}"),
            self.get(f"/api/v1{here}/pods", labelSelector=f"omnilearn.dev/job={self._job}"),
            self.get(f"/api/v1{here}/events", fieldSelector=f"involvedObject.name={self._job}"),
            kubelets=self._kubelets(),
            operator=self._operator(),
        )

    def room(self) -> int:
        """Return the thousandths of CPUs that no pod has asked for, on a node that is the only one."""
        (node,) = self.get("/api/v1/nodes")["items"]
        pods = [each for each in self.get("/api/v1/pods")["items"] if each["spec"].get("nodeName")]
        asked = sum(_request(each) for each in pods if each["status"].get("phase") not in ("Succeeded", "Failed"))
        return millicpus(node["status"]["allocatable"]["cpu"]) - asked

    def get(self, path: str, **query: str) -> Manifest:
        """Return what the API server answers."""
        url = f"{self._host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers: dict[str, Any] = {"Accept": "application/json"}
        try:
            self._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
            answer = self._client.call_api("GET", url, headers, _request_timeout=_SECONDS)
            found: Manifest = json.loads(answer.read())
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnreachableError(str(error)) from error
        if not 200 <= answer.status < 300:
            raise UnreachableError(f"{path}: {answer.status} {found.get('message', '')}")
        return found

    def _kubelets(self) -> int:
        about = "involvedObject.kind=Node,reason=Starting,source=kubelet"
        found = self.get("/api/v1/namespaces/default/events", fieldSelector=about)["items"]
        return sum(each.get("count", 1) for each in found)

    def _operator(self) -> str:
        found = self.get(f"/api/v1/namespaces/{SYSTEM}/pods", labelSelector=OPERATOR)["items"]
        return next((each["metadata"]["uid"] for each in found if _is_ready(each)), "")


def _is_ready(pod: Manifest) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def _request(pod: Manifest) -> int:
    """Return what a pod has asked for: of one that is being resized, the most of what it had and will have."""
    asked = sum(_cpu(each.get("resources", {})) for each in pod["spec"]["containers"])
    has = sum(_cpu(each.get("resources", {})) for each in pod["status"].get("containerStatuses", []))
    return max(asked, has)


def _cpu(resources: Manifest) -> int:
    return millicpus(resources.get("requests", {}).get("cpu", "0"))
