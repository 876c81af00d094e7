"""New authorities and certificates: elliptic curve P-256, times as arguments."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .reading import Certificate, certificates_of

AUTHORITY_LIFE = timedelta(days=3653)
CERTIFICATE_LIFE = timedelta(days=90)

# A certificate counts from a little before it is made: a worker's clock may be behind.
_CLOCKS_DIFFER_BY = timedelta(hours=1)

_NO_USAGE = dict.fromkeys(
    (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    ),
    False,
)  # fmt: skip


def new_authority(now: datetime) -> tuple[Certificate, str]:
    """Return the certificate of a new authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own: while two are trusted, nobody takes one for the other.
    name = _name(f"OmniLearn authority {secrets.token_hex(8)}")
    builder = (
        _builder(key.public_key(), now, now + AUTHORITY_LIFE)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"key_cert_sign": True}), critical=True)
    )
    return _signed(builder, key), _text(key)


def new_certificate(
    authority: Certificate, authority_key: ec.EllipticCurvePrivateKey, dns_names: Sequence[str], now: datetime
) -> tuple[Certificate, str]:
    """Return a certificate for a server of these names, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = (
        _builder(key.public_key(), now, min(now + CERTIFICATE_LIFE, authority.ends))
        .subject_name(_name("OmniLearn coordinator"))
        .issuer_name(authority.raw.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in dns_names]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    return _signed(builder, authority_key), _text(key)


def made_at(authority: Certificate) -> datetime:
    """Return when an authority of ours was made; nobody has known it before."""
    return authority.begins + _CLOCKS_DIFFER_BY


def _builder(key: ec.EllipticCurvePublicKey, now: datetime, end: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(_whole_second(now) - _CLOCKS_DIFFER_BY)
        .not_valid_after(end)
        .public_key(key)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> Certificate:
    return certificates_of(builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode())[0]


def _whole_second(now: datetime) -> datetime:
    """Round up, as certificates know no fractions: `made_at` must never say that it was earlier."""
    return now + timedelta(microseconds=-now.microsecond % 1_000_000)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
