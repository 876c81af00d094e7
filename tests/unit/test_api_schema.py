"""The CRD: generated, bounded, documented, and with the defaults of the models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from omnilearn_cli.main import app
from omnilearn_core.api.base import ApiModel
from omnilearn_core.api.crd import custom_resource_definition
from omnilearn_core.api.job import Batch, Checkpoint, JobSpec, Membership, Restart, WorkerGroup
from omnilearn_core.api.rules import RULES
from omnilearn_core.api.status import Condition, WorkerCounts
from omnilearn_core.api.strategy import Asynchronous, Choice, Hierarchical, LocalSGD, Strategy

Schema = dict[str, Any]

FILE = Path(__file__).parents[2] / "crds" / "omnilearn.dev_omnilearnjobs.yaml"
CRD = custom_resource_definition()
VERSION = CRD["spec"]["versions"][0]
JOB: Schema = VERSION["schema"]["openAPIV3Schema"]


def walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Return a schema and all schemas in it, each with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


# The server knows apiVersion, kind and metadata itself.
SCHEMAS = {path: schema for part in ("spec", "status") for path, schema in walk(JOB["properties"][part], part)}


def at(json_path: str) -> Schema:
    """Return the schema that a path such as .spec.membership leads to."""
    schema = JOB
    for name in json_path.lstrip(".").split("."):
        schema = schema["properties"][name]
    return schema


def test_the_file_is_what_the_command_prints() -> None:
    assert CliRunner().invoke(app, ["crd"]).output == FILE.read_text(encoding="utf-8"), "run: make generate"


def test_the_file_holds_what_the_models_say() -> None:
    assert yaml.safe_load(FILE.read_text(encoding="utf-8")) == CRD


def test_the_file_is_smaller_than_64_kib() -> None:
    assert FILE.stat().st_size < 64 * 1024


def test_there_are_no_references_and_no_unions() -> None:
    forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "title", "const", "nullable"}
    assert not [path for path, schema in SCHEMAS.items() if forbidden & set(schema)]
    assert not [path for path, schema in SCHEMAS.items() if schema.get("type") == "null"]


def test_every_schema_has_one_type() -> None:
    known = {"object", "array", "string", "integer", "number", "boolean"}
    assert not [
        path
        for path, schema in SCHEMAS.items()
        if schema.get("type") not in known and not schema.get("x-kubernetes-int-or-string")
    ]


def test_every_string_is_bounded() -> None:
    strings = {path: schema for path, schema in SCHEMAS.items() if schema.get("type") == "string"}
    assert not [path for path, schema in strings.items() if not {"maxLength", "enum", "format"} & set(schema)]


def test_every_list_is_bounded() -> None:
    assert not [path for path, schema in SCHEMAS.items() if schema.get("type") == "array" and "maxItems" not in schema]


def test_every_map_is_bounded() -> None:
    maps = {path: schema for path, schema in SCHEMAS.items() if "additionalProperties" in schema}
    assert maps
    assert not [path for path, schema in maps.items() if "maxProperties" not in schema]


def test_every_number_has_a_lower_bound() -> None:
    numbers = {path: schema for path, schema in SCHEMAS.items() if schema.get("type") in ("integer", "number")}
    unbounded = [path for path, schema in numbers.items() if "minimum" not in schema]
    assert unbounded == ["status.logged{}"]  # what a script logs may be anything


def test_every_number_of_the_spec_has_an_upper_bound() -> None:
    """CEL multiplies some of them; nothing may overflow."""
    numbers = [schema for path, schema in SCHEMAS.items() if path[:4] == "spec" and schema.get("type") == "integer"]
    assert all(schema["maximum"] <= 2**31 for schema in numbers)


def test_every_field_has_a_description() -> None:
    fields = {path: schema for path, schema in SCHEMAS.items() if not path.endswith(("[]", "{}"))}
    assert not [path for path, schema in fields.items() if not schema.get("description")]


def test_every_description_is_a_sentence_on_one_line() -> None:
    descriptions = {path: schema["description"] for path, schema in SCHEMAS.items() if "description" in schema}
    assert not [path for path, text in descriptions.items() if text[-1] != "." or "\n" in text or text[0].islower()]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("spec", JobSpec),
        ("spec.strategy", Strategy),
        ("spec.strategy.localSGD", LocalSGD),
        ("spec.strategy.hierarchical", Hierarchical),
        ("spec.strategy.asynchronous", Asynchronous),
        ("spec.batch", Batch),
        ("spec.workers[]", WorkerGroup),
        ("spec.membership", Membership),
        ("spec.restart", Restart),
        ("spec.checkpoint", Checkpoint),
        ("status.conditions[]", Condition),
        ("status.strategy", Choice),
        ("status.workers", WorkerCounts),
    ],
)
def test_the_defaults_of_the_schema_are_those_of_the_model(path: str, model: type[ApiModel]) -> None:
    for name, field in model.model_fields.items():
        schema = SCHEMAS[f"{path}.{field.alias or name}"]
        if field.is_required() or field.default is None:
            assert "default" not in schema
        elif isinstance(field.default, ApiModel):
            # The server fills an empty object with the defaults of its fields, which are tested on their own.
            assert schema["default"] == {}
            assert field.default == type(field.default)()
        else:
            assert schema["default"] == field.default
        assert ((field.alias or name) in SCHEMAS[path].get("required", ())) == field.is_required()


def test_only_these_schemas_have_defaults() -> None:
    """So that the test above misses none."""
    parents = {path.rpartition(".")[0] for path, schema in SCHEMAS.items() if "default" in schema}
    assert parents == {
        "spec", "spec.strategy", "spec.strategy.localSGD", "spec.strategy.hierarchical", "spec.strategy.asynchronous",
        "spec.batch", "spec.workers[]", "spec.membership",
        "spec.restart", "spec.checkpoint", "status.conditions[]", "status.strategy", "status.workers",
    }  # fmt: skip


def test_every_rule_hangs_in_the_schema_where_it_says() -> None:
    hanging = {"": JOB, **SCHEMAS}
    for rule in RULES:
        rules = hanging[rule.at]["x-kubernetes-validations"]
        [found] = [entry for entry in rules if entry["message"] == rule.message]
        assert found["rule"] == rule.cel
        assert found.get("messageExpression") == rule.message_expression
    assert sum(len(schema.get("x-kubernetes-validations", ())) for schema in hanging.values()) == len(RULES)


def test_every_rule_names_a_field_of_the_schema() -> None:
    for rule in RULES:
        if rule.field != "metadata.name":
            assert f"{rule.at}.{rule.field}" in SCHEMAS


@pytest.mark.parametrize("column", VERSION["additionalPrinterColumns"], ids=lambda column: column["name"])
def test_a_column_shows_a_field_of_the_schema(column: Schema) -> None:
    if column["jsonPath"].startswith(".metadata."):
        return
    assert at(column["jsonPath"])["type"] == column["type"]
    assert column["description"]


def test_scaling_changes_and_reads_single_numbers() -> None:
    scale = VERSION["subresources"]["scale"]
    assert at(scale["specReplicasPath"])["type"] == "integer"
    assert at(scale["statusReplicasPath"])["type"] == "integer"
    assert at(scale["labelSelectorPath"])["type"] == "string"
    assert "status" in VERSION["subresources"]


def test_kubectl_knows_the_short_name_and_the_category() -> None:
    assert CRD["spec"]["names"]["shortNames"] == ["olj"]
    assert CRD["spec"]["names"]["categories"] == ["all"]
    assert CRD["metadata"]["name"] == f"{CRD['spec']['names']['plural']}.{CRD['spec']['group']}"


def test_the_template_keeps_what_it_does_not_know_and_the_rest_does_not() -> None:
    open_ends = {path for path, schema in SCHEMAS.items() if schema.get("x-kubernetes-preserve-unknown-fields")}
    assert open_ends
    assert all(path.startswith("spec.workers[].template") for path in open_ends)
    objects = {
        path
        for path, schema in SCHEMAS.items()
        if path.startswith("spec.workers[].template") and "properties" in schema
    }
    assert objects == open_ends


def test_groups_are_known_by_their_names() -> None:
    assert SCHEMAS["spec.workers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert SCHEMAS["status.conditions"]["x-kubernetes-list-map-keys"] == ["type"]
