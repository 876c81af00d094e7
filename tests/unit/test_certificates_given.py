"""A certificate that somebody else has made: what is wrong with it, and when it is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from omnilearn_operator.certificates import Bundle, next_bundle
from omnilearn_operator.certificates.given import Serving, defects, follow
from omnilearn_operator.certificates.making import new_certificate
from omnilearn_operator.certificates.reading import certificates_of, signing_key_of
from omnilearn_operator.certificates.renewal import SETTLING

NAMES = ("coordinator.system.svc", "coordinator.system")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def bundle_for(*names: str) -> Bundle:
    made = next_bundle(None, names or NAMES, NOW)
    assert made is not None
    return replace(made, authority_key="")


GOOD, OTHER = bundle_for(), bundle_for()


def test_a_good_one_has_no_defects() -> None:
    assert defects(GOOD, NAMES, NOW) == []


def test_a_wildcard_covers_names_with_the_same_end() -> None:
    assert defects(bundle_for("*.system.svc"), ["coordinator.system.svc"], NOW) == []
    assert defects(bundle_for("*.svc"), ["coordinator.system.svc"], NOW) != []


@pytest.mark.parametrize(
    ("changes", "after", "sentences"),
    [
        ({"certificate": ""}, 0, ["tls.crt is missing: put the coordinator's certificate, as PEM there"]),
        ({"key": " \n"}, 0, ["tls.key is missing: put its private key, as PEM without a password there"]),
        ({"authorities": ""}, 0, ["ca.crt is missing: put the certificates of the authorities that workers are to"]),
        ({"certificate": "nonsense"}, 0, ["tls.crt cannot be read"]),
        ({"key": GOOD.certificate}, 0, ["tls.key cannot be read"]),
        ({"authorities": "nonsense"}, 0, ["ca.crt cannot be read"]),
        ({"key": OTHER.key}, 0, ["tls.key does not belong to tls.crt"]),
        ({"authorities": OTHER.authorities}, 0, ["no authority of ca.crt that is valid now has signed tls.crt"]),
        ({}, 91, ["tls.crt has expired on 2026-04-01: renew it"]),
        ({}, -1, ["tls.crt is not valid before 2026-01-01 11:00 UTC: look at the clocks"]),
        ({"certificate": "", "key": "", "authorities": ""}, 0, ["tls.crt is", "tls.key is", "ca.crt is"]),
    ],
)
def test_each_defect_has_a_sentence(changes: Mapping[str, str], after: int, sentences: list[str]) -> None:
    found = defects(replace(GOOD, **changes), NAMES, NOW + after * DAY)
    assert len(found) == len(sentences)
    for said, sentence in zip(found, sentences, strict=True):
        assert said.startswith(sentence)


def test_the_names_that_are_lacking_are_named() -> None:
    assert defects(GOOD, [*NAMES, "other.svc"], NOW) == ["tls.crt is not for other.svc: add that to its DNS names"]


def test_an_authority_may_be_some_certificates_away() -> None:
    root = next_bundle(None, NAMES, NOW)
    assert root is not None
    root_key, middle_key = signing_key_of(root.authority_key), ec.generate_private_key(ec.SECP256R1())
    assert root_key is not None
    (authority,) = certificates_of(root.authorities)
    middle = (
        x509.CertificateBuilder(serial_number=5)
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "middle")]))
        .issuer_name(authority.raw.subject)
        .public_key(middle_key.public_key())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root_key, SHA256())
    )
    text = middle.public_bytes(Encoding.PEM).decode()
    certificate, key = new_certificate(certificates_of(text)[0], middle_key, NAMES, NOW)
    whole = Bundle(authorities=root.authorities, certificate=certificate.text + text, key=key)
    assert defects(whole, NAMES, NOW) == []
    assert defects(replace(whole, certificate=certificate.text), NAMES, NOW) != []


# When it is served


def followed(*given: tuple[timedelta, Bundle]) -> Serving:
    serving: Serving | None = None
    for after, bundle in given:
        serving = follow(serving, bundle, NOW + after)
    assert serving is not None
    return serving


def test_the_first_one_is_served_at_once() -> None:
    assert followed((0 * DAY, GOOD)).bundle == GOOD


def test_one_of_an_authority_that_workers_know_is_served_at_once() -> None:
    both = replace(GOOD, authorities=GOOD.authorities + OTHER.authorities)
    assert followed((0 * DAY, both), (SECOND, OTHER)).bundle == OTHER


def test_one_of_an_unknown_authority_is_served_when_workers_have_learnt_of_it() -> None:
    changed = [(0 * DAY, GOOD), (DAY, OTHER)]
    serving = followed(*changed, (DAY + SETTLING - SECOND, OTHER))
    assert serving.bundle == replace(GOOD, authorities=OTHER.authorities + GOOD.authorities)
    assert followed(*changed, (DAY + SETTLING, OTHER)).bundle == OTHER


def test_one_that_changes_again_starts_anew_from_what_is_served() -> None:
    third = bundle_for()
    changed = [(0 * DAY, GOOD), (DAY, OTHER), (DAY + SETTLING / 2, third)]
    serving = followed(*changed, (DAY + SETTLING, third))
    assert serving.bundle == replace(GOOD, authorities=third.authorities + GOOD.authorities)
    assert followed(*changed, (DAY + 2 * SETTLING, third)).bundle == third


def test_one_that_is_taken_back_goes_on() -> None:
    assert followed((0 * DAY, GOOD), (DAY, OTHER), (DAY + SECOND, GOOD)).bundle == GOOD


def test_nobody_waits_if_the_former_one_is_over() -> None:
    """Then workers trust neither, and the sooner the new one is served the better."""
    late = next_bundle(None, NAMES, NOW + 100 * DAY)
    assert late is not None
    assert followed((0 * DAY, GOOD), (100 * DAY, late)).bundle == late
