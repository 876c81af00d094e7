"""Finding, starting and removing what the node is made of."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from cluster import (
    cgroups,
    dns,
    files,
    images,
    init,
    layout,
    network,
    objects,
    processes,
    readiness,
    starting,
    teardown,
)
from cluster.component import Component
from cluster.layout import Places
from cluster.processes import DIGEST, NAME, Process
from cluster.progress import Progress

FOLDER = Path("/srv/c")
INIT = ("/usr/bin/python3", "-I", "/x/tests/cluster/init.py", "/srv/c")
FIRST = Process(10, "pid:[2]", INIT, {})
OUTER = Process(9, "pid:[1]", ("unshare", *INIT), {})
CONTAINERD = Process(11, "pid:[2]", ("/usr/bin/containerd", "--config=x"), {NAME: "containerd", DIGEST: "d"})
SHIM = Process(12, "pid:[2]", ("/usr/bin/containerd-shim", "-id"), {NAME: "containerd", DIGEST: "d"})
POD = Process(13, "pid:[3]", ("/pause",), {})
EVERYBODY = [OUTER, FIRST, CONTAINERD, SHIM, POD]


class TestProcesses:
    def test_the_first_process_is_the_one_inside(self) -> None:
        assert processes.first_of_nodes(EVERYBODY, "pid:[1]") == {FOLDER: FIRST}

    def test_the_node_is_gone_when_the_one_who_started_it_is(self) -> None:
        assert processes.left_of_node([OUTER, POD], FOLDER, "pid:[2]") == [OUTER]
        assert processes.left_of_node([POD], FOLDER, "pid:[2]") == []

    def test_processes_without_words_are_nobody(self) -> None:
        assert processes.first_of_nodes([Process(2, "pid:[2]", (), {})], "pid:[1]") == {}

    def test_a_child_that_inherits_the_name_is_not_the_component(self) -> None:
        assert processes.components(EVERYBODY, "pid:[2]", {"containerd": "/usr/bin/containerd"}) == {
            "containerd": CONTAINERD
        }

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows its processes as files")
    def test_this_process_can_be_seen(self) -> None:
        everybody = list(processes.everything())
        assert processes.own_space() in {process.space for process in everybody}


def test_what_does_not_run_or_runs_otherwise_is_started() -> None:
    same, other, absent = (Component(name, (f"/{name}",)) for name in ("same", "other", "absent"))
    running = {
        "same": Process(1, "", (), {DIGEST: same.digest}),
        "other": Process(2, "", (), {DIGEST: "of yesterday"}),
    }
    assert starting.stale([same, other, absent], running) == [other, absent]


class TestFirstProcess:
    def test_it_keeps_the_clusters_folder_and_hides_its_surroundings(self) -> None:
        commands = init.own_files(FOLDER)
        hides = commands.index(("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib"))
        assert commands.index(("mount", "--bind", "/srv/c", "/run/omnilearn/folder")) < hides
        assert commands.index(("mount", "--move", "/run/omnilearn/folder", "/srv/c")) > hides

    def test_it_lets_go_of_the_mounts_of_others(self) -> None:
        mounts = """\
overlay / overlay rw 0 0
proc /proc proc rw 0 0
devpts /dev/pts devpts rw 0 0
/dev/vda /home ext4 rw 0 0
overlay /home/a/merged overlay rw 0 0
proc /home/a/merged/my\\040proc proc rw 0 0
nsfs /run/netns/x nsfs rw 0 0
overlay /srv overlay rw 0 0
"""
        assert init.foreign(mounts, FOLDER) == ["/home/a/merged/my proc", "/home/a/merged", "/run/netns/x"]

    def test_nothing_is_mounted_before_this_machine_is_out_of_reach(self) -> None:
        assert init.own_files(FOLDER)[0] == ("mount", "--make-rprivate", "/")

    def test_settings_of_the_whole_machine_are_replaced_by_copies(self) -> None:
        assert init.own_settings(["vm/panic_on_oom"]) == [
            ("cp", "/proc/sys/vm/panic_on_oom", "/run/omnilearn/settings/vm.panic_on_oom"),
            ("mount", "--bind", "/run/omnilearn/settings/vm.panic_on_oom", "/proc/sys/vm/panic_on_oom"),
        ]

    def test_it_needs_the_standard_library_alone(self) -> None:
        words = [sys.executable, "-I", "-c", f"import runpy; runpy.run_path({init.__file__!r}, run_name='x')"]
        subprocess.run(words, check=True, timeout=60)


class TestNetwork:
    ADDRESSES = layout.addresses({})

    def test_the_node_has_no_way_out(self) -> None:
        routes = [words for words in network.node_commands(self.ADDRESSES, []) if words[1] == "route"]
        assert [words[3] for words in routes] == ["10.214.128.0/18"]

    def test_this_machine_gets_one_route_and_it_is_the_clusters(self) -> None:
        routes = [words for words in network.host_commands(self.ADDRESSES) if words[1] == "route"]
        assert [words[3:] for words in routes] == [("10.214.0.0/16", "via", "10.214.0.2", "dev", "omnilearn0")]

    def test_an_interface_that_is_there_is_not_added_again(self) -> None:
        added = [words for words in network.node_commands(self.ADDRESSES, ["lo", "services"]) if words[2] == "add"]
        assert added == []


class TestRemoval:
    def test_control_groups_of_both_versions_are_found(self) -> None:
        groups = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
        mounts = f"{groups}proc /proc proc rw 0 0\n"
        assert cgroups.hierarchies(mounts) == [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/unified")]

    @pytest.fixture
    def places(self, tmp_path: Path) -> Places:
        places = Places(tmp_path / "cluster")
        for folder in (places.images / "blobs", places.keys, places.logs):
            folder.mkdir(parents=True)
        places.kubectl.symlink_to("nowhere")
        places.kubeconfig.touch()
        places.loaded.touch()
        return places

    def test_images_and_logs_stay(self, places: Places) -> None:
        places.mark.touch()
        teardown.delete(places, everything=False)
        assert sorted(places.folder.iterdir()) == sorted((places.mark, places.images, places.loaded, places.logs))
        assert (places.images / "blobs").exists()

    def test_everything_goes_if_asked_for(self, places: Places) -> None:
        places.mark.touch()
        teardown.delete(places, everything=True)
        assert not places.folder.exists()

    def test_a_folder_that_is_not_ours_is_left_alone(self, places: Places) -> None:
        before = sorted(places.folder.rglob("*"))
        teardown.delete(places, everything=True)
        assert sorted(places.folder.rglob("*")) == before


class TestReadiness:
    SINCE = datetime(2026, 11, 16, 12, 0, 0, 500, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("", False),
            ("False 2026-11-16T12:00:01Z", False),
            ("True 2026-11-16T11:59:59Z", False),
            ("True 2026-11-16T12:00:00Z", True),
        ],
    )
    def test_only_the_word_of_the_kubelet_that_runs_now_counts(self, answer: str, expected: bool) -> None:
        assert readiness.heard(answer, self.SINCE) is expected

    def test_a_kubelet_that_was_not_started_anew_is_believed(self) -> None:
        assert readiness.heard("True 2020-01-01T00:00:00Z", None)


class TestNames:
    def test_a_question_has_the_labels_of_the_name(self) -> None:
        assert dns.question("a.bc").endswith(b"\x01a\x02bc\x00\x00\x01\x00\x01")

    def test_an_answer_ends_with_the_address(self) -> None:
        head = struct.pack("!HHHHHH", 7, 0x8180, 1, 1, 0, 0)
        assert dns.answer(head + b"rest" + bytes([10, 214, 128, 1])) == IPv4Address("10.214.128.1")

    def test_a_refusal_is_no_answer(self) -> None:
        assert dns.answer(struct.pack("!HHHHHH", 7, 0x8183, 1, 0, 0, 0) + b"rest") is None


class TestPauseImage:
    def test_it_is_the_same_for_the_same_program(self) -> None:
        assert images.archive("a:1", b"program", "amd64") == images.archive("a:1", b"program", "amd64")

    def test_its_manifest_names_what_is_in_it(self) -> None:
        with tarfile.open(fileobj=io.BytesIO(images.archive("a:1", b"program", "amd64"))) as tar:
            read = {member.name: tar.extractfile(member) for member in tar.getmembers()}
            manifest = json.loads(read["manifest.json"].read())[0]  # type: ignore[union-attr]
            configuration = json.loads(read[manifest["Config"]].read())  # type: ignore[union-attr]
        assert manifest["RepoTags"] == ["a:1"]
        assert set(manifest["Layers"]) < set(read)
        assert configuration["config"]["User"] == "65535:65535"


def test_the_node_gets_devices_that_it_can_give_away() -> None:
    status = json.loads(objects.devices())["status"]
    assert status["capacity"] == status["allocatable"] == {"example.com/gpu": "2"}


def test_the_dns_server_may_only_look() -> None:
    role = json.loads(objects.dns_rights())["items"][0]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    assert "secrets" not in {resource for rule in role["rules"] for resource in rule["resources"]}


def test_what_a_crash_has_left_does_not_disturb_a_write(tmp_path: Path) -> None:
    (tmp_path / "a.unfinished").symlink_to("nowhere")
    files.write(tmp_path / "a", "text", mode=0o600)
    assert (tmp_path / "a").read_text(encoding="utf-8") == "text"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_a_step_says_what_it_was_and_how_long_it_took() -> None:
    lines: list[str] = []
    times = iter([0.0, 1.0, 3.5])
    with Progress(lines.append, lambda: next(times)).step("building"):
        pass
    assert lines == ["cluster:     2.5 s building"]


def test_a_long_step_says_so_before_it_begins() -> None:
    lines: list[str] = []
    times = iter([0.0, 1.0, 3.5])
    with Progress(lines.append, lambda: next(times)).step("building", "6 minutes"):
        assert lines == ["cluster:           building (6 minutes)"]
