"""What the documents name is there: files, tests, pages and their sections; and they tell of all that users see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnilearn_core.api.names import Reason

_ROOT = Path(__file__).parents[2]
_PAGES = sorted([*_ROOT.glob("*.md"), *_ROOT.glob("docs/*.md")])
_FOLDERS = "tests|docs|operator|runtime|charts|examples|benchmarks|requirements|scripts|crds"

_NAMED = re.compile(rf"`((?:{_FOLDERS})/[\w./*{{}},-]*?)(?:::(\w+))?`")
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"(?m)^#+ (.*)$")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def choices(pattern: str) -> list[str]:
    """Return what a pattern with a list in braces stands for."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [pattern] if found is None else [f"{found[1]}{each}{found[3]}" for each in found[2].split(",")]


def anchor(heading: str) -> str:
    """Return how a section is linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def rows(page: str, section: str) -> list[list[str]]:
    """Return the rows of the table in a section, without its head."""
    part = text_of(_ROOT / page).split(f"\n## {section}\n")[1].split("\n## ")[0]
    cells = [line.strip().strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [[each.strip() for each in row] for row in cells[2:]]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_files_and_tests_that_a_page_names_are_there(page: Path) -> None:
    missing = []
    for name, test in _NAMED.findall(text_of(page)):
        found = [file for choice in choices(name) for file in _ROOT.glob(choice.rstrip("/"))]
        if len(found) < len(choices(name)) or (test and f"def {test}(" not in text_of(found[0])):
            missing.append(f"{name} {test}")
    assert missing == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_pages_and_sections_that_a_page_links_to_are_there(page: Path) -> None:
    missing = []
    for file, section in _LINK.findall(text_of(page)):
        target = page.parent / file if file else page
        if not target.exists() or (section and section not in map(anchor, _HEADING.findall(text_of(target)))):
            missing.append(f"{file}#{section}")
    assert missing == []


def test_every_threat_has_a_test_behind_it() -> None:
    table = rows("docs/security.md", "What could go wrong, what prevents it, and the test that shows it")
    assert len(table) > 10
    assert [threat for threat, _, shown in table if "`tests/" not in shown] == []


def test_every_reason_that_a_condition_or_an_event_may_have_is_explained() -> None:
    text = text_of(_ROOT / "docs/operations.md")
    assert [reason for reason in Reason if f"{reason}" not in text] == []
