"""Rules and refusals: exactly the expected sentences, from the same table that the API server is asked about."""

from __future__ import annotations

import re

import pytest

from manifests import BAD, CHANGES, GOOD, OPTIONAL_NULLS, Bad, Change, Manifest, changed, group, manifest, stored
from omnilearn_core.api.rules import RULES
from omnilearn_core.api.rules.rule import Rule
from omnilearn_core.api.validate import Problem, problems_of

REFUSED = BAD | OPTIONAL_NULLS
EXPECTED = [problem for bad in BAD.values() for problem in bad.problems] + [
    problem for change in CHANGES.values() for problem in change.problems
]


def sentence_pattern(rule: Rule) -> re.Pattern[str]:
    return re.compile(re.sub("%[sd]", ".*", re.escape(rule.sentence)))


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_a_good_manifest_has_no_problem(good: Manifest) -> None:
    assert problems_of(good) == []


@pytest.mark.parametrize("bad", REFUSED.values(), ids=REFUSED)
def test_a_bad_manifest_has_exactly_the_expected_problems(bad: Bad) -> None:
    assert tuple(problems_of(bad.manifest)) == bad.problems


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_has_exactly_the_expected_problems(change: Change) -> None:
    assert tuple(problems_of(change.new, stored(change.old))) == change.problems


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.sentence[:50])
def test_every_rule_is_broken_by_some_case(rule: Rule) -> None:
    assert any(sentence_pattern(rule).fullmatch(problem.sentence) for problem in EXPECTED)


def test_no_sentence_is_that_of_two_rules() -> None:
    """Otherwise the test above could be satisfied by the wrong rule."""
    for problem in EXPECTED:
        assert sum(bool(sentence_pattern(rule).fullmatch(problem.sentence)) for rule in RULES) <= 1


def test_no_sentence_has_a_percent_sign_left() -> None:
    assert not [problem for problem in EXPECTED if "%" in problem.sentence]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.sentence[:50])
def test_a_rule_has_as_many_values_as_its_sentence_has_places(rule: Rule) -> None:
    assert len(re.findall("%[sd]", rule.sentence)) == rule.sentence.count("%") == len(rule.values)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.sentence[:50])
def test_a_message_expression_is_well_formed(rule: Rule) -> None:
    if not rule.values:
        assert rule.message_expression is None
        return
    expression = str(rule.message_expression)
    literal, call, values = expression.partition("'.format([")
    assert call
    assert values == f"{', '.join(rule.values)}])"
    assert literal[0] == "'"
    assert "'" not in literal[1:].replace("\\'", ""), "a quote inside of the sentence must be escaped"
    assert literal[1:].replace("\\'", "'") == rule.sentence
    assert "\\" not in rule.sentence
    assert all(balanced(value) for value in (rule.cel, *rule.values))


def balanced(cel: str) -> bool:
    return all(cel.count(begin) == cel.count(end) for begin, end in ("()", "[]", "{}")) and cel.count("'") % 2 == 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.sentence[:50])
def test_a_sentence_says_what_to_change_and_fits_on_one_line(rule: Rule) -> None:
    assert ": " in rule.sentence
    assert "\n" not in rule.sentence
    assert rule.sentence[-1] != "."
    assert len(rule.message) < 300


def test_a_value_that_would_break_the_line_is_left_out_of_the_sentence() -> None:
    [problem] = problems_of(manifest(workers=[group("a\nb")]))
    assert problem.sentence.startswith("the group name is '…': use lower-case letters")


def test_all_problems_are_told_at_once() -> None:
    bad = manifest(batch={"global": "64", "law": "Afine"}, workers=None, suspend=1, gang_scheduler="none")
    assert [problem.path for problem in problems_of(bad)] == [
        "spec.batch.global",
        "spec.batch.law",
        "spec.workers",
        "spec.suspend",
        "spec.gang_scheduler",
    ]


def test_all_broken_rules_are_told_at_once() -> None:
    bad = manifest("my.job", workers=[group("a-b", minReplicas=3)], membership={"maxWorkers": 9})
    assert [problem.path for problem in problems_of(bad)] == [
        "metadata.name",
        "spec.workers[0].name",
        "spec.workers[0].minReplicas",
        "spec.membership.maxWorkers",
    ]


@pytest.mark.parametrize(
    ("document", "kind"),
    [([], "a list"), ("kind: OmniLearnJob", "a text"), (None, "an empty document"), (5, "a single value")],
)
def test_a_document_that_is_no_manifest_is_refused(document: object, kind: str) -> None:
    sentence = f"this is {kind}, not a manifest: begin with apiVersion and kind"
    assert problems_of(document) == [Problem("", sentence)]


def test_a_number_that_json_does_not_know_is_refused() -> None:
    [problem] = problems_of(changed(manifest(), "spec.workers.0.template.spec.x", float("nan")))
    assert problem.sentence.startswith("this cannot be read as JSON: ")


def test_a_long_value_is_shown_shortened() -> None:
    [problem] = problems_of(changed(manifest(), "spec.batch.global", "9" * 1000))
    assert problem.sentence == f'global is "{"9" * 56}…: write a whole number, without quotes'
