"""The base of all models: frozen, camelCase, strict, and as particular about null as the API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, PydanticUndefined


def _in_a_zone(time: datetime) -> datetime:
    """Return a time that can be compared with others: Kubernetes means UTC where it says nothing."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


# A time as JSON has it. Strict models take no text for a time once a validator has seen it, as one of ours does.
Time = Annotated[datetime, Field(strict=False), AfterValidator(_in_a_zone)]


class ApiModel(BaseModel):
    """A part of the API. Unknown fields are refused; a string is not a number."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Return the model of a manifest, read as JSON: strict, but with enums and times as strings."""
        # Our own code may write min_replicas; in a manifest, only minReplicas is a field.
        return cls.model_validate_json(json.dumps(manifest, allow_nan=False), by_alias=True, by_name=False)

    def to_manifest(self) -> dict[str, Any]:
        """Return what from_manifest reads: camelCase, and without what is not there, because it refuses null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @field_validator("*", mode="before")
    @classmethod
    def _treat_null_like_server_side_apply(cls, value: Any, info: ValidationInfo) -> Any:
        """Take the default for a null in JSON; refuse null where there is no default."""
        if value is not None or info.mode != "json":
            return value
        field = cls.model_fields[str(info.field_name)]
        if field.default is None or field.default is PydanticUndefined:
            raise PydanticCustomError("null", "null is no value", {"required": field.is_required()})
        return field.default


class ToldModel(ApiModel):
    """A part of the API that we write for each other: what a newer version has written is read without what is new."""

    model_config = ConfigDict(extra="ignore")


class OpenModel(ApiModel):
    """A part of the API that belongs to Kubernetes: what we do not know of it is kept as it is."""

    model_config = ConfigDict(extra="allow")
