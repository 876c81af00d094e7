"""Asking the cluster's DNS server for one address: how one sees that it knows the cluster."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address

_QUESTION = struct.Struct("!HHHHHH")
_NUMBER = 7


def question(name: str) -> bytes:
    """Return the question for a name's address."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return _QUESTION.pack(_NUMBER, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)


def answer(message: bytes) -> IPv4Address | None:
    """Return the address if the answer is one: it is the last thing in it."""
    if len(message) < _QUESTION.size + 4:
        return None
    number, bits, _, answers, *_ = _QUESTION.unpack_from(message)
    return IPv4Address(message[-4:]) if number == _NUMBER and not bits & 0xF and answers == 1 else None


def ask(server: str, name: str, seconds: float = 1.0) -> IPv4Address | None:
    """Return a name's address, or None."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.settimeout(seconds)
            link.sendto(question(name), (server, 53))
            return answer(link.recv(2048))
    except OSError:
        return None
