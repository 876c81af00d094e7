"""When certificates and authorities are renewed: whatever the times, workers trust what is served."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnilearn_operator.certificates import Bundle, next_bundle
from omnilearn_operator.certificates.making import AUTHORITY_LIFE, CERTIFICATE_LIFE
from omnilearn_operator.certificates.renewal import SETTLING

NAMES = ("coordinator.system.svc", "coordinator.system.svc.cluster.local", "coordinator.system")
START = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)

# Short looks around what takes minutes, with jumps over weeks and years between: an operator may be away. But not for a
# third of an authority's life, or there is nobody left whom workers trust.
LONGEST = AUTHORITY_LIFE / 3 - DAY
WALKS = st.lists(
    st.one_of(
        st.sampled_from([SECOND, SETTLING - SECOND, SETTLING, CERTIFICATE_LIFE * 2 / 3, LONGEST]),
        st.timedeltas(SECOND, 2 * SETTLING),
        st.timedeltas(SECOND, 100 * DAY),
        st.timedeltas(DAY, LONGEST),
    ),
    min_size=1,
    max_size=25,
)
# Many begin where it becomes interesting.
STEPS = st.one_of(WALKS, WALKS.map(lambda walk: [AUTHORITY_LIFE * 2 / 3, *walk]))


def trusts(authorities: str, certificate: str, at: datetime) -> bool:
    """Ask somebody else's verifier whether the certificate is good for all names at a time."""
    store = Store(x509.load_pem_x509_certificates(authorities.encode()))
    leaf, *between = x509.load_pem_x509_certificates(certificate.encode())
    policy = PolicyBuilder().store(store).time(at)
    try:
        for name in NAMES:
            policy.build_server_verifier(x509.DNSName(name)).verify(leaf, between)
    except VerificationError:
        return False
    return True


def first(now: datetime = START) -> Bundle:
    made = next_bundle(None, NAMES, now)
    assert made is not None
    return made


def history(steps: list[timedelta]) -> list[tuple[datetime, Bundle]]:
    """Return what is served from when on, if somebody looks after each step."""
    now = START
    served = [(now, first(now))]
    for step in steps:
        now += step
        current = served[-1][1]
        served.append((now, next_bundle(current, NAMES, now) or current))
    return served


def end_of(certificate: str) -> datetime:
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def authorities_of(bundle: Bundle) -> list[str]:
    return [each.subject.rfc4514_string() for each in x509.load_pem_x509_certificates(bundle.authorities.encode())]


def issuer_of(bundle: Bundle) -> str:
    return x509.load_pem_x509_certificate(bundle.certificate.encode()).issuer.rfc4514_string()


@settings(max_examples=60, deadline=None)
@given(STEPS)
@example([AUTHORITY_LIFE * 2 / 3, SETTLING - SECOND, SECOND, SECOND])
def test_what_is_served_is_trusted_by_whoever_got_the_bundle_up_to_one_settling_time_ago(
    steps: list[timedelta],
) -> None:
    served = history(steps)
    for number, (at, bundle) in enumerate(served):
        ends = [until for until, _ in served[1 : number + 1]] + [at + SECOND]
        held = [one for (_, one), until in zip(served, ends, strict=False) if until > at - SETTLING]
        assert all(trusts(one.authorities, bundle.certificate, at) for one in held)


@settings(max_examples=60, deadline=None)
@given(STEPS)
@example([AUTHORITY_LIFE * 2 / 3, SETTLING + SECOND, 80 * DAY])
def test_a_certificate_that_was_served_once_is_trusted_until_it_ends(steps: list[timedelta]) -> None:
    """Another operator may not have looked for a while."""
    served = history(steps)
    for number, (at, bundle) in enumerate(served):
        earlier = {one.certificate for _, one in served[:number] if end_of(one.certificate) > at}
        assert all(trusts(bundle.authorities, certificate, at) for certificate in earlier)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_nothing_is_renewed_without_need(steps: list[timedelta]) -> None:
    served = history(steps)
    assert all(next_bundle(bundle, NAMES, at) is None for at, bundle in served)
    for (_, before), (at, after) in pairwise(served):
        if before.certificate != after.certificate:
            is_due = end_of(before.certificate) - at <= CERTIFICATE_LIFE / 3 + timedelta(hours=1)
            assert is_due or issuer_of(before) != issuer_of(after)
        assert len(authorities_of(after)) <= 2


def test_a_certificate_is_renewed_at_two_thirds_of_its_life_by_the_same_authority() -> None:
    bundle = first()
    assert next_bundle(bundle, NAMES, START + 59 * DAY) is None
    renewed = next_bundle(bundle, NAMES, START + 61 * DAY)
    assert renewed is not None
    assert renewed.authorities == bundle.authorities
    assert end_of(renewed.certificate) == (START + 151 * DAY).replace(microsecond=0)


def test_a_new_authority_is_first_trusted_then_signs_and_then_is_alone() -> None:
    old = first()
    at = START + AUTHORITY_LIFE * 2 / 3
    both = next_bundle(old, NAMES, at)
    assert both is not None
    new_name, old_name = authorities_of(both)
    assert [old_name] == authorities_of(old)
    assert issuer_of(both) == old_name
    assert next_bundle(both, NAMES, at + SETTLING - SECOND) is None

    switched = next_bundle(both, NAMES, at + SETTLING + SECOND)
    assert switched is not None
    assert (issuer_of(switched), switched.authorities) == (new_name, both.authorities)

    kept = next_bundle(switched, NAMES, at + 89 * DAY)
    assert kept is not None
    assert authorities_of(kept) == [new_name, old_name]
    alone = next_bundle(kept, NAMES, at + 91 * DAY)
    assert alone is not None
    assert (authorities_of(alone), alone.certificate) == ([new_name], kept.certificate)


def test_other_names_get_another_certificate_from_the_same_authority() -> None:
    bundle = first()
    renamed = next_bundle(bundle, ["other.system.svc"], START + DAY)
    assert renamed is not None
    assert (renamed.authorities, renamed.authority_key) == (bundle.authorities, bundle.authority_key)
    assert next_bundle(renamed, ["other.system.svc"], START + DAY) is None


def test_fewer_names_are_no_reason() -> None:
    assert next_bundle(first(), NAMES[:1], START) is None


def test_without_the_authority_s_key_the_certificate_goes_on_while_a_new_authority_settles() -> None:
    bundle = replace(first(), authority_key="")
    both = next_bundle(bundle, NAMES, START + DAY)
    assert both is not None
    assert both.certificate == bundle.certificate
    assert len(authorities_of(both)) == 2


def test_after_years_without_anybody_all_is_made_anew() -> None:
    bundle = first()
    renewed = next_bundle(bundle, NAMES, START + 2 * AUTHORITY_LIFE)
    assert renewed is not None
    assert not set(authorities_of(renewed)) & set(authorities_of(bundle))


@pytest.mark.parametrize("current", [None, Bundle(), Bundle.from_data({"tls.crt": b"\xff\x00"})])
def test_what_is_not_there_is_made(current: Bundle | None) -> None:
    made = next_bundle(current, NAMES, START)
    assert made is not None
    assert trusts(made.authorities, made.certificate, START)


OWN, FOREIGN = first(), first()
PARTS = [field.name for field in fields(Bundle)]


@st.composite
def damaged(draw: st.DrawFn) -> Bundle:
    """Return a bundle of which some parts are gone, foreign, cut, changed or nonsense."""
    changes: dict[str, str] = {}
    for part in draw(st.sets(st.sampled_from(PARTS), min_size=1)):
        text: str = getattr(OWN, part)
        at = draw(st.integers(0, len(text) - 1))
        changed = text[:at] + draw(st.characters(min_codepoint=32, max_codepoint=126)) + text[at + 1 :]
        foreign: str = getattr(FOREIGN, draw(st.sampled_from(PARTS)))
        changes[part] = draw(st.sampled_from(["", text[:at], changed, foreign, text + foreign])) or draw(st.text())
    return replace(OWN, **changes)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")  # damage can look outdated
@settings(max_examples=150, deadline=None)
@given(damaged())
def test_from_whatever_is_there_comes_something_good(bundle: Bundle) -> None:
    now = START + DAY
    mended = next_bundle(bundle, NAMES, now) or bundle
    assert trusts(mended.authorities, mended.certificate, now)
    assert next_bundle(mended, NAMES, now) is None
    key = load_pem_private_key(mended.key.encode(), None)
    shown = x509.load_pem_x509_certificate(mended.certificate.encode()).public_key()
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(shown, ec.EllipticCurvePublicKey)
    shown.verify(key.sign(b"hello", ec.ECDSA(SHA256())), b"hello", ec.ECDSA(SHA256()))


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(first())


def test_a_bundle_survives_the_secret() -> None:
    bundle = first()
    assert Bundle.from_data(bundle.to_data()) == bundle
    assert set(bundle.to_data()) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}
