"""The base of all models: frozen, camelCase, strict, and as particular about null as the API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, PydanticUndefined


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
        return cls.model_validate_json(json.dumps(manifest))

    @model_validator(mode="before")
    @classmethod
    def _treat_null_like_the_api_server(cls, data: Any) -> Any:
        """Drop null where a default takes its place; refuse it where there is none."""
        if not isinstance(data, dict) or None not in data.values():
            return data
        fields = {info.alias or name: info for name, info in cls.model_fields.items()}
        kept = dict(data)
        for key, value in data.items():
            info = fields.get(key)
            if value is not None or info is None:
                continue
            if info.default is None or info.default is PydanticUndefined:
                raise PydanticCustomError("null", "{key} is null", {"key": key})
            del kept[key]
        return kept


class OpenModel(ApiModel):
    """A part of the API that belongs to Kubernetes: what we do not know of it is kept as it is."""

    model_config = ConfigDict(extra="allow")
