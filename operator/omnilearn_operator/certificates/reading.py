"""PEM → what matters of certificates and keys. Whatever is not readable is None or empty, never an error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

# All that the library raises for certificates and keys that are not what they should be.
_UNREADABLE = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_LONGEST_CHAIN = 10


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate, and what of it matters here."""

    begins: datetime
    ends: datetime
    names: frozenset[str]
    public_key: bytes
    is_authority: bool
    text: str = field(repr=False)
    raw: x509.Certificate = field(repr=False, compare=False)

    def is_valid(self, now: datetime) -> bool:
        """Tell whether it counts at this moment."""
        return self.begins <= now < self.ends

    def is_due(self, now: datetime) -> bool:
        """Tell whether two thirds of its life are over: time to renew it."""
        return now >= self.begins + (self.ends - self.begins) * 2 / 3

    def lacks(self, dns_names: Collection[str]) -> list[str]:
        """Return the names that it is not for."""
        return [name for name in dns_names if not {name, _any_sibling(name)} & self.names]

    def is_from(self, authority: Certificate) -> bool:
        """Tell whether the authority has signed it."""
        if not authority.is_authority:
            return False
        try:
            self.raw.verify_directly_issued_by(authority.raw)
        except _UNREADABLE:
            return False
        return True


def certificates_of(text: str) -> tuple[Certificate, ...]:
    """Return all certificates of a PEM text, or none if one of them cannot be read."""
    try:
        return tuple(_certificate(raw) for raw in x509.load_pem_x509_certificates(text.encode()))
    except _UNREADABLE:
        return ()


def public_key_of(text: str) -> bytes | None:
    """Return the public half of a PEM private key; it is what a certificate is for."""
    try:
        public = load_pem_private_key(text.encode(), password=None).public_key()
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except _UNREADABLE:
        return None


def signing_key_of(text: str) -> ec.EllipticCurvePrivateKey | None:
    """Return the key of an authority of ours; other kinds of keys we have not made."""
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except _UNREADABLE:
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def is_vouched_for(chain: Sequence[Certificate], authorities: Sequence[Certificate], now: datetime) -> bool:
    """Tell whether the first of a chain comes, maybe by way of others in it, from an authority that counts now."""
    trusted = [each for each in authorities if each.is_valid(now)]
    between = [each for each in chain[1:] if each.is_valid(now)]
    current = chain[0] if chain and chain[0].is_valid(now) else None
    for _ in range(_LONGEST_CHAIN):
        if current is None:
            return False
        if current in trusted or any(current.is_from(each) for each in trusted):
            return True
        below = current
        current = next((each for each in between if below is not each and below.is_from(each)), None)
    return False


def _certificate(raw: x509.Certificate) -> Certificate:
    """Read everything at once, so that whatever is wrong with it is found here."""
    return Certificate(
        begins=raw.not_valid_before_utc,
        ends=raw.not_valid_after_utc,
        names=_names(raw),
        public_key=raw.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        is_authority=_is_authority(raw),
        text=raw.public_bytes(Encoding.PEM).decode(),
        raw=raw,
    )


def _names(raw: x509.Certificate) -> frozenset[str]:
    try:
        names = raw.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(names.get_values_for_type(x509.DNSName))


def _is_authority(raw: x509.Certificate) -> bool:
    try:
        return raw.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _any_sibling(name: str) -> str:
    """Return the wildcard that covers a name: it stands for the first label alone."""
    return f"*.{name.partition('.')[2]}"
