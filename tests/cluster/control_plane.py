"""etcd, the API server, the controllers and the scheduler: their command lines. Pure."""

from __future__ import annotations

from cluster.component import Component, Node, flags
from cluster.layout import API_PORT, DOMAIN

# Only the node's own processes reach these; pods have networks of their own.
ETCD_CLIENTS = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"


def etcd(node: Node) -> Component:
    """Return the store. Nothing in it need survive a power cut."""
    return Component(
        "etcd",
        (
            *flags(
                node.programs["etcd"],
                name="omnilearn", data_dir=node.places.etcd,
                listen_client_urls=ETCD_CLIENTS, advertise_client_urls=ETCD_CLIENTS,
                listen_peer_urls=ETCD_PEERS, initial_advertise_peer_urls=ETCD_PEERS,
                initial_cluster=f"omnilearn={ETCD_PEERS}", logger="zap",
            ),
            "--unsafe-no-fsync",
        ),
    )  # fmt: skip


def api_server(node: Node) -> Component:
    """Return the API server."""
    issuer = f"https://kubernetes.default.svc.{DOMAIN}"
    command = flags(
        node.programs["kube-apiserver"],
        etcd_servers=ETCD_CLIENTS,
        bind_address=node.addresses.node, advertise_address=node.addresses.node, secure_port=API_PORT,
        service_cluster_ip_range=node.addresses.services,
        tls_cert_file=node.key("server.crt"), tls_private_key_file=node.key("server.key"),
        client_ca_file=node.key("ca.crt"), token_auth_file=node.key("tokens.csv"),
        # Nobody has such a certificate; without the setting the controllers complain every few seconds.
        requestheader_client_ca_file=node.key("ca.crt"), requestheader_allowed_names="omnilearn-front-proxy",
        requestheader_username_headers="X-Remote-User", requestheader_group_headers="X-Remote-Group",
        authorization_mode="Node,RBAC", enable_admission_plugins="NodeRestriction", allow_privileged="true",
        service_account_issuer=issuer, service_account_key_file=node.key("accounts.pub"),
        service_account_signing_key_file=node.key("accounts.key"),
        # Without a certificate of its own the kubelet would not let it read logs; a node's name is in no DNS.
        kubelet_client_certificate=node.key("client.crt"), kubelet_client_key=node.key("client.key"),
        kubelet_certificate_authority=node.key("ca.crt"), kubelet_preferred_address_types="InternalIP",
        # Debian's etcd is too old for it: every watch from version 0, as kwok's, would be refused.
        feature_gates="WatchList=false",
    )  # fmt: skip
    return Component("kube-apiserver", command, port=API_PORT)


def controller_manager(node: Node) -> Component:
    """Return the controllers."""
    config = node.kubeconfig("kube-controller-manager")
    command = flags(
        node.programs["kube-controller-manager"],
        kubeconfig=config, authentication_kubeconfig=config, authorization_kubeconfig=config,
        bind_address=node.addresses.node, leader_elect="false",
        use_service_account_credentials="true", service_account_private_key_file=node.key("accounts.key"),
        root_ca_file=node.key("ca.crt"),
    )  # fmt: skip
    return Component("kube-controller-manager", command, port=10257)


def scheduler(node: Node) -> Component:
    """Return the scheduler."""
    config = node.kubeconfig("kube-scheduler")
    command = flags(
        node.programs["kube-scheduler"],
        kubeconfig=config, authentication_kubeconfig=config, authorization_kubeconfig=config,
        bind_address=node.addresses.node, leader_elect="false",
    )  # fmt: skip
    return Component("kube-scheduler", command, port=10259)
