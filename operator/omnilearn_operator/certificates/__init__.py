"""The coordinator's certificate: made and renewed here, or given; served without a pause when it changes.

`renewal` and `given` decide and know no clock, `keeper` reads and writes the Secret, `serving` is what handshakes see.
Workers trust the authorities of the bundle alone: whoever serves a new bundle hands its authorities to all pods.
"""

from .bundle import Bundle
from .keeper import CertificateError, ConflictError, Keeper, Mode, SecretApi
from .renewal import next_bundle
from .serving import ServerTls

__all__ = [
    "Bundle",
    "CertificateError",
    "ConflictError",
    "Keeper",
    "Mode",
    "SecretApi",
    "ServerTls",
    "next_bundle",
]
