"""Which cluster is made where: a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import disk, packages
from cluster.binaries import Build
from cluster.errors import FailedError, ImpossibleError
from cluster.handle import Cluster
from cluster.machine import Machine, Provider, choose

NODE = Machine(kubeconfig="", docker=False, linux=True, root=True, apt=True, missing=("etcd-server",))


@pytest.mark.parametrize(
    ("machine", "provider"),
    [
        (NODE, Provider.NODE),
        (dataclasses.replace(NODE, apt=False, missing=()), Provider.NODE),
        (dataclasses.replace(NODE, docker=True), Provider.KIND),
        (dataclasses.replace(NODE, docker=True, linux=False, root=False), Provider.KIND),
        (dataclasses.replace(NODE, docker=True, kubeconfig="/a"), Provider.GIVEN),
    ],
)
def test_the_first_provider_that_can_be_had_is_taken(machine: Machine, provider: Provider) -> None:
    assert choose(machine) == provider


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (dataclasses.replace(NODE, linux=False), "on Linux only"),
        (dataclasses.replace(NODE, root=False), "by root only"),
        (dataclasses.replace(NODE, apt=False), "install what Debian calls etcd-server"),
    ],
)
def test_a_machine_without_any_hears_why(machine: Machine, reason: str) -> None:
    with pytest.raises(ImpossibleError, match=reason):
        choose(machine)


def test_packages_are_missing_when_their_programs_are() -> None:
    def find(program: str) -> str | None:
        return None if program in ("ctr", "containerd", "iptables") else f"/usr/bin/{program}"

    assert packages.missing(find, lambda: None) == ("containerd", "containernetworking-plugins", "iptables")


class TestServicesOfPackages:
    @pytest.fixture
    def policy(self, tmp_path: Path) -> Path:
        return tmp_path / "policy-rc.d"

    def test_they_are_forbidden_meanwhile(self, policy: Path) -> None:
        with packages.no_services(policy):
            assert policy.read_text(encoding="utf-8").endswith("exit 101\n")
            assert policy.stat().st_mode & 0o111
        assert not policy.exists()

    def test_somebody_elses_policy_comes_back(self, policy: Path) -> None:
        policy.write_text("theirs", encoding="utf-8")
        with packages.no_services(policy):
            assert policy.read_text(encoding="utf-8") != "theirs"
        assert policy.read_text(encoding="utf-8") == "theirs"
        assert list(policy.parent.iterdir()) == [policy]

    def test_a_crash_meanwhile_is_undone_by_the_next_run(self, policy: Path) -> None:
        policy.write_text("theirs", encoding="utf-8")
        crashed = packages.no_services(policy)
        crashed.__enter__()
        packages.allow_services(policy)
        assert policy.read_text(encoding="utf-8") == "theirs"


class TestDisk:
    PLACES = (Path("/cache"), Path("/cluster"))

    @pytest.fixture
    def build(self) -> Callable[[float], Build]:
        return lambda gigabytes: Build("x", "v1", Path("/cache/x"), ("x",), (), gigabytes=gigabytes)

    def test_what_is_built_already_needs_no_room(self) -> None:
        assert disk.needs([], *self.PLACES) == {Path("/cluster"): disk.RUNNING_GIGABYTES}

    def test_needs_on_one_device_add_up(self, build: Callable[[float], Build]) -> None:
        needed = disk.needs([build(6.0), build(2.0)], *self.PLACES)
        sentence = disk.lacking(needed, dict.fromkeys(self.PLACES, (1, 10.0)))
        assert sentence == "/cluster and /cache: 11.0 GB are needed, 10.0 GB are free: make room"

    def test_needs_on_two_devices_do_not(self, build: Callable[[float], Build]) -> None:
        needed = disk.needs([build(6.0), build(2.0)], *self.PLACES)
        assert disk.lacking(needed, {Path("/cache"): (1, 10.0), Path("/cluster"): (2, 5.0)}) is None


def test_a_given_cluster_says_that_it_takes_no_archive() -> None:
    with pytest.raises(FailedError, match="push them to a registry"):
        Cluster("given", Path("k"), Path("kubectl"), Path("helm"), Path("loaded")).load_archive(Path("a.tar"))
