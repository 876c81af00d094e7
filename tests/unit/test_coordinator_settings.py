"""What the coordinator takes from a manifest, and whom it believes."""

from __future__ import annotations

import asyncio

from manifests.build import manifest
from omnilearn_coordinator.credentials import Identity, Tokens
from omnilearn_coordinator.settings import settings_of
from omnilearn_core.api.job import OmniLearnJob


def test_settings_are_those_of_the_manifest() -> None:
    job = OmniLearnJob.from_manifest(manifest())
    settings = settings_of(job)
    assert settings.name == job.metadata.name
    assert settings.global_batch == job.spec.batch.global_
    assert settings.fewest == job.spec.fewest
    assert settings.expected == settings.most == job.spec.most
    assert settings.silent_after == job.spec.membership.silent_after_seconds
    for index in (0, 99):  # whatever its number
        worker = f"{job.metadata.name}-{job.spec.workers[0].name}-{index}"
        assert settings.group_of(worker).name == job.spec.workers[0].name


def test_a_worker_that_is_not_in_the_manifest_is_in_the_group_its_name_says() -> None:
    settings = settings_of(OmniLearnJob.from_manifest(manifest()))
    assert settings.group_of("job-late-7").name == "job-late"


def test_a_token_tells_whose_it_is_until_it_is_revoked() -> None:
    tokens = Tokens()
    token = tokens.issue("a", 3)
    assert asyncio.run(tokens.identify(token)) == Identity("a", 3)
    assert asyncio.run(tokens.identify(token + "x")) is None
    tokens.revoke("a", 2)
    assert asyncio.run(tokens.identify(token)) == Identity("a", 3)
    tokens.revoke("a", 3)
    assert asyncio.run(tokens.identify(token)) is None


def test_a_new_token_of_an_attempt_voids_the_earlier_one() -> None:
    tokens = Tokens()
    earlier, later = tokens.issue("a", 0), tokens.issue("a", 0)
    assert asyncio.run(tokens.identify(earlier)) is None
    assert asyncio.run(tokens.identify(later)) == Identity("a", 0)


def test_tokens_are_not_kept_in_the_clear() -> None:
    tokens = Tokens()
    token = tokens.issue("a", 0)
    assert token not in repr(vars(tokens))
