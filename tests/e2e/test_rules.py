"""The real API server and `omnilearn validate` agree on good and bad manifests, and on the words for broken rules."""

from __future__ import annotations

import pytest

from manifests import BAD, GOOD, Manifest
from omnilearn_core.api.validate import problems_of

from .kube import Kube


def here(manifest: Manifest, kube: Kube) -> Manifest:
    """Return a good manifest in the test's namespace: kubectl refuses others."""
    return manifest | {"metadata": manifest["metadata"] | {"namespace": kube.namespace}}


@pytest.mark.parametrize("name", GOOD)
def test_both_take_a_good_manifest(shared_kube: Kube, name: str) -> None:
    assert (shared_kube.refusal(here(GOOD[name], shared_kube)), problems_of(GOOD[name])) == ("", [])


@pytest.mark.parametrize("name", [name for name, bad in BAD.items() if bad.by_rule])
def test_both_say_the_same_sentence_of_a_broken_rule(shared_kube: Kube, name: str) -> None:
    said = shared_kube.refusal(BAD[name].manifest)
    assert [problem.sentence for problem in BAD[name].problems if problem.sentence not in said] == []


@pytest.mark.parametrize("name", [name for name, bad in BAD.items() if not bad.by_rule])
def test_both_refuse_what_the_schema_does_not_allow(shared_kube: Kube, name: str) -> None:
    assert shared_kube.refusal(BAD[name].manifest) != ""
    assert problems_of(BAD[name].manifest) != []
