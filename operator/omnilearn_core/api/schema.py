"""pydantic's JSON schema as a Kubernetes structural schema: no references, no null unions, no titles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from .rules import RULES

Schema = dict[str, Any]

_KEPT = ("type", "format", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems")

# Lists that are maps by a key, so that patches and transition rules know an item again.
_MAP_KEYS = {"spec.workers": "name", "status.conditions": "type", "status.members": "worker"}


def structural_schema(model: type[BaseModel], path: str) -> Schema:
    """Return the schema of a model at ``path`` of the job, with the rules that hang there."""
    source = model.model_json_schema(by_alias=True, mode="validation")
    return _translate(source, source.get("$defs", {}), path)


def _translate(source: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Schema:
    node = _resolve(source, definitions)
    schema: Schema = {}
    if description := source.get("description") or node.get("description"):
        schema["description"] = " ".join(description.split())
    if node.get("default") is not None:
        # An object's own fields have their defaults; the server applies them in turn.
        schema["default"] = {} if isinstance(node["default"], dict) else node["default"]
    schema |= {key: node[key] for key in _KEPT if key in node}
    schema |= dict(_exclusive_bounds(node))
    if "properties" in node:
        schema["properties"] = {
            name: _translate(value, definitions, f"{path}.{name}") for name, value in node["properties"].items()
        }
        if node.get("required"):
            schema["required"] = sorted(node["required"])
    if "items" in node:
        schema["items"] = _translate(node["items"], definitions, f"{path}[]")
    schema |= _open_ends(node, definitions, path)
    if key := _MAP_KEYS.get(path):
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    if rules := validations(path):
        schema["x-kubernetes-validations"] = rules
    return schema


def validations(path: str) -> list[dict[str, str]]:
    """Return the CEL rules that hang at ``path``."""
    found = []
    for rule in RULES:
        if rule.at == path:
            expression = {"messageExpression": rule.message_expression} if rule.message_expression else {}
            found.append({"rule": rule.cel, "message": rule.message} | expression)
    return found


def _resolve(source: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema itself: references followed, `| None` dropped, a union of int and str as such."""
    node = dict(source)
    if "$ref" in node:
        target = definitions[node.pop("$ref").rsplit("/", 1)[-1]]
        node = {**_resolve(target, definitions), **node}
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "anyOf" in node:
        options = [option for option in node.pop("anyOf") if option.get("type") != "null"]
        if len(options) == 1:
            return {**_resolve(options[0], definitions), **node}
        return {**node, "x-kubernetes-int-or-string": True}
    return node


def _exclusive_bounds(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if name in node:
            yield bound, node[name]
            yield name, True


def _open_ends(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Schema:
    """Return how a schema treats what it does not name."""
    schema: Schema = {}
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        schema["additionalProperties"] = _translate(extra, definitions, f"{path}{{}}")
        if "maxProperties" in node:
            schema["maxProperties"] = node["maxProperties"]
    elif extra is True:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if node.get("x-kubernetes-int-or-string"):
        schema["x-kubernetes-int-or-string"] = True
    return schema
