"""TLS over a socket for one thread that reads and another that writes.

OpenSSL forbids two threads in one session at a time, and Python's own ssl sockets do not keep them apart: a read that
waits while another thread writes can lose the connection, or crash the process, which would be the training. Here the
session works on memory under a lock that is never held while the network is waited for.
"""

from __future__ import annotations

import socket
import ssl
import threading
from typing import cast

_PIECE = 65536


class SecureSocket:
    """As much of a socket as a WebSocket needs."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self.setsockopt, self.settimeout = plain.setsockopt, plain.settimeout
        self.getsockname, self.getpeername = plain.getsockname, plain.getpeername
        self.shutdown, self.close = plain.shutdown, plain.close

    def shake_hands(self) -> None:
        """Agree on keys and look at the server's certificate; raises ssl.SSLError. Before any other thread comes."""
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            else:
                self._flush()
                return

    def recv(self, size: int) -> bytes:
        """Return some bytes; none at the end, also if nobody has said that it is one: a WebSocket says so itself."""
        while True:
            with self._lock:
                try:
                    return self._session.read(size)
                except ssl.SSLWantReadError:
                    answers = self._outgoing.pending > 0
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            if answers:  # such as to a change of keys
                self._flush()
            self._take()

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        left = memoryview(data)
        with self._lock:
            while left:
                left = left[self._session.write(left) :]
        self._flush()

    def _take(self) -> None:
        data = self._plain.recv(_PIECE)
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _flush(self) -> None:
        # Whoever takes from the memory sends it before the next one takes: the order counts.
        with self._sending:
            with self._lock:
                data = self._outgoing.read()
            if data:
                self._plain.sendall(data)


def dial(host: str, port: int, context: ssl.SSLContext, seconds: float) -> socket.socket:
    """Connect to a server that the context trusts; raises OSError, of which ssl.SSLError is one."""
    plain = socket.create_connection((host, port), timeout=seconds)
    try:
        secure = SecureSocket(plain, context, host)
        secure.shake_hands()
        plain.settimeout(None)
    except BaseException:
        plain.close()
        raise
    return cast(socket.socket, secure)
