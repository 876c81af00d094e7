"""The command lines and configuration files of the node's components."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import tomllib
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import binaries, certificates, control_plane, kubeconfigs, node, node_services, versions
from cluster.component import Component, Node, flags
from cluster.layout import CGROUP, Addresses, Places

NODE = Node(
    places=Places(Path("/srv/c")),
    addresses=Addresses(IPv4Network("10.214.0.0/16")),
    programs={name: Path("/cache") / name for name in (*versions.KUBERNETES_PROGRAMS, "etcd", "containerd", "coredns")},
    plugins=Path("/usr/lib/cni"),
)
ALL = [*node.early(NODE), *node.later(NODE)]


def settings(component: Component) -> dict[str, str]:
    """Return the flags of a command line."""
    words = [word.removeprefix("--").partition("=") for word in component.command[1:]]
    return {name: value for name, _, value in words}


def document(component: Component) -> Mapping[str, Any]:
    """Return the configuration file of a component."""
    (text,) = (text for file, text in component.files.items() if file.suffix == ".yaml")
    parsed: Mapping[str, Any] = yaml.safe_load(text)
    return parsed


def test_flags_are_written_with_hyphens() -> None:
    assert flags(Path("/x"), a_b=1) == ("/x", "--a-b=1")


def test_every_component_is_started_once_and_by_the_program_of_its_name() -> None:
    names = [component.name for component in ALL]
    assert sorted(set(names)) == sorted(names)
    assert [Path(component.command[0]).name for component in ALL] == names


@pytest.mark.parametrize("component", ALL, ids=lambda component: component.name)
def test_files_are_written_to_the_clusters_folder_only(component: Component) -> None:
    assert all(file.is_relative_to("/srv/c/configuration") for file in component.files)


def test_a_component_is_started_anew_when_its_words_or_files_change() -> None:
    component = Component("a", ("/a",), {Path("/f"): "1"})
    others = [dataclasses.replace(component, command=("/b",)), dataclasses.replace(component, files={Path("/f"): "2"})]
    assert component.digest == dataclasses.replace(component).digest
    assert component.digest not in {other.digest for other in others}


def test_no_component_listens_to_anybody_but_the_cluster() -> None:
    text = json.dumps([[*component.command, *component.files.values()] for component in ALL])
    assert "0.0.0.0:" not in text
    assert "--bind-address=0.0.0.0" not in text
    assert settings(control_plane.etcd(NODE))["listen-client-urls"].startswith("http://127.0.0.1:")


def test_the_api_server_finds_the_kubelet_by_address_and_is_known_to_it() -> None:
    given = settings(control_plane.api_server(NODE))
    assert given["kubelet-preferred-address-types"] == "InternalIP"
    assert given["kubelet-client-certificate"] == "/srv/c/keys/client.crt"
    assert given["advertise-address"] == "10.214.0.2"


def test_nothing_but_roles_decides_who_may_do_what() -> None:
    assert settings(control_plane.api_server(NODE))["authorization-mode"] == "Node,RBAC"
    kubelet = document(node_services.kubelet(NODE))
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}


def test_the_kubelet_uses_the_group_that_is_made_for_it_and_keeps_images() -> None:
    kubelet = document(node_services.kubelet(NODE))
    assert kubelet["cgroupRoot"] == f"/{CGROUP}"
    assert kubelet["imageGCHighThresholdPercent"] == 100
    assert kubelet["clusterDNS"] == ["10.214.0.2"]


def test_containerd_shares_nothing_with_another_one() -> None:
    parsed = tomllib.loads(node_services.containerd_configuration(NODE))
    cri = parsed["plugins"]["io.containerd.grpc.v1.cri"]
    assert parsed["root"] == "/srv/c/images"
    assert parsed["grpc"]["address"] == "/srv/c/containerd.sock"
    assert parsed["state"].startswith("/run/omnilearn/")
    assert cri["cni"]["conf_dir"].startswith("/srv/c/")
    assert cri["sandbox_image"] == versions.PAUSE_IMAGE


def test_containerd_lowers_no_score_that_it_may_not_lower() -> None:
    parsed = tomllib.loads(node_services.containerd_configuration(NODE))
    assert parsed["plugins"]["io.containerd.grpc.v1.cri"]["restrict_oom_score_adj"] is True


def test_pods_have_routed_links_and_addresses_of_the_range() -> None:
    plugin = json.loads(node_services.network_configuration(NODE))["plugins"][0]
    assert plugin["type"] == "ptp"
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.214.64.0/18"}]]


def test_kube_proxy_leaves_the_kernels_settings_alone() -> None:
    conntrack = document(node_services.proxy(NODE))["conntrack"]
    assert {str(value).rstrip("s") for value in conntrack.values()} == {"0"}


def test_names_outside_of_the_cluster_do_not_exist() -> None:
    inside, outside = re.split(r"^}\n", node_services.dns_configuration(NODE), flags=re.MULTILINE)[:2]
    assert "kubernetes cluster.local" in inside
    assert "template" not in inside
    assert "rcode NXDOMAIN" in outside
    assert "forward" not in inside + outside


class TestKeys:
    def test_the_certificate_is_for_the_service_and_the_node(self) -> None:
        text = certificates.openssl_configuration(NODE.addresses)
        assert {"IP:10.214.128.1", "IP:10.214.0.2", "DNS:kubernetes.default.svc"} <= set(re.findall(r"[\w.:-]+", text))

    def test_tokens_are_read_back_as_they_were_written(self) -> None:
        tokens = {user: f"token-{user}" for user in certificates.USERS}
        assert certificates.tokens_of(certificates.token_file(tokens)) == tokens

    def test_only_the_administrator_is_a_master(self) -> None:
        tokens = {user: f"token-{user}" for user in certificates.USERS}
        rows = list(csv.reader(certificates.token_file(tokens).splitlines()))
        assert [row[1] for row in rows if "system:masters" in row[3]] == ["omnilearn-admin"]

    def test_a_kubeconfig_has_everything_in_it(self) -> None:
        parsed = yaml.safe_load(kubeconfigs.kubeconfig("https://a:6443", "PEM", "admin", "secret"))
        assert parsed["clusters"][0]["cluster"] == {"server": "https://a:6443", "certificate-authority-data": "UEVN"}
        assert parsed["users"][0]["user"] == {"token": "secret"}


class TestBuilds:
    def test_the_module_pins_the_version_that_is_asked_for(self) -> None:
        text = (binaries.HERE / "kubernetes" / "go.mod").read_text(encoding="utf-8")
        assert re.search(rf"^\tk8s\.io/kubernetes {versions.KUBERNETES}\b", text, re.MULTILINE)
        staging = "v0." + versions.KUBERNETES.split(".", 1)[1]
        replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
        assert len(replaced) == 31
        assert {(name == other, version) for name, other, version in replaced} == {(True, staging)}

    def test_all_programs_are_tools_of_the_module(self) -> None:
        text = (binaries.HERE / "kubernetes" / "go.mod").read_text(encoding="utf-8")
        tools = re.findall(r"^\tk8s\.io/kubernetes/cmd/(\S+)$", text, re.MULTILINE)
        assert sorted(tools) == sorted(versions.KUBERNETES_PROGRAMS)

    def test_another_version_or_other_pins_get_another_folder(self, tmp_path: Path) -> None:
        (tmp_path / "go.mod").write_text("a", encoding="utf-8")
        before = binaries.kubernetes(Path("/cache"), tmp_path).folder
        (tmp_path / "go.mod").write_text("b", encoding="utf-8")
        assert binaries.kubernetes(Path("/cache"), tmp_path).folder != before
        assert versions.KUBERNETES in before.name

    def test_what_is_there_is_not_built_again(self, tmp_path: Path) -> None:
        build = binaries.helm(tmp_path)
        assert binaries.missing([build]) == [build]
        build.folder.mkdir()
        (build.folder / "helm").touch()
        assert binaries.missing([build]) == []
