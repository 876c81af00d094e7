"""The CPU quota of a worker, read from trees of files like the kernel's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from omnilearn_runtime.cpu import Threads, cpu_quota


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def tree(root: Path, own: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": own, **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def v1(folder: str, quota: int) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {f"{V2}/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {f"{V2}/cpu.max": "max 100000\n"}, None),
        ("0::/\n", {f"{V2}/cpu.max": "nonsense\n"}, None),
        ("0::/a/b\n", {f"{V2}/a/b/cpu.max": "max 100000\n", f"{V2}/a/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a/b\n", {f"{V2}/a/b/cpu.max": "50000 50000\n", f"{V2}/a/cpu.max": "400000 100000\n"}, 1.0),
        ("0::/../../outside\n", {f"{V2}/cpu.max": "200000 100000\n"}, 2.0),
        ("3:cpu,cpuacct:/x\n0::/\n", v1(f"{V1}/x", 250000), 2.5),
        ("3:cpu,cpuacct:/x\n", v1(f"{V1}/x", -1), None),
        ("3:cpu,cpuacct:/node/pod\n", v1(V1, 300000), 3.0),
        ("3:cpu:/\n", v1(f"{V2}/cpu", 10000), 0.1),
        ("3:cpuset:/\n", v1(f"{V2}/cpuset", 10000), None),
        ("", {}, None),
    ],
)  # fmt: skip
def test_the_smallest_limit_of_the_own_cgroup_and_those_above_counts(
    tmp_path: Path, own: str, files: dict[str, str], quota: float | None
) -> None:
    assert cpu_quota(tree(tmp_path, own, files), {}) == quota


def test_without_cgroups_there_is_no_limit(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path, {}) is None


def test_the_environment_comes_first(tmp_path: Path) -> None:
    root = tree(tmp_path, "0::/\n", {f"{V2}/cpu.max": "150000 100000\n"})
    assert cpu_quota(root, {"OMNILEARN_CPU_QUOTA": "0.25"}) == 0.25


@pytest.mark.parametrize("told", ["many", "0", "-1", "nan", "inf"])
def test_a_quota_that_is_no_number_is_refused(told: str) -> None:
    with pytest.raises(ValueError, match=f"OMNILEARN_CPU_QUOTA is '{told}': set it to a number"):
        cpu_quota(environ={"OMNILEARN_CPU_QUOTA": told})


@pytest.mark.parametrize(("quota", "expected"), [(0.3, 1), (1.0, 1), (1.2, 2)])
def test_threads_are_the_quota_rounded_up(quota: float, expected: int) -> None:
    torch.set_num_threads(3)
    Threads({}).follow(quota)
    assert torch.get_num_threads() == expected


@pytest.mark.parametrize(("quota", "environ"), [(None, {}), (1.0, {"OMP_NUM_THREADS": "3"})])
def test_threads_stay_without_a_quota_or_when_the_user_has_set_them(
    quota: float | None, environ: dict[str, str]
) -> None:
    torch.set_num_threads(3)
    Threads(environ).follow(quota)
    assert torch.get_num_threads() == 3


def test_threads_follow_a_limit_that_changes_if_they_were_set_from_it() -> None:
    threads = Threads({"OMP_NUM_THREADS": "1", "OMNILEARN_THREADS": "1"})
    threads.follow(1.0)
    threads.follow(2.5)
    assert torch.get_num_threads() == 3


def test_threads_that_somebody_changes_stay_until_the_limit_does() -> None:
    threads = Threads({})
    threads.follow(2.0)
    torch.set_num_threads(1)
    threads.follow(2.0)
    assert torch.get_num_threads() == 1
