"""Pods on a cluster: python -m benchmarks.pods [--quick] [--json FILE]. Needs `make cluster-up` and the operator.

Four pods with the CPU limits of a heterogeneity level train one model together, in turn with the same four pods that
train alone at the same time (so that the node is as busy). The ratio of their speeds is what training together costs.
Then pods are killed, and the time to the survivors' next step is read from their logs: all share the node's clock.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from .goals import Verdict
from .layouts import CORES
from .printing import console, goals_table, options_of, write_figures

NAMESPACE = "omnilearn-benchmark"
SYSTEM = "omnilearn-system"
IMAGE = "omnilearn-runtime:0.1.0"
_CPUS = 1.6
_LEVEL = 4
_LOOK_SECONDS = 0.2
_READY_SECONDS = 300.0
_BATCH = 512
_WATCHED = "together-w3-0-0"
_SCRIPT = Path(__file__).with_name("pods_train.py")
_KILL = """
import os, pathlib, signal, time
for each in pathlib.Path("/proc").iterdir():
    if each.name.isdigit() and b"train.py" in (each / "cmdline").read_bytes() and each.name != str(os.getpid()):
        print(time.time(), flush=True)
        os.kill(int(each.name), signal.SIGKILL)
"""

Manifest = dict[str, Any]


def main() -> None:
    """Measure, print, and write down."""
    options = options_of("pods", "Pods together against pods alone.").parse_args()
    rounds, seconds = (1, 20.0) if options.quick else (3, 40.0)
    kubectl("create", "namespace", NAMESPACE, check=False)
    kubectl("apply", "--server-side", "--filename", "-", given=json.dumps(script()))
    try:
        results = measure(rounds, seconds)
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--wait=false", check=False)
    verdicts = judge(results)
    console().print(goals_table("Pods", verdicts))
    if options.json:
        write_figures(options.json, results, verdicts)


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """Return the speeds of each round, and the times of the faults."""
    ratios, starts, kills = [], [], []
    for number in range(rounds):
        with jobs(alone()):
            apart = speed([f"alone{index}" for index in range(4)], seconds)
        began = time.time()
        with jobs([together()]):
            until(lambda: bool(steps(_WATCHED)), _READY_SECONDS)
            starts.append(steps(_WATCHED)[0] - began)
            speed(["together"], seconds)  # until the shares have settled
            joined = speed(["together"], seconds)
            kills += [kill(each) for each in ("together-w1-0-0", "together-w2-0-0")]
        ratios.append(joined / apart)
        print(f"… round {number + 1}: {joined:.0f} samples/s together, {apart:.0f} apart: {ratios[-1]:.3f}", flush=True)
    return {"ratios": ratios, "firstStepSeconds": starts, "killSeconds": kills, "operatorMegabytes": operator_memory()}


def judge(results: dict[str, Any]) -> list[Verdict]:
    """Return what was wanted and what was measured."""
    ratio, kill_, first = (median(results[name]) for name in ("ratios", "killSeconds", "firstStepSeconds"))
    worst = max(results["killSeconds"])
    return [
        Verdict(f"pods together over pods alone, HL{_LEVEL}", "≥ 0.95", f"{ratio:.3f}", ratio >= 0.95),
        Verdict("pod killed → survivors' next step", "< 1 s", f"{kill_:.2f} s, worst {worst:.2f} s", kill_ < 1.0),
        Verdict("apply → first committed step", "–", f"{first:.1f} s", True),
        Verdict("memory of the operator", "–", f"{results['operatorMegabytes']:.0f} MB", True),
    ]


def cpus() -> list[float]:
    """Return the CPU limits of the four pods."""
    cores = CORES[_LEVEL]
    return [_CPUS * each / sum(cores) for each in cores]


def script() -> Manifest:
    """Return the training script as an object that pods can mount."""
    metadata = {"name": "script", "namespace": NAMESPACE}
    data = {"train.py": _SCRIPT.read_text(encoding="utf-8")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def group(name: str, limit: float) -> Manifest:
    """Return a group of one worker."""
    trainer = {
        "name": "trainer",
        "image": IMAGE,
        "command": ["python", "/script/train.py"],
        "resources": {"limits": {"cpu": f"{1000 * limit:.0f}m", "memory": "2Gi"}},
        "volumeMounts": [{"name": "script", "mountPath": "/script"}],
    }
    volumes = [{"name": "script", "configMap": {"name": "script"}}]
    # The script is not the first process of its pod, so that it can be killed from within.
    spec = {"shareProcessNamespace": True, "containers": [trainer], "volumes": volumes}
    return {"name": name, "template": {"spec": spec}}


def job(name: str, batch: int, *groups: Manifest) -> Manifest:
    """Return a job."""
    return {
        "apiVersion": "omnilearn.dev/v1alpha1",
        "kind": "OmniLearnJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "batch": {"global": batch},
            "workers": list(groups),
            "membership": {"minWorkers": len(groups)},
            "restart": {"maxFailures": 100},
        },
    }


def together() -> Manifest:
    """Return the job of all four pods."""
    made = job("together", _BATCH, *(group(f"w{index}", limit) for index, limit in enumerate(cpus())))
    made["spec"]["membership"]["minWorkers"] = 2  # it goes on when one is killed
    return made


def alone() -> list[Manifest]:
    """Return a job for each pod, with the batch that it would have in the common one."""
    total = sum(cpus())
    return [
        job(f"alone{index}", round(_BATCH * limit / total), group("w", limit)) for index, limit in enumerate(cpus())
    ]


@contextmanager
def jobs(manifests: list[Manifest]) -> Iterator[None]:
    """Run jobs, and wait until nothing of them is left."""
    for each in manifests:
        kubectl("apply", "--server-side", "--filename", "-", given=json.dumps(each))
    try:
        yield
    finally:
        kubectl("--namespace", NAMESPACE, "delete", "olj", "--all", "--wait=false")
        until(lambda: not kubectl("--namespace", NAMESPACE, "get", "pods", "--output", "name").split(), _READY_SECONDS)


def speed(names: list[str], seconds: float) -> float:
    """Return the samples per second of some jobs together, over a while in which all of them train."""
    until(lambda: all(samples().get(name, 0) > 0 for name in names), _READY_SECONDS)
    before, begun = samples(), time.monotonic()
    time.sleep(seconds)
    after, took = samples(), time.monotonic() - begun
    return sum(after[name] - before[name] for name in names) / took


def kill(pod: str) -> float:
    """Kill the script of a pod; return how long it took until another one's next step."""
    said = kubectl("--namespace", NAMESPACE, "exec", pod, "--", "python", "-c", _KILL, check=False)
    at = float(said.split()[0])
    until(lambda: steps(_WATCHED)[-1] > at, _READY_SECONDS)
    until(lambda: members("together") == 4, _READY_SECONDS)  # the next kill meets a job that is whole again
    return next(each for each in steps(_WATCHED) if each > at) - at


def steps(pod: str) -> list[float]:
    """Return the times of a pod's steps, from its log."""
    said = kubectl("--namespace", NAMESPACE, "logs", pod, check=False)
    return [float(each) for each in re.findall(r"^step \d+ at ([0-9.]+)$", said, re.MULTILINE)]


def scraped() -> str:
    """Return the operator's metrics."""
    pods = kubectl(
        "--namespace", SYSTEM, "get", "pods", "--selector", "app.kubernetes.io/name=omnilearn-operator",
        "--output", "jsonpath={.items[0].metadata.name}",
    )  # fmt: skip
    return kubectl("get", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{pods.strip()}:9090/proxy/metrics")


def samples() -> dict[str, float]:
    """Return how many samples each job has committed."""
    found = re.findall(r'^omnilearn_samples{job="([^"]+)",namespace="([^"]+)"} ([0-9.e+]+)$', scraped(), re.MULTILINE)
    return {name: float(count) for name, namespace, count in found if namespace == NAMESPACE}


def members(job: str) -> int:
    """Return how many members a job has."""
    return len(re.findall(rf'^omnilearn_share{{job="{job}",namespace="{NAMESPACE}"', scraped(), re.MULTILINE))


def operator_memory() -> float:
    """Return the resident memory of the operator in megabytes."""
    found = re.search(r"^process_resident_memory_bytes ([0-9.e+]+)$", scraped(), re.MULTILINE)
    return float(found[1]) / 1e6 if found else 0.0


def until(true: Callable[[], bool], seconds: float) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"what was waited for did not happen within {seconds:g} s")
        time.sleep(_LOOK_SECONDS)


def kubectl(*words: str, given: str | None = None, check: bool = True) -> str:
    """Run kubectl, by the path of KUBECTL if it is set."""
    command = [os.environ.get("KUBECTL", "kubectl"), *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    if check and done.returncode:
        raise RuntimeError(f"kubectl {' '.join(words[:4])}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
