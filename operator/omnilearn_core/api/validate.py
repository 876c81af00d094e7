"""Everything that is wrong with a manifest, in sentences: where, what it holds, what to change.

The same models and rules as in the CRD, so this refuses what the API server refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from . import names
from .job import JobSpec, OmniLearnJob
from .rules import check, check_change


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: the path of the field, and a sentence."""

    path: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}" if self.path else self.sentence


def problems_of(manifest: Any, old: OmniLearnJob | None = None) -> list[Problem]:
    """Return what is wrong with one manifest; with ``old``, also what cannot change."""
    if not isinstance(manifest, Mapping):
        return [Problem("", f"this is {_kind_of(manifest)}, not a manifest: begin with apiVersion and kind")]
    try:
        job = OmniLearnJob.from_manifest(manifest)
    except ValidationError as error:
        found = [_problem(details, manifest) for details in error.errors()]
        return _in_order(found + _unknown_metadata(manifest))
    except (TypeError, ValueError, RecursionError) as error:
        return [Problem("", f"this cannot be read as JSON: {error}")]
    breaches = check(job) + (check_change(old, job) if old else [])
    return _in_order(_unknown_metadata(manifest) + [Problem(breach.path, breach.sentence) for breach in breaches])


def is_job(manifest: Any) -> bool:
    """Tell whether a document wants to be an OmniLearnJob; others in a file are none of our business."""
    if not isinstance(manifest, Mapping):
        return True
    group = str(manifest.get("apiVersion", "")).partition("/")[0]
    return group == names.GROUP or manifest.get("kind") == names.KIND or not manifest.get("kind")


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Drop what is said twice; keep the order of the rules."""
    return list(dict.fromkeys(problems))


def _unknown_metadata(manifest: Mapping[str, Any]) -> list[Problem]:
    """Return the fields of metadata that no server knows; the model lets them pass for the sake of newer servers."""
    metadata, known = manifest.get("metadata"), _known_fields(["metadata"])
    unknown = [key for key in metadata if key not in known] if isinstance(metadata, Mapping) else []
    return [Problem(f"metadata.{key}", _unknown(str(key), known)) for key in unknown]


def _problem(details: ErrorDetails, manifest: Mapping[str, Any]) -> Problem:
    loc = _without_union_branches(details["loc"], manifest)
    path, field, value, context = _path(loc), _field(loc), details["input"], details.get("ctx", {})
    match details["type"]:
        case "extra_forbidden":
            return Problem(path, _unknown(field, _known_fields(loc[:-1])))
        case "missing":
            return Problem(path, f"{field} is missing: add it{_what_is_here(value)}")
        case "null":
            choice = "" if context["required"] else ", or leave the line out"
            return Problem(path, f"{field} is empty: give it a value{choice}")
        case "enum" | "literal_error":
            return Problem(path, _not_among(field, value, context["expected"]))
        case "greater_than_equal" | "less_than_equal":
            side, bound = _bound(context)
            return Problem(path, f"{field} is {value}: use {bound} or {side}")
        case "too_short" | "too_long" | "string_too_short" | "string_too_long":
            return Problem(path, _wrong_size(field, value, context))
        case kind if kind.endswith(("_type", "_parsing")):
            return Problem(path, f"{field} is {_shown(value)}: {_wanted(kind, value)}")
        case _:
            return Problem(path, f"{field} is {_shown(value)}: {details['msg']}")


def _without_union_branches(loc: Sequence[str | int], manifest: Any) -> tuple[str | int, ...]:
    """Drop the names that pydantic adds to a path for the branches of a union."""
    kept: list[str | int] = []
    at: Any = manifest
    for position, step in enumerate(loc):
        inside = isinstance(at, Mapping) and step in at
        inside = inside or (isinstance(at, list) and isinstance(step, int) and step < len(at))
        if inside:
            at = at[step]
        elif position + 1 < len(loc) or not isinstance(at, Mapping):
            continue
        kept.append(step)
    return tuple(kept)


def _path(loc: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).lstrip(".")


def _field(loc: Sequence[str | int]) -> str:
    """Return what to call the field at a path: its name, with its place if it is an entry of a list."""
    begin = max((place for place, step in enumerate(loc) if isinstance(step, str)), default=0)
    return _path(loc[begin:]) or "manifest"


def _known_fields(loc: Sequence[str | int]) -> list[str]:
    """Return the field names of the model at a path."""
    model: Any = OmniLearnJob
    for step in loc:
        if isinstance(step, int):
            continue
        fields = {info.alias or name: info for name, info in model.model_fields.items()}
        if step not in fields:
            return []
        model = _model_in(fields[step].annotation)
        if model is None:
            return []
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as ``Annotated[list[WorkerGroup], …] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)


def _unknown(field: str, known: Sequence[str]) -> str:
    near = get_close_matches(field, known, n=1, cutoff=0.6)
    homes = list(_homes(field, JobSpec, "spec"))
    if len(homes) == 1:
        return f"there is no field {field} here: it belongs in {homes[0]}"
    hint = f"did you mean {near[0]}?" if near else f"known here are {', '.join(sorted(known))}"
    return f"there is no field {field}: {hint}"


def _homes(field: str, model: type[BaseModel], path: str) -> Iterator[str]:
    """Return the paths in the spec at which there is such a field."""
    for name, info in model.model_fields.items():
        key = info.alias or name
        if key == field:
            yield path
        if inner := _model_in(info.annotation):
            yield from _homes(field, inner, f"{path}.{key}{'[]' if 'list[' in str(info.annotation) else ''}")


def _what_is_here(value: Any) -> str:
    """Return what stands where something is missing: it may only be indented wrongly."""
    here = list(value) if isinstance(value, Mapping) else []
    return f" (here {'is' if len(here) == 1 else 'are'} only {', '.join(here)})" if 1 <= len(here) <= 6 else ""


def _not_among(field: str, value: Any, expected: str) -> str:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    by_lower_case = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(value).lower(), by_lower_case, n=1, cutoff=0.7)
    hint = f" (did you mean {by_lower_case[near[0]]}?)" if near and len(choices) > 1 else ""
    return f"{field} is {_shown(value)}: use {', '.join(choices)}{hint}"


def _bound(context: Mapping[str, Any]) -> tuple[str, Any]:
    return ("more", context["ge"]) if "ge" in context else ("less", context["le"])


def _wrong_size(field: str, value: Any, context: Mapping[str, Any]) -> str:
    unit = "characters" if isinstance(value, str) else "entries"
    if "min_length" in context:
        return f"{field} has {len(value)} {unit}: use at least {context['min_length']}"
    return f"{field} has {len(value)} {unit}: use at most {context['max_length']}"


def _wanted(kind: str, value: Any) -> str:
    wanted = {
        "int": f"write a whole number{_hint(value, _is_whole, 'such as 600')}",
        "float": f"write a number{_hint(value, _is_number, 'such as 0.5')}",
        "bool": f"write true or false{_hint(value, _is_truth, '')}",
        "string": _as_string(value),
        "list": "write a list, each entry with a dash",
        "dict": "write fields, indented below it",
        "model": "write fields, indented below it",
        "model_attributes": "write fields, indented below it",
        "datetime": "write a time such as 2026-11-16T12:00:00Z",
    }
    return wanted.get(kind.rsplit("_", 1)[0], "write another kind of value")


def _hint(value: Any, is_right: Callable[[str], bool], example: str) -> str:
    """Return what to change about a text: only its quotes, or all of it."""
    if not isinstance(value, str):
        return ""
    return ", without quotes" if is_right(value.strip()) else f", {example}" if example else ""


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdecimal()


def _is_truth(text: str) -> bool:
    return text.lower() in ("true", "false")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_string(value: Any) -> str:
    if isinstance(value, bool):
        return "put it in quotes (YAML reads y, yes, on, n, no and off as true and false)"
    return "put it in quotes" if isinstance(value, (int, float)) else "write a string"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kind_of(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "an empty document"}.get(type(value), "a single value")
