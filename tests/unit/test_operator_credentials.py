"""A pod can speak only for itself, and only while it is a pod of that job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from omnilearn_coordinator.credentials import Identity
from omnilearn_coordinator.refusals import RefusedRequest
from omnilearn_core.api import names
from omnilearn_operator.api import ApiError, Manifest
from omnilearn_operator.credentials import Bearer, PodCredentials, Reviews, bearer_of
from omnilearn_operator.registry import Key, Registry
from operations import MemoryApi, job_of

KEY = Key("team", "job")


def review(pod: str = "job-a-0-0", uid: str = "pod-uid", **status: Any) -> Manifest:
    extra = {"authentication.kubernetes.io/pod-name": [pod], "authentication.kubernetes.io/pod-uid": [uid]}
    user = {"username": "system:serviceaccount:team:default", "extra": extra}
    return {"status": {"authenticated": True, "audiences": [names.TOKEN_AUDIENCE], "user": user, **status}}


class Reviewer(MemoryApi):
    """Answers every question about a token alike."""

    def __init__(self, answer: Manifest) -> None:
        super().__init__()
        self._answer = answer

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        await super().create(manifest, dry_run=True)
        return self._answer


def registry_with(owner: str = "job-uid") -> Registry:
    registry = Registry()
    registry.see_job(job_of().to_manifest(), gone=False)
    registry.see_pod(pod_manifest(owner))
    return registry


def pod_manifest(owner: str = "job-uid") -> Manifest:
    labels = {names.JOB_LABEL: "job", names.WORKER_LABEL: "job-a-0", names.ATTEMPT_LABEL: "0"}
    return {
        "metadata": {
            "name": "job-a-0-0",
            "namespace": "team",
            "uid": "pod-uid",
            "labels": labels,
            "ownerReferences": [{"uid": owner, "controller": True}],
        }
    }


def identify(answer: Manifest, registry: Registry) -> Identity | None:
    credentials = PodCredentials(KEY, Reviews(Reviewer(answer)), registry)
    return asyncio.run(credentials.identify("token"))


def test_a_pod_s_token_tells_its_worker_and_attempt() -> None:
    assert identify(review(), registry_with()) == Identity("job-a-0", 0)


@pytest.mark.parametrize(
    "answer",
    [
        review(authenticated=False),
        review(audiences=["https://kubernetes.default.svc"]),
        review(user={"username": "system:serviceaccount:team:default"}),
        review(user={"username": "admin", "extra": review()["status"]["user"]["extra"]}),
        {},
    ],
    ids=["not valid", "for another audience", "not bound to a pod", "not a service account's", "no answer"],
)
def test_other_tokens_are_nobody_s(answer: Manifest) -> None:
    assert bearer_of(answer) is None


def test_a_token_of_another_namespace_is_nobody_s() -> None:
    user = review()["status"]["user"] | {"username": "system:serviceaccount:other:default"}
    assert identify(review(user=user), registry_with()) is None


def test_a_pod_of_another_job_of_that_name_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnilearn_operator.credentials._UNSEEN_SECONDS", 0.01)
    assert identify(review(), registry_with(owner="an earlier job")) is None


def test_a_pod_that_is_gone_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnilearn_operator.credentials._UNSEEN_SECONDS", 0.01)
    registry = registry_with()
    registry.see_pod(pod_manifest(), gone=True)
    assert identify(review(), registry) is None


def test_a_pod_that_the_watch_shows_a_moment_later_is_known() -> None:
    async def late() -> Identity | None:
        registry = Registry()
        registry.see_job(job_of().to_manifest(), gone=False)
        credentials = PodCredentials(KEY, Reviews(Reviewer(review())), registry)
        asking = asyncio.create_task(credentials.identify("token"))
        await asyncio.sleep(0)
        registry.see_pod(pod_manifest())
        return await asking

    assert asyncio.run(late()) == Identity("job-a-0", 0)


def test_a_worker_is_asked_to_come_again_if_nobody_can_tell_whose_its_token_is() -> None:
    api = Reviewer({})
    api.answers["try", "TokenReview"] = ApiError(0, "Unreachable", "the API server cannot be reached")
    with pytest.raises(RefusedRequest, match="Service Unavailable"):
        asyncio.run(PodCredentials(KEY, Reviews(api), registry_with()).identify("token"))


def test_an_answer_is_believed_for_a_while() -> None:
    now = [0.0]
    api = Reviewer(review())

    async def ask() -> int:
        reviews = Reviews(api, clock=lambda: now[0])
        for moment in (0.0, 59.0, 61.0):
            now[0] = moment
            assert await reviews.bearer("token") == Bearer("team", "job-a-0-0", "pod-uid")
        return len(api.calls)

    assert asyncio.run(ask()) == 2


def test_what_is_believed_no_longer_is_forgotten() -> None:
    now = [0.0]

    async def ask() -> int:
        reviews = Reviews(Reviewer(review()), clock=lambda: now[0])
        for number in range(200):
            now[0] = number
            await reviews.bearer(f"token {number}")
        return len(reviews._good)

    assert asyncio.run(ask()) <= 61
