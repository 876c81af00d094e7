"""What a reign allows for, and what is left of one; and how the Service finds the leader."""

from __future__ import annotations

import pytest

from leases import NAME, LeaseApi, run
from omnilearn_core.api import names
from omnilearn_operator.api import ApiError, Manifest
from omnilearn_operator.leadership import TERMS_OF_A_REIGN, term_of
from omnilearn_operator.reign import Fenced, Reign
from omnilearn_operator.signpost import Signpost


def test_each_coordinator_of_a_reign_has_a_higher_term() -> None:
    reign = Reign(3, lambda: True)
    assert [reign.next_term(), reign.next_term()] == [term_of(3, 1), term_of(3, 2)]


def test_a_reign_whose_terms_are_used_up_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    reign = Reign(3, lambda: True)
    monkeypatch.setattr(reign, "_terms", TERMS_OF_A_REIGN - 2)
    assert reign.next_term() < term_of(4, 0)
    assert not reign.holds()


def test_what_is_left_of_a_reign_may_read_but_not_write() -> None:
    async def scene(api: LeaseApi) -> None:
        api.objects["Pod", "p"] = {"metadata": {"name": "p", "resourceVersion": "1"}}
        reign = Reign(1, lambda: True)
        fenced = Fenced(api, reign)
        await fenced.patch("Pod", "team", "p", {"metadata": {"labels": {"a": "b"}}})
        reign.end()
        pod = {"kind": "Pod", "metadata": {"name": "q"}}
        for write in (
            fenced.create(pod),
            fenced.apply(pod),
            fenced.patch("Pod", "team", "p", {}),
            fenced.delete("Pod", "team", "p", "uid"),
        ):
            with pytest.raises(ApiError, match="does not lead any more"):
                await write
        assert (await fenced.get("Pod", "team", "p"))["metadata"]["labels"] == {"a": "b"}
        assert len((await fenced.every("Pod", "team"))["items"]) == 1

    run(scene)


# The Service's way to the leader


def labelled(api: LeaseApi) -> set[str]:
    found = {name: pod["metadata"].get("labels", {}) for (kind, name), pod in api.objects.items() if kind == "Pod"}
    return {name for name, labels in found.items() if labels.get(names.LEADER_LABEL) == NAME}


def test_a_new_leader_takes_the_label_from_a_dead_one_and_puts_it_on_itself() -> None:
    class Labels(LeaseApi):
        async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
            found = await super().every(kind, namespace, selector, fields)
            return {"items": [each for each in found["items"] if each["metadata"]["name"] in labelled(self)]}

    async def scene(_: LeaseApi) -> None:
        api = Labels()
        for pod in ("old", "new"):
            api.objects["Pod", pod] = {"metadata": {"name": pod, "labels": {}}}
        await Signpost(api, "system", "old", NAME).point()
        await Signpost(api, "system", "new", NAME).point()
        assert labelled(api) == {"new"}
        before = len(api.did("patch", "Pod"))
        await Signpost(api, "system", "new", NAME).point()
        assert len(api.did("patch", "Pod")) == before

    run(scene)
