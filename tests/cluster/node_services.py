"""containerd, kubelet, kube-proxy and CoreDNS: their command lines and configuration files. Pure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from cluster import versions
from cluster.component import Component, Node, flags
from cluster.layout import CGROUP, DOMAIN, NODE_NAME

# Below the node's own /run, which is memory and goes with the node.
RUN = Path("/run/omnilearn")
_CRI = 'plugins."io.containerd.grpc.v1.cri"'


def containerd(node: Node) -> Component:
    """Return the container runtime."""
    configuration, network = node.file("containerd.toml"), node.file("cni") / "omnilearn.conflist"
    command = flags(node.programs["containerd"], config=configuration)
    return Component(
        "containerd", command, {configuration: containerd_configuration(node), network: network_configuration(node)}
    )


def containerd_configuration(node: Node) -> str:
    """Return containerd's configuration; another containerd of this machine shares nothing with it."""
    return f"""\
version = 2
root = "{node.places.images}"
state = "{RUN}/containerd"
[grpc]
address = "{node.places.socket}"
[{_CRI}]
sandbox_image = "{versions.PAUSE_IMAGE}"
# Machines without CAP_SYS_RESOURCE cannot lower the score; without this no pod would start there.
restrict_oom_score_adj = true
[{_CRI}.cni]
bin_dir = "{node.plugins}"
conf_dir = "{node.file("cni")}"
[{_CRI}.containerd]
snapshotter = "overlayfs"
discard_unpacked_layers = true
[{_CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{_CRI}.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
path = "{RUN}/opt"
"""


def network_configuration(node: Node) -> str:
    """Return the network of pods: a routed link for each, so that kube-proxy sees every packet."""
    addresses = {
        "type": "host-local", "dataDir": f"{RUN}/addresses",
        "ranges": [[{"subnet": str(node.addresses.pods)}]], "routes": [{"dst": "0.0.0.0/0"}],
    }  # fmt: skip
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "omnilearn", "plugins": plugins}, indent=2)


def kubelet(node: Node) -> Component:
    """Return the kubelet."""
    configuration, resolver = node.file("kubelet.yaml"), node.file("resolv.conf")
    command = flags(
        node.programs["kubelet"],
        config=configuration, kubeconfig=node.kubeconfig("kubelet"), root_dir=node.places.kubelet,
        hostname_override=NODE_NAME, node_ip=node.addresses.node,
    )  # fmt: skip
    text = yaml.safe_dump(kubelet_configuration(node), sort_keys=False)
    return Component("kubelet", command, {configuration: text, resolver: "# Pods ask the cluster.\n"}, port=10250)


def kubelet_configuration(node: Node) -> dict[str, Any]:
    """Return the kubelet's configuration."""
    address = str(node.addresses.node)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "healthzBindAddress": address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.key("ca.crt"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(node.key("server.crt")),
        "tlsPrivateKeyFile": str(node.key("server.key")),
        "containerRuntimeEndpoint": f"unix://{node.places.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [address],
        "clusterDomain": DOMAIN,
        "resolvConf": str(node.file("resolv.conf")),
        "podLogsDir": str(node.places.logs / "pods"),
        "volumePluginDir": f"{RUN}/volume-plugins",
        "makeIPTablesUtilChains": False,
        # A full disk is noticed before the start; a machine that is used for other things must not evict pods.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "500Mi", "imagefs.available": "500Mi"},
        # Images come from nowhere but imports: never throw one away.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 200,
    }


def proxy(node: Node) -> Component:
    """Return kube-proxy."""
    configuration = node.file("kube-proxy.yaml")
    text = yaml.safe_dump(proxy_configuration(node), sort_keys=False)
    return Component(
        "kube-proxy", flags(node.programs["kube-proxy"], config=configuration), {configuration: text}, 10256
    )


def proxy_configuration(node: Node) -> dict[str, Any]:
    """Return kube-proxy's configuration; limits of 0 leave the kernel's connection tracking as it is."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NODE_NAME,
        "bindAddress": str(node.addresses.node),
        "healthzBindAddress": f"{node.addresses.node}:10256",
        "clusterCIDR": str(node.addresses.pods),
        "clientConnection": {"kubeconfig": str(node.kubeconfig("kube-proxy"))},
        "nodePortAddresses": ["primary"],
        "iptables": {"localhostNodePorts": False},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def coredns(node: Node) -> Component:
    """Return the DNS server."""
    corefile = node.file("Corefile")
    command = (str(node.programs["coredns"]), "-conf", str(corefile))
    return Component("coredns", command, {corefile: dns_configuration(node)}, port=53)


def dns_configuration(node: Node) -> str:
    """Return the names that there are: those of the cluster. Whatever else is asked for does not exist."""
    return f"""\
{DOMAIN}:53 in-addr.arpa:53 {{
    bind {node.addresses.node}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {node.kubeconfig("coredns")}
    }}
}}
.:53 {{
    bind {node.addresses.node}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""
