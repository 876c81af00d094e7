"""When to renew the certificate and its authority, so that no worker ever meets one that it does not trust.

A new authority is at first only trusted beside the old one. It signs when every pod has had time to learn of it, and it
alone: the old one's key is gone from the moment the new one is there. So what the old one has signed is over one
certificate's life later, and then nobody needs to trust it any more. Nothing has to be remembered but the bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from .bundle import Bundle
from .making import CERTIFICATE_LIFE, made_at, new_authority, new_certificate
from .reading import Certificate, certificates_of, public_key_of, signing_key_of

# How long pods may take to learn of a new authority; the kubelet brings it within 0.25 s to 90 s.
SETTLING = timedelta(minutes=10)


def next_bundle(current: Bundle | None, dns_names: Sequence[str], now: datetime) -> Bundle | None:
    """Return the bundle that takes the place of the current one, or None if that one is good."""
    current = current or Bundle()
    held = _held(current, dns_names, now)
    if held.signer is not None and _wants_certificate(held, held.signer, now):
        held = _with_certificate(held, held.signer, dns_names, now)
    # Only now: what is needed at once was signed by the one that everybody knows.
    if held.signer is None or held.signer.is_due(now):
        held = _with_authority(held, dns_names, now)
    bundle = _without_past(held, now).bundle
    return None if bundle == current else bundle


@dataclass(frozen=True, slots=True)
class _Held:
    """What of a bundle is good."""

    authorities: tuple[Certificate, ...]
    signer: Certificate | None
    """The authority whose key we have."""

    issuer: Certificate | None
    """The authority that has signed the certificate; None if there is no good certificate."""

    bundle: Bundle


def _held(current: Bundle, dns_names: Sequence[str], now: datetime) -> _Held:
    # One that was damaged does not fit its own signature any more.
    authorities = tuple(
        each for each in certificates_of(current.authorities) if each.is_valid(now) and each.is_from(each)
    )
    signing = public_key_of(current.authority_key) if signing_key_of(current.authority_key) else None
    signer = next((each for each in authorities if each.public_key == signing), None)
    return _Held(authorities, signer, _issuer(current, authorities, dns_names, now), current)


def _issuer(
    current: Bundle, authorities: Sequence[Certificate], dns_names: Sequence[str], now: datetime
) -> Certificate | None:
    certificate = next(iter(certificates_of(current.certificate)), None)
    if certificate is None or not certificate.is_valid(now) or certificate.lacks(dns_names):
        return None
    if certificate.public_key != public_key_of(current.key):
        return None
    return next((each for each in authorities if certificate.is_from(each)), None)


def _wants_certificate(held: _Held, signer: Certificate, now: datetime) -> bool:
    if held.issuer is None:
        return True
    if held.issuer != signer:
        return now >= made_at(signer) + SETTLING
    return certificates_of(held.bundle.certificate)[0].is_due(now)


def _with_certificate(held: _Held, signer: Certificate, dns_names: Sequence[str], now: datetime) -> _Held:
    signing_key = signing_key_of(held.bundle.authority_key)
    if signing_key is None:
        raise ValueError("a signer without its key")  # _held has seen to it
    certificate, key = new_certificate(signer, signing_key, dns_names, now)
    return replace(held, issuer=signer, bundle=replace(held.bundle, certificate=certificate.text, key=key))


def _with_authority(held: _Held, dns_names: Sequence[str], now: datetime) -> _Held:
    """Add an authority; if there is no certificate that workers would trust, it has to sign one at once."""
    signer, key = new_authority(now)
    authorities = (signer, *held.authorities)
    held = _Held(authorities, signer, held.issuer, replace(held.bundle, authority_key=key))
    return held if held.issuer is not None else _with_certificate(held, signer, dns_names, now)


def _without_past(held: _Held, now: datetime) -> _Held:
    """Forget authorities of which no certificate can be valid any more."""
    over = held.signer is not None and now >= made_at(held.signer) + CERTIFICATE_LIFE
    kept = tuple(each for each in held.authorities if not over or each in (held.signer, held.issuer))
    return replace(held, authorities=kept, bundle=replace(held.bundle, authorities="".join(e.text for e in kept)))
