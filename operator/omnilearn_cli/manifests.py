"""Read manifests from YAML files the way kubectl does, with line and column when they cannot be read."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import yaml


class UnreadableFileError(Exception):
    """A file that is not YAML, or cannot be opened; the sentence says where and why."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: its number, from 1, and what it holds."""

    number: int
    content: Any

    @property
    def name(self) -> str:
        """The name it gives itself, if any."""
        metadata = self.content.get("metadata") if isinstance(self.content, dict) else None
        return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


class _Loader(yaml.SafeLoader):
    """Like kubectl: a key may stand only once, a time is a string, 1e3 a number, 10:30 none, and 2.0 is 2."""

    bool_values: ClassVar = yaml.SafeLoader.bool_values | {"y": True, "n": False}

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked: set[yaml.MappingNode] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Check the keys before those of a merge (<<) come among them."""
        if node not in self._checked:
            self._checked.add(node)
            self._check_keys([key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"])
        super().flatten_mapping(node)

    def _check_keys(self, key_nodes: Iterable[yaml.Node]) -> None:
        seen: set[str] = set()
        for key_node in key_nodes:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                _refuse(key_node, f"the key {key_node.value} is not a string: put it in quotes")
            if key in seen:
                _refuse(key_node, f"the key {key} stands here twice: remove one")
            seen.add(key)

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """Return a whole number as int, however it is written, because JSON makes no difference."""
        text = node.value.replace("_", "")
        with suppress(ValueError):
            return int(_OCTAL.sub(r"\g<1>0o", text), 0)
        try:
            number = float(text)
        except ValueError:
            _refuse(node, f"{text} is no number that JSON knows: write another, or put it in quotes")
        if math.isinf(number):
            return str(node.value)
        return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _refuse(node: yaml.Node, problem: str) -> NoReturn:
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_OCTAL = re.compile(r"^([-+]?)0(?=[0-7]+$)")
_NUMBER = re.compile(
    r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?"
    r"|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$"
)
_BOOL = re.compile(r"(y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$")
_KEPT = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")

_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _KEPT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("yYtToOnNfF"))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_number)


# What the parser says of the usual mistakes, and what a person would.
_WORDS = (
    ("expected <block end>", "the indentation does not fit the lines above: align it with its neighbours"),
    ("could not find expected ':'", "a colon is missing, or this line is indented wrongly"),
    ("mapping values are not allowed", "a colon where no field can begin: check the indentation, or use quotes"),
    ("cannot start any token", "a character that cannot begin a value: indent with spaces, not tabs, or use quotes"),
    ("found unexpected end of stream", "a quote is not closed"),
    ("expected ',' or '}'", "a brace is not closed, or a comma is missing"),
    ("expected ',' or ']'", "a bracket is not closed, or a comma is missing"),
)


def _in_our_words(problem: str) -> str:
    return next((words for sign, words in _WORDS if sign in problem), problem)


def _unfolded(content: Any) -> Iterator[Any]:
    """Return the objects of a document: one, none if it is empty, or those of a List, as kubectl get prints it."""
    items = content.get("items") if isinstance(content, dict) and content.get("kind") == "List" else None
    if isinstance(items, list):
        yield from items
    elif content is not None:
        yield content


def documents_of(path: Path) -> Iterator[Document]:
    """Return the documents of a file that are not empty; `-` is standard input, a List is what it lists."""
    text = _text_of(path)
    try:
        for number, content in enumerate(yaml.load_all(text, Loader=_Loader), start=1):
            for item in _unfolded(content):
                yield Document(number, item)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnreadableFileError(f"{where}{_in_our_words(error.problem or error.context or 'not YAML')}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = f"line {before.count(chr(10)) + 1}, column {error.position - before.rfind(chr(10))}"
        raise UnreadableFileError(f"{where}: a character that YAML does not allow: remove it") from None
    except RecursionError:
        raise UnreadableFileError("this is nested too deeply") from None


def _text_of(path: Path) -> str:
    try:
        return sys.stdin.read() if path == Path("-") else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise UnreadableFileError(f"cannot be opened: {error.strerror}") from None
