"""A certificate that somebody else puts into the Secret, such as cert-manager: its defects, and when it is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from .bundle import AUTHORITIES, CERTIFICATE, KEY, Bundle
from .reading import Certificate, certificates_of, is_vouched_for, public_key_of
from .renewal import SETTLING

_CONTENT = {
    CERTIFICATE: "the coordinator's certificate, as PEM",
    KEY: "its private key, as PEM without a password",
    AUTHORITIES: "the certificates of the authorities that workers are to trust, as PEM",
}


def defects(given: Bundle, dns_names: Sequence[str], now: datetime) -> list[str]:
    """Return a sentence for everything that is wrong with a given bundle."""
    chain, authorities = certificates_of(given.certificate), certificates_of(given.authorities)
    key = public_key_of(given.key)
    found = [
        *_unless(bool(chain), CERTIFICATE, given.certificate),
        *_unless(key is not None, KEY, given.key),
        *_unless(bool(authorities), AUTHORITIES, given.authorities),
    ]
    if chain:
        found += _defects_of(chain[0], dns_names, now)
        if key is not None and key != chain[0].public_key:
            found.append(f"{KEY} does not belong to {CERTIFICATE}: put the key there that the certificate was made for")
        if authorities and chain[0].is_valid(now) and not is_vouched_for(chain, authorities, now):
            found.append(
                f"no authority of {AUTHORITIES} that is valid now has signed {CERTIFICATE}: put the certificate of its "
                f"issuer into {AUTHORITIES}, and those between them behind the first of {CERTIFICATE}"
            )
    return found


def _unless(readable: bool, name: str, text: str) -> list[str]:
    how = "cannot be read" if text.strip() else "is missing"
    return [] if readable else [f"{name} {how}: put {_CONTENT[name]} there"]


def _defects_of(certificate: Certificate, dns_names: Sequence[str], now: datetime) -> list[str]:
    found = []
    lacking = certificate.lacks(dns_names)
    if lacking:
        found.append(f"{CERTIFICATE} is not for {', '.join(lacking)}: add that to its DNS names")
    if now >= certificate.ends:
        found.append(f"{CERTIFICATE} has expired on {certificate.ends:%Y-%m-%d}: renew it")
    if now < certificate.begins:
        found.append(f"{CERTIFICATE} is not valid before {certificate.begins:%Y-%m-%d %H:%M} UTC: look at the clocks")
    return found


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served, and what it depends on."""

    bundle: Bundle
    known: Bundle
    """The last bundle that was served as it was given; pods may know its authorities only."""

    found: Bundle
    """What was given last."""

    since: datetime


def follow(serving: Serving | None, found: Bundle, now: datetime) -> Serving:
    """Return what to serve now that this good bundle is given.

    If its authority is new to workers, both are handed out for a while, and the former certificate stays as long.
    """
    if serving is None:
        return Serving(found, found, found, now)
    if found != serving.found:
        serving = Serving(serving.bundle, serving.known, found, now)
    known = serving.known
    chain, former = certificates_of(found.certificate), certificates_of(known.certificate)
    if (
        is_vouched_for(chain, certificates_of(known.authorities), now)
        or now >= serving.since + SETTLING
        or not former[0].is_valid(now)
    ):
        return Serving(found, found, found, serving.since)
    return replace(serving, bundle=replace(known, authorities=_together(found.authorities, known.authorities)))


def _together(*texts: str) -> str:
    """Return all certificates of some texts, each once."""
    return "".join(dict.fromkeys(each.text for text in texts for each in certificates_of(text)))
