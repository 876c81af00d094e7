"""Addresses and folders of the test cluster."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from cluster import layout
from cluster.errors import ImpossibleError

ADDRESSES = layout.addresses({})


def test_pods_services_and_the_link_do_not_overlap() -> None:
    link = IPv4Network((ADDRESSES.host, 30), strict=False)
    ranges = [link, ADDRESSES.pods, ADDRESSES.services]
    assert ADDRESSES.node in link
    assert not any(a.overlaps(b) for a in ranges for b in ranges if a is not b)
    assert all(each.subnet_of(ADDRESSES.network) for each in ranges)


def test_the_range_can_be_chosen() -> None:
    assert str(layout.addresses({"OMNILEARN_CLUSTER_NETWORK": "172.20.0.0/16"}).node) == "172.20.0.2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("10.0.0.1/16", "give a range such as"), ("8.0.0.0/16", "must be private"), ("10.1.0.0/24", "at least a /20")],
)
def test_a_range_that_will_not_do_is_refused_with_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(ImpossibleError, match=reason):
        layout.addresses({"OMNILEARN_CLUSTER_NETWORK": text})


@pytest.mark.parametrize(
    ("destinations", "taken"),
    [
        (["default", "192.0.2.0/24", "192.0.2.7"], None),
        (["default", "10.214.3.0/24"], "10.214.3.0/24"),
        (["10.0.0.0/8"], "10.0.0.0/8"),
        (["10.214.9.1"], "10.214.9.1"),
    ],
)
def test_a_range_in_use_is_noticed(destinations: list[str], taken: str | None) -> None:
    assert layout.clash(ADDRESSES.network, destinations) == taken


@pytest.mark.parametrize(
    ("environment", "root", "folder"),
    [
        ({}, True, "/var/lib/omnilearn-cluster"),
        ({"XDG_STATE_HOME": "/home/a/state"}, False, "/home/a/state/omnilearn-cluster"),
        ({"OMNILEARN_CLUSTER_DIR": "/srv/c"}, True, "/srv/c"),
    ],
)
def test_the_folder_is_where_one_expects_it(environment: dict[str, str], root: bool, folder: str) -> None:
    assert layout.places(environment, root).folder == Path(folder)


@pytest.mark.parametrize("folder", ["relative", f"/{'long' * 30}", "/run/cluster"])
def test_a_folder_that_will_not_do_is_refused(folder: str) -> None:
    with pytest.raises(ImpossibleError, match="OMNILEARN_CLUSTER_DIR"):
        layout.places({"OMNILEARN_CLUSTER_DIR": folder}, root=True)
