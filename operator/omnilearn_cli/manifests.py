"""Read manifests from YAML files the way kubectl does, with line and column when they cannot be read."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Like Kubernetes: a key may stand only once, and a time is a string."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                problem = f"the key {key_node.value} is not a string: put it in quotes"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            if key in seen:
                problem = f"the key {key} stands here twice: remove one"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents_of(path: Path) -> Iterator[Document]:
    """Return the documents of a file that are not empty."""
    try:
        text = path.read_text(encoding="utf-8")
        for number, content in enumerate(yaml.load_all(text, Loader=_Loader), start=1):
            if content is not None:
                yield Document(number, content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnreadableFileError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UnreadableFileError(f"this is not YAML: {error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise UnreadableFileError(f"cannot be opened: {error.strerror}") from None
