"""The API server and `omnilearn validate` refuse the same manifests, and where rules are broken, in the same words.

Differences that are known and accepted, all of them:

1. Null in an optional field without a default. A create request drops it, but `kubectl apply --server-side`, which the
   documentation recommends, refuses it; so we do, with advice to leave the line out.
2. A status that does not fit. The server drops what users write there unread; we check it as the operator's.
3. A whole number as a fraction, 10.0. kubectl and our YAML reader make it 10 before anybody else sees it; as raw JSON,
   the server takes it for a whole number where no rule looks at it, we never.
4. Inside of metadata: the server also checks how long annotations are together, and what finalizers, ownerReferences
   and managedFields hold; it knows that a namespace must exist and a name must be free.
5. The sentence, not the verdict, about a generated name: the server's has five random characters, ours xxxxx.
6. Names twice, in an update: the server says "Duplicate value" first and then only what else has changed.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apiserver import CRD, Case, Verdict, ask
from manifests import BAD, CHANGES, GOOD, OPTIONAL_NULLS, Manifest, stored
from mutations import corpus
from omnilearn_core.api.rules import RULES
from omnilearn_core.api.validate import Problem, problems_of

_SENTENCES = re.compile("|".join(re.sub("%[sd]", ".*", re.escape(rule.sentence)) for rule in RULES), re.DOTALL)
_ADVICE_ON_NULL = "is empty: give it a value, or leave the line out"


def broken_rules(verdict: Verdict) -> set[str]:
    return {message for message in verdict.messages if _SENTENCES.fullmatch(message)}


def without_nulls(part: Any) -> Any:
    """Return a part of a manifest as a create request leaves it (difference 1)."""
    if isinstance(part, dict):
        return {key: without_nulls(value) for key, value in part.items() if value is not None}
    return [without_nulls(value) for value in part] if isinstance(part, list) else part


def as_created(manifest: Manifest) -> tuple[Manifest, list[Problem]]:
    """Return a manifest without the nulls that alone make a difference, and its problems."""
    problems = problems_of(manifest)
    if any(problem.sentence.endswith(_ADVICE_ON_NULL) for problem in problems):
        manifest = {**manifest, "spec": without_nulls(manifest["spec"])}
        problems = problems_of(manifest)
    return manifest, problems


def test_the_api_server_accepts_the_crd(api_server: Path) -> None:
    assert ask(api_server, []) == []


def test_the_api_server_would_refuse_a_crd_with_a_broken_rule(api_server: Path, tmp_path: Path) -> None:
    broken = tmp_path / "crd.yaml"
    broken.write_text(CRD.read_text().replace("self.minReplicas <= self.replicas", "self.minReplica <= self.replicas"))
    with pytest.raises(subprocess.CalledProcessError):
        ask(api_server, [], broken)


def test_the_api_server_accepts_every_good_manifest(api_server: Path) -> None:
    verdicts = ask(api_server, [Case(manifest) for manifest in GOOD.values()])
    assert {name: verdict for name, verdict in zip(GOOD, verdicts, strict=True) if verdict.refuses} == {}


def test_the_api_server_refuses_every_bad_manifest(api_server: Path) -> None:
    verdicts = ask(api_server, [Case(bad.manifest) for bad in BAD.values()])
    assert [name for name, verdict in zip(BAD, verdicts, strict=True) if not verdict.refuses] == []


def test_the_api_server_says_exactly_the_sentences_of_the_broken_rules(api_server: Path) -> None:
    cases = {name: bad for name, bad in BAD.items() if bad.by_rule}
    verdicts = ask(api_server, [Case(bad.manifest) for bad in cases.values()])
    said = {name: broken_rules(verdict) for name, verdict in zip(cases, verdicts, strict=True)}
    assert said == {name: {problem.sentence for problem in bad.problems} for name, bad in cases.items()}


def test_the_api_server_judges_changes_in_the_same_words(api_server: Path) -> None:
    verdicts = ask(api_server, [Case(change.new, change.old) for change in CHANGES.values()])
    said = {name: broken_rules(verdict) for name, verdict in zip(CHANGES, verdicts, strict=True)}
    assert said == {name: {problem.sentence for problem in change.problems} for name, change in CHANGES.items()}
    refused = {name for name, verdict in zip(CHANGES, verdicts, strict=True) if verdict.refuses}
    assert refused == {name for name, change in CHANGES.items() if problems_of(change.new, stored(change.old))}


def test_a_create_request_drops_null_where_there_is_no_default(api_server: Path) -> None:
    """Difference 1: should this fail one day, as_created may go."""
    verdicts = ask(api_server, [Case(bad.manifest) for bad in OPTIONAL_NULLS.values()])
    assert not any(verdict.refuses for verdict in verdicts)
    assert all(as_created(bad.manifest)[1] == [] for bad in OPTIONAL_NULLS.values())


def test_verdicts_and_sentences_agree_on_a_corpus_of_manifests_that_are_nearly_good(api_server: Path) -> None:
    cases = list(corpus(seed=0, size=1500))
    verdicts = ask(api_server, [Case(manifest) for manifest in cases])
    refused = sum(verdict.refuses for verdict in verdicts)
    assert 300 < refused < 1200, "a corpus in which nearly all or nearly none is refused shows little"
    assert [case for case, verdict in zip(cases, verdicts, strict=True) if _disagree(case, verdict)] == []


def _disagree(case: Manifest, verdict: Verdict) -> bool:
    read, problems = as_created(case)
    said = {problem.sentence for problem in problems if _SENTENCES.fullmatch(problem.sentence)}
    # The server checks rules in spite of some errors of the schema, we only without; and difference 5.
    comparable = said and "generateName" not in read["metadata"]
    return bool(problems) != verdict.refuses or bool(comparable and said != broken_rules(verdict))
