"""What the cluster is made of. Whoever raises Kubernetes also raises kubernetes/go.mod: a test compares them."""

from __future__ import annotations

KUBERNETES = "v1.35.4"
HELM = "v3.22.0"
COREDNS = "v1.14.7"
KIND = "v0.32.0"
KWOK = "v0.7.0"

KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)

PAUSE_IMAGE = "localhost/omnilearn-pause:1"
