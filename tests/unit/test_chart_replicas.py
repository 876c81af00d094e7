"""What the chart makes of one operator and of several."""

from __future__ import annotations

from typing import Any

import pytest

from omnilearn_core.api import names
from omnilearn_operator.settings import LEASE_SECONDS
from rendered_chart import installed, needs_helm, of_kind, only, pod_of, rendering, variables

pytestmark = needs_helm
SEVERAL = "replicas=2"


def deployment(*settings: str) -> Any:
    return only(installed(*settings), "Deployment")["spec"]


def test_a_single_operator_ends_before_the_next_begins() -> None:
    spec = deployment()
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_of_several_operators_none_goes_before_another_is_ready() -> None:
    spec = deployment(SEVERAL)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (spec["replicas"], spec["strategy"]) == (2, rolling)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [((), "60"), ((SEVERAL,), "10"), (("lease.seconds=30",), "30"), ((SEVERAL, "lease.seconds=30"), "30")],
)
def test_a_lease_is_short_where_somebody_waits_for_it(settings: tuple[str, ...], seconds: str) -> None:
    assert variables(installed(*settings))["OMNILEARN_LEASE_SECONDS"] == seconds


@pytest.mark.parametrize("seconds", [*LEASE_SECONDS, 0])
def test_the_chart_takes_what_the_operator_takes(seconds: int) -> None:
    assert rendering(f"lease.seconds={seconds}")[1] == ""


@pytest.mark.parametrize("seconds", [LEASE_SECONDS[0] - 1, LEASE_SECONDS[1] + 1])
def test_the_chart_refuses_what_the_operator_refuses(seconds: int) -> None:
    assert "seconds" in rendering(f"lease.seconds={seconds}")[1]


def test_workers_find_the_operator_that_leads_and_metrics_come_from_all() -> None:
    objects = installed(SEVERAL)
    lease = variables(objects)["OMNILEARN_LEASE"]
    selectors = {each["metadata"]["name"]: each["spec"]["selector"] for each in of_kind(objects, "Service")}
    assert selectors["omnilearn-coordinator"] == selectors["omnilearn-metrics"] | {names.LEADER_LABEL: lease}
    assert names.LEADER_LABEL not in pod_of(objects)["metadata"]["labels"]


def test_each_operator_knows_which_pod_it_is() -> None:
    told = {each["name"]: each for each in pod_of(installed())["spec"]["containers"][0]["env"]}
    paths = [told[name]["valueFrom"]["fieldRef"]["fieldPath"] for name in ("OMNILEARN_POD", "OMNILEARN_POD_UID")]
    assert paths == ["metadata.name", "metadata.uid"]


def test_several_operators_are_evicted_one_at_a_time_and_would_rather_be_on_different_nodes() -> None:
    objects = installed(SEVERAL)
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    (term,) = pod_of(objects)["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert (
        term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= pod_of(objects)["metadata"]["labels"].items()
    )
    assert "affinity" not in pod_of(installed())["spec"]


def test_a_single_operator_is_protected_only_if_asked_for() -> None:
    assert not of_kind(installed(), "PodDisruptionBudget")
    assert only(installed("podDisruptionBudget.enabled=true"), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 0


def test_an_affinity_of_the_user_s_takes_the_place_of_ours() -> None:
    wanted = installed(SEVERAL, "affinity.nodeAffinity.x=y")
    assert pod_of(wanted)["spec"]["affinity"] == {"nodeAffinity": {"x": "y"}}


def test_the_lease_goes_with_the_release_and_says_nothing_of_who_leads() -> None:
    objects = installed()
    lease = only(objects, "Lease")
    assert lease["metadata"]["name"] == variables(objects)["OMNILEARN_LEASE"]
    assert "spec" not in lease
