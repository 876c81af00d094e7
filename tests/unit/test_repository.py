"""What must stay true of the repository itself: imports, sizes, pins, and nothing of the machine it was made on."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES, FUNCTION_LINES = 300, 40
SOURCES = [
    file.relative_to(ROOT)
    for folder in ("operator", "runtime", "scripts", "benchmarks", "tests")
    for file in sorted((ROOT / folder).rglob("*.py"))
]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))

IMPORT_ALL = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    importlib.import_module(module.name)
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""


def imported_by(package: str) -> set[str]:
    """Return the packages that are loaded once all modules of ``package`` are."""
    command = [sys.executable, "-c", IMPORT_ALL, package]
    return set(json.loads(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout))


def packages_of(requirements: Path) -> Iterator[tuple[str, str]]:
    """Return the pinned packages of a requirements file, each with the text that belongs to it."""
    for entry in re.split(r"\n(?=[A-Za-z0-9])", f"\n{requirements.read_text(encoding='utf-8')}")[1:]:
        yield re.split(r"[=\s;]", entry, maxsplit=1)[0], entry


@pytest.mark.parametrize("folder", ["operator", "runtime"])
def test_a_folder_named_after_a_module_of_python_is_no_package(folder: str) -> None:
    """An operator/__init__.py would be found by `import operator` of the standard library."""
    assert not (ROOT / folder / "__init__.py").exists()


def test_there_is_no_tests_operator() -> None:
    assert not (ROOT / "tests" / "operator").exists(), "tests/ is in pythonpath, so this would hide the module operator"


def test_the_core_needs_nothing_but_pydantic() -> None:
    heavy = {"torch", "kopf", "kubernetes", "aiohttp", "yaml", "typer", "rich", "numpy", "matplotlib"}
    assert not imported_by("omnilearn_core") & heavy


def test_the_command_line_needs_neither_torch_nor_kubernetes() -> None:
    assert not imported_by("omnilearn_cli") & {"torch", "kopf", "kubernetes"}


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 30


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_file_is_short(source: Path) -> None:
    assert len((ROOT / source).read_text(encoding="utf-8").splitlines()) <= FILE_LINES


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_functions_are_short(source: Path) -> None:
    lengths = [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert [(name, length) for name, length in lengths if length > FUNCTION_LINES] == []


@pytest.mark.parametrize("requirements", REQUIREMENTS, ids=lambda file: file.stem)
def test_every_requirement_is_pinned_with_its_hashes(requirements: Path) -> None:
    packages = dict(packages_of(requirements))
    assert packages
    unpinned = re.compile(r"(?!\S+==[^\s;]+[^\n]*\\\n\s+--hash=sha256:[0-9a-f]{64})")
    assert [name for name, entry in packages.items() if unpinned.match(entry)] == []


@pytest.mark.parametrize("requirements", REQUIREMENTS, ids=lambda file: file.stem)
def test_requirements_name_no_address(requirements: Path) -> None:
    text = requirements.read_text(encoding="utf-8").replace("aiohttp", "").replace("httpx", "").replace("-http", "")
    assert "http" not in text
    assert "/" not in re.sub(r"\S*\.txt|pyproject\.toml", "", text), "a path of the machine that compiled it"


def test_torch_is_in_no_image_but_that_of_the_runtime() -> None:
    pins = {file.stem: {entry.split()[0] for _, entry in packages_of(file)} for file in REQUIREMENTS}
    with_torch = {name for name in pins if any(pin.startswith("torch==") for pin in pins[name])}
    assert with_torch == {"runtime", "dev"}
    assert "torch==2.13.0" in pins["runtime"] & pins["dev"]


def test_the_runtime_needs_neither_kubernetes_nor_the_coordinator() -> None:
    assert not imported_by("omnilearn_runtime") & {"kopf", "kubernetes", "aiohttp", "omnilearn_coordinator", "typer"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only git knows which files belong to the repository")
def test_no_file_names_a_package_index() -> None:
    """Addresses of indexes and mirrors belong to the machine, not to the repository."""
    # Written in two pieces, or this file would name one.
    index = re.compile("https?:" + r"//\S*(pypi\.|pypi/|pythonhosted|/simple\b|goproxy|proxy\.golang)", re.IGNORECASE)
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - whatever git there is
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    assert len(files) > 30
    texts = {file: (ROOT / file).read_bytes() for file in files if (ROOT / file).is_file()}
    naming = [file for file, text in texts.items() if b"\0" not in text and index.search(text.decode(errors="replace"))]
    assert naming == []
    assert not [file for file in texts if Path(file).name in ("uv.lock", "pip.conf", "poetry.lock", ".netrc")]
