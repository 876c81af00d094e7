"""What TLS handshakes see: the bundle of today, exchanged without a pause."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from .bundle import Bundle


class ServerTls:
    """A context for servers whose certificate can change: who is connected stays, who connects sees the new one."""

    def __init__(self) -> None:
        self._shown: tuple[str, str] | None = None
        self._today: ssl.SSLContext | None = None
        self.context = _empty_context()
        """Give this one to the server; it stays the same."""

        # A context of its own for each bundle: loaded into the same one, certificates of different kinds of keys
        # would stand beside each other, and one that does not load would leave it without any.
        self.context.sni_callback = self._choose

    def update(self, bundle: Bundle) -> None:
        """Serve this bundle from now on; raises ssl.SSLError, and keeps the former, if it does not load."""
        shown = (bundle.certificate, bundle.key)
        if shown == self._shown:
            return
        context = _empty_context()
        with _as_file(bundle.key + "\n" + bundle.certificate) as path:
            context.load_cert_chain(path, password=_no_password)
        self._shown, self._today = shown, context

    def _choose(self, session: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        """Is asked at the beginning of every handshake, also by clients that name no server."""
        if self._today is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        session.context = self._today
        return None


def _empty_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # workers never resume a session
    context.verify_mode = ssl.CERT_NONE  # workers prove who they are by their tokens
    return context


def _no_password() -> str:
    """Keep OpenSSL from asking at the terminal."""
    return ""


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give the text a path, which Python's ssl needs, for a moment: in memory, or else for this user alone."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("omnilearn-tls", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="omnilearn-") as file:  # of mode 0600
            file.write(text)
            file.flush()
            yield file.name
