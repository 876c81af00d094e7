"""Every example of a strategy trains on pods, by `kubectl apply` of the same file that `omnilearn run` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from .jobs import REQUESTS
from .kube import Kube

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "strategies").glob("*.yaml"))
# Auto needs some seconds until it has chosen.
_EPOCHS = dict.fromkeys((file.stem for file in EXAMPLES), 3) | {"auto": 18}


def shortened(file: Path) -> dict[str, Any]:
    """Return the job of an example, with fewer epochs."""
    job: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    for group in job["spec"]["workers"]:
        for container in group["template"]["spec"]["containers"]:
            kept = [each for each in container.get("env", []) if each["name"] != "EPOCHS"]
            container["env"] = [*kept, {"name": "EPOCHS", "value": str(_EPOCHS[file.stem])}]
            container["resources"]["requests"] = REQUESTS
    return job


@pytest.fixture(scope="module")
def training(shared_kube: Kube) -> Kube:
    """A namespace in which all of them train at once."""
    for file in EXAMPLES:
        shared_kube.apply(shortened(file))
    return shared_kube


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_completes_with_every_sample_counted_once(training: Kube, file: Path) -> None:
    kube, job = training, shortened(file)
    name = job["metadata"]["name"]
    kube.until("complete", lambda: kube.condition(name, "Complete").get("status") == "True", 360)
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in kube.pods(name)]
    said = [json.loads(each["message"]) for each in ends if each["exitCode"] == 0]
    assert said
    samples = 1437 * _EPOCHS[file.stem]
    assert {(each["lost"], each["doubled"], each["samples"]) for each in said} == {(0, 0, samples)}
    assert len({each["parameterHash"] for each in said}) == 1
    status = kube.status(name)
    assert status["rounds"] > 0
    chosen = status.get("strategy", {})
    assert (job["spec"]["strategy"]["type"] == "Auto") == bool(chosen)
    if chosen:
        assert "an exchange takes" in chosen["why"]
        assert "StrategyChosen" in [reason for reason, _ in kube.events(name)]
