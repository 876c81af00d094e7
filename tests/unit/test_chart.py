"""What must be true of the Helm chart as it is written; test_chart_rendered.py has what Helm makes of it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from scripts.chart import CHART, crd_template, generated, leaves

from omnilearn_coordinator.metrics import series
from omnilearn_operator.metrics import Numbers, Shown

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
# What Kubernetes or another chart defines, and may extend
FOREIGN = {"global", "nodeAffinity", "podAffinity", "podAntiAffinity"}


def objects(schema: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every part of a schema that describes an object."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield name, schema
        for key, part in schema.items():
            yield from objects(part, key if key not in ("items", "properties") else name)


def metric_names() -> set[str]:
    """Return the names of all series, counters as Prometheus calls them."""
    nobody: Any = SimpleNamespace(jobs={})
    own = Numbers(lambda: Shown(nobody, lambda: iter(()), 0, {}), lambda: 0, dict)
    families = asyncio.run(_collected(own)) + list(series({}, ("namespace", "job")))
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


async def _collected(collector: Collector) -> list[Metric]:
    return list(collector.collect())


def waiting() -> ModuleType:
    """Return the script by which `helm test` waits."""
    spec = importlib.util.spec_from_file_location("wait", CHART / "files" / "wait.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", list(generated()), ids=lambda file: file.name)
def test_what_is_generated_is_not_stale(file: Path) -> None:
    assert file.read_text() == generated()[file], "run make generate"


def test_braces_in_the_crd_are_no_template() -> None:
    assert '"say {{ "{{" }}x}}"' in crd_template('metadata:\n  name: x\nspec:\n  text: "say {{x}}"\n')


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


def test_every_value_is_described_and_every_described_value_has_a_default() -> None:
    def paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for name, value in values.items():
            yield from paths(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]

    described = [path for path, _, _ in leaves(SCHEMA, VALUES)]
    assert all(any(path == each or path.startswith(f"{each}.") for each in described) for path in paths(VALUES))
    assert set(SCHEMA["properties"]) - set(VALUES) == {"global"}


def test_every_object_of_the_schema_refuses_what_it_does_not_know() -> None:
    found = [(name, part.get("additionalProperties", True)) for name, part in objects(SCHEMA)]
    assert len(found) > 20
    assert {name for name, others in found if others is True} == FOREIGN


@pytest.mark.parametrize("file", ["files/dashboard.json", "templates/monitoring.yaml"])
def test_dashboard_and_alerts_speak_of_metrics_that_exist(file: str) -> None:
    used = set(re.findall(r"\bomnilearn_\w+", (CHART / file).read_text()))
    assert used
    assert used <= metric_names()


def test_the_dashboard_shows_every_metric_of_a_worker() -> None:
    used = set(re.findall(r"\bomnilearn_\w+", (CHART / "files" / "dashboard.json").read_text()))
    assert {"omnilearn_share", "omnilearn_samples_per_second", "omnilearn_step_seconds", "omnilearn_imbalance"} <= used


@pytest.mark.parametrize(
    ("conditions", "ending"),
    [
        ([], None),
        ([{"type": "Complete", "status": "False"}], None),
        ([{"type": "Complete", "status": "True", "message": "all samples"}], (0, "Complete: all samples")),
        ([{"type": "Failed", "status": "True", "message": "no image"}], (1, "Failed: no image")),
    ],
    ids=["nothing yet", "not complete", "complete", "failed"],
)
def test_helm_test_ends_as_its_job_does(conditions: list[dict[str, str]], ending: tuple[int, str] | None) -> None:
    assert waiting().ending({"conditions": conditions}) == ending


def test_helm_test_says_so_when_the_operator_has_not_seen_its_job() -> None:
    assert waiting().words({}) == "not seen by the operator yet, step 0"
