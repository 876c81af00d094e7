"""Nodes that do not exist, pods that only seem to run, and the jobs that are made of them: kwok, and manifests."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

import cluster as clusters
from cluster import binaries
from cluster.progress import Progress
from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.manifests.pods import Worker, pod_of

from .cluster_api import Cluster, Manifest, RefusedError
from .subject import POD

MARK = "kwok.x-k8s.io/node"
PODS_PER_NODE = 1000
_CRD = Path(__file__).parents[1] / "crds/omnilearn.dev_omnilearnjobs.yaml"
# By default it plays four pods at once, which is less than a busy API server and many pods need.
_KWOK = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {"podPlayStageParallelism": 32},
}
_ACCOUNT_SECONDS = 30.0
_NOWHERE = "fake.invalid/trainer:0"


def kwok_program() -> Path:
    """Return kwok, built if it is not there."""
    cache = binaries.programs_folder(os.environ)
    return binaries.ensure([binaries.kwok(cache)], Progress())["kwok"]


@contextmanager
def played(kubeconfig: Path, program: Path, log: Path) -> Iterator[None]:
    """Have kwok play the nodes that bear its mark, and no others."""
    log.parent.mkdir(parents=True, exist_ok=True)
    configuration = log.with_suffix(".yaml")
    configuration.write_text(yaml.safe_dump(_KWOK), encoding="utf-8")
    command = [
        str(program), f"--kubeconfig={kubeconfig}", f"--config={configuration}", "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={MARK}=fake",
    ]  # fmt: skip
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def node(index: int) -> Manifest:
    """Return a node that takes only pods that tolerate it."""
    room = {"cpu": "1000", "memory": "4000Gi", "pods": str(PODS_PER_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"fake-{index}",
            "annotations": {MARK: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": f"fake-{index}"},
        },
        "spec": {"taints": [{"key": MARK, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    }


def nodes_for(pods: int) -> list[Manifest]:
    """Return nodes for so many pods, with room to spare."""
    return [node(index) for index in range(2 + pods // (PODS_PER_NODE // 2))]


def template() -> Manifest:
    """Return the template of pods that only such nodes take."""
    return {
        "spec": {
            "containers": [{"name": "trainer", "image": _NOWHERE, "resources": {"limits": {"cpu": "100m"}}}],
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"key": MARK, "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
        }
    }


def job(name: str, workers: int) -> Manifest:
    """Return a job whose workers all have to be there before it is ready."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {
            "batch": {"global": 64 * workers},
            "workers": [{"name": "w", "replicas": workers, "template": template()}],
            "membership": {"minWorkers": workers},
        },
    }


def bare_pods(jobs: int, workers: int, namespace: str) -> Iterator[Manifest]:
    """Yield the pods that the operator would make for as many jobs, without an owner and without its mark."""
    place = Place(f"wss://nobody.{namespace}.svc", "", restricted=True)
    for index in range(jobs):
        model = OmniLearnJob.from_manifest(job(f"bare{index}", workers) | {})
        for number in range(workers):
            pod = copy.deepcopy(pod_of(model, Worker(model.spec.workers[0], number), 0, place))
            metadata: dict[str, Any] = pod["metadata"]
            metadata.pop("ownerReferences", None)
            metadata["namespace"] = namespace
            metadata["labels"] = {"bare": "true"}
            yield pod


def operator_pod(namespace: str) -> Manifest:
    """Return a pod that stands for the operator's own: the label of the one that leads goes to it."""
    metadata = {"name": POD, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **copy.deepcopy(template())}


def _certificate() -> Manifest:
    """Return the Secret that the chart makes, for the operator to fill."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "omnilearn-certificate"}, "type": "Opaque"}


async def prepare(cluster: Cluster, namespaces: tuple[str, ...], pods: int) -> bool:
    """Make namespaces, nodes and the CRD; return whether the CRD was not there."""
    others = await cluster.every("Deployment", selector="app.kubernetes.io/name=omnilearn-operator")
    if any(each.get("spec", {}).get("replicas") for each in others):
        raise clusters.FailedError("there is an operator in this cluster: helm uninstall it, or scale it to 0")
    crd: Manifest = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    made = True
    try:
        await cluster.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    except RefusedError as error:
        if error.status != 409:
            raise
        made = False
    for each in namespaces:
        await cluster.create("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}})
    async with asyncio.timeout(_ACCOUNT_SECONDS):
        for each in namespaces:
            while not await cluster.every("Account", each):  # noqa: ASYNC110 - before that, no pod is taken
                await asyncio.sleep(0.2)
    await cluster.create("Secret", _certificate(), namespaces[0])
    await cluster.create_all("Node", nodes_for(pods))
    return made


async def clear(cluster: Cluster, namespaces: tuple[str, ...], *, crd: bool) -> None:
    """Take away everything that was made, also by a run that was ended by force."""
    for each in namespaces:
        for kind in (names.KIND, "Pod", "Service", "NetworkPolicy"):
            await cluster.delete_all(kind, each, grace=0)
        await cluster.delete("Namespace", each)
    await cluster.delete_all("Node", selector="type=kwok")
    if crd:
        await cluster.delete("CustomResourceDefinition", names.CRD_NAME)
