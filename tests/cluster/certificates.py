"""Keys, certificates and tokens of the node: made once per cluster by the openssl command, whole or not at all."""

from __future__ import annotations

import csv
import io
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster import commands
from cluster.layout import DOMAIN, NODE_NAME, Addresses, Places

_DAYS = "3650"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whom the API server knows by a token."""

    name: str
    groups: tuple[str, ...] = ()


# RBAC's own roles are bound to most of these names; that of the DNS server is in objects.py.
USERS = {
    "admin": User("omnilearn-admin", ("system:masters",)),
    "kubelet": User(f"system:node:{NODE_NAME}", ("system:nodes",)),
    "kube-controller-manager": User("system:kube-controller-manager"),
    "kube-scheduler": User("system:kube-scheduler"),
    "kube-proxy": User("system:kube-proxy"),
    "coredns": User("omnilearn-coredns"),
}


def openssl_configuration(addresses: Addresses) -> str:
    """Return what the three certificates and their authority are for."""
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}")
    names = [f"DNS:{name}" for name in (*service, "localhost", NODE_NAME)]
    numbers = [f"IP:{address}" for address in (addresses.services[1], addresses.node, "127.0.0.1")]
    return f"""\
[req]
distinguished_name = subject
prompt = no
[subject]
CN = omnilearn-cluster
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {", ".join(names + numbers)}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
"""


def openssl_commands() -> list[tuple[str, ...]]:
    """Return the commands, to be run one after another in one folder that has the configuration."""
    request = ("openssl", "req", "-x509", "-config", "openssl.cnf", "-days", _DAYS, *_CURVE)
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key")
    client = "/O=system:masters/CN=omnilearn-kube-apiserver"
    return [
        (*request, "-extensions", "authority", "-keyout", "ca.key", "-out", "ca.crt"),
        (*request, "-extensions", "server", *signed, "-keyout", "server.key", "-out", "server.crt"),
        (*request, "-extensions", "client", *signed, "-subj", client, "-keyout", "client.key", "-out", "client.crt"),
        ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "accounts.key"),
        ("openssl", "pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"),
    ]


def token_file(tokens: Mapping[str, str]) -> str:
    """Return the API server's list of tokens."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for key, user in USERS.items():
        writer.writerow([tokens[key], user.name, user.name, ",".join(user.groups)])
    return text.getvalue()


def tokens_of(text: str) -> dict[str, str]:
    """Return the token of each user from such a list."""
    of_name = {row[1]: row[0] for row in csv.reader(io.StringIO(text))}
    return {key: of_name[user.name] for key, user in USERS.items()}


def ensure(places: Places, addresses: Addresses) -> dict[str, str]:
    """Make all of it if it is not there; return the tokens."""
    if not places.keys.exists():
        unfinished = places.keys.with_name("keys.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        (unfinished / "openssl.cnf").write_text(openssl_configuration(addresses), encoding="utf-8")
        for words in openssl_commands():
            commands.run(*words, folder=unfinished)
        fresh = {key: secrets.token_hex(24) for key in USERS}
        (unfinished / "tokens.csv").write_text(token_file(fresh), encoding="utf-8")
        unfinished.rename(places.keys)
    return tokens_of(_tokens(places).read_text(encoding="utf-8"))


def _tokens(places: Places) -> Path:
    return places.keys / "tokens.csv"
