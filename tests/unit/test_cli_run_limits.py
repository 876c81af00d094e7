"""CPU limits of a local run: where the kernel takes them, and what is written there."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from omnilearn_cli.local import cgroups
from omnilearn_cli.local.cgroups import Place
from omnilearn_cli.local.limits import Limits, open_limits, sweep

V1 = """\
31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_1_is_found_by_its_controller() -> None:
    found = cgroups.places("4:memory:/x\n1:cpu,cpuacct:/user\n0::/\n", V1)
    assert found[0] == Place(1, Path("/sys/fs/cgroup/cpu,cpuacct/user"))


def test_version_2_is_found_inside_and_beside_the_own_group() -> None:
    found = cgroups.places("0::/user.slice/session.scope\n", V2)
    inside = Path("/sys/fs/cgroup/user.slice/session.scope")
    assert found == [Place(2, inside), Place(2, inside.parent)]


def test_beside_the_root_there_is_nothing() -> None:
    assert cgroups.places("0::/\n", V2) == [Place(2, Path("/sys/fs/cgroup"))]


@pytest.mark.parametrize("path", ["/docker/abc", "/docker/abc/own", "/elsewhere"])
def test_a_container_sees_only_its_part_of_the_hierarchy(path: str) -> None:
    mounts = "31 30 0:26 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    place = cgroups.places(f"1:cpu:{path}\n", mounts)[0]
    assert place.folder == Path("/sys/fs/cgroup/cpu") / ("own" if path.endswith("own") else "")


def test_a_machine_without_cgroups_has_no_place() -> None:
    assert cgroups.places("", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n") == []


@pytest.mark.parametrize(
    ("version", "cpus", "written"),
    [
        (1, 0.5, [("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "10000")]),
        (1, None, [("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "-1")]),
        (2, 1.5, [("cpu.max", "30000 20000")]),
        (2, None, [("cpu.max", "max 20000")]),
        (2, 0.001, [("cpu.max", "1000 20000")]),
    ],
)
def test_a_limit_is_a_quota_of_a_period(version: int, cpus: float | None, written: list[tuple[str, str]]) -> None:
    assert cgroups.settings(version, cpus) == written


def test_a_worker_has_a_group_of_its_own_that_can_be_changed(tmp_path: Path) -> None:
    limits = Limits(Place(2, tmp_path), 42)
    assert limits.make("w", 0.5) == tmp_path / "omnilearn-42-w" / "cgroup.procs"
    limits.change("w", 2.0)
    assert (tmp_path / "omnilearn-42-w" / "cpu.max").read_text() == "40000 20000"


def test_without_a_place_nothing_is_limited_and_somebody_is_told() -> None:
    limits = Limits(None, 42)
    assert limits.make("w", 0.5) is None
    assert "CPU limits are not enforced" in (limits.warning or "")


def test_groups_of_dead_launchers_are_swept_away(tmp_path: Path) -> None:
    for name in ("omnilearn-7-w", "omnilearn-8-w", "other-7-w"):
        (tmp_path / name).mkdir()
    sweep(tmp_path, ["8"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["omnilearn-8-w", "other-7-w"]


def fake_proc(tmp_path: Path) -> Path:
    """Return a /proc that says: version 1, mounted in the folder `cpu`."""
    own = tmp_path / "proc" / "self"
    own.mkdir(parents=True)
    (own / "cgroup").write_text("1:cpu:/\n")
    (own / "mountinfo").write_text(f"31 30 0:26 / {tmp_path / 'cpu'} rw - cgroup cgroup rw,cpu\n")
    return tmp_path / "proc"


def test_a_folder_that_is_no_cgroup_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    limits = open_limits(1, fake_proc(tmp_path))
    assert not limits.enforced
    assert list((tmp_path / "cpu").iterdir()) == []


def test_a_machine_without_proc_has_no_limits(tmp_path: Path) -> None:
    assert not open_limits(1, tmp_path).enforced


@pytest.mark.skipif(not open_limits(os.getpid()).enforced, reason="no cgroup can be made here")
def test_a_limit_holds_from_the_first_moment_and_can_be_changed() -> None:
    limits = open_limits(os.getpid())
    procs = limits.make("burner", 0.1)
    command = ["/bin/sh", "-c", f"echo $$ >{procs}; while :; do :; done"]
    burner = subprocess.Popen(command)

    def used() -> float:
        fields = Path(f"/proc/{burner.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    try:
        time.sleep(1.0)
        assert used() < 0.3
        limits.change("burner", None)
    finally:
        burner.kill()
        burner.wait()
        limits.remove("burner")
    assert procs is not None
    assert not procs.parent.exists()
