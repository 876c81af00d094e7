"""What the certificate's Secret holds, as text. Keys never show up in a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CERTIFICATE = "tls.crt"
KEY = "tls.key"
AUTHORITIES = "ca.crt"
AUTHORITY_KEY = "ca.key"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A certificate with its key, and whom to trust for it; all as PEM."""

    authorities: str = ""
    """Certificates of the authorities that workers trust: two while one takes over from the other."""

    certificate: str = ""
    """What the coordinator shows, followed by the certificates between it and an authority, if there are any."""

    key: str = field(default="", repr=False)
    authority_key: str = field(default="", repr=False)
    """Key of the newest authority; empty if somebody else signs."""

    @classmethod
    def from_data(cls, data: Mapping[str, bytes]) -> Bundle:
        """Return what a Secret holds; what it lacks is empty, what is no text becomes unreadable."""
        return cls(
            authorities=_text(data, AUTHORITIES),
            certificate=_text(data, CERTIFICATE),
            key=_text(data, KEY),
            authority_key=_text(data, AUTHORITY_KEY),
        )

    def to_data(self) -> dict[str, bytes]:
        """Return what the Secret is to hold."""
        return {
            AUTHORITIES: self.authorities.encode(),
            CERTIFICATE: self.certificate.encode(),
            KEY: self.key.encode(),
            AUTHORITY_KEY: self.authority_key.encode(),
        }


def _text(data: Mapping[str, bytes], name: str) -> str:
    return data.get(name, b"").decode("ascii", errors="replace")
