"""The metadata of a job. Kubernetes owns it and has no schema for it, so its checks are written down here."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from .base import OpenModel, Time

# What the API server puts in the place of five random characters, after at most 58 of generateName
_GENERATED, _GENERATED_FROM = "xxxxx", 58

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"((?=.{{1,253}}/){_DOMAIN}/)?{_NAME}"

_ENDS = "beginning and ending with a letter or digit"
_USE_LABEL = f"use lower-case letters, digits and '-', {_ENDS}"
_USE_NAME = f"use at most 63 letters, digits, '-', '_' and '.', {_ENDS}"


def _like(pattern: str, advice: str) -> AfterValidator:
    """Return a check of a text; ``advice`` is for those who wrote another."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise PydanticCustomError("text", "{advice}", {"advice": advice})
        return text

    return AfterValidator(check)


def _empty_if_null(value: Any) -> Any:
    return "" if value is None else value


_Text = Annotated[str, BeforeValidator(_empty_if_null)]
_Namespace = Annotated[str, Field(max_length=63), _like(f"({_LABEL})?", _USE_LABEL)]
_Prefix = Annotated[str, _like(f"({_DOMAIN}-?)?", _USE_LABEL)]
_LabelKey = Annotated[str, _like(_KEY, f"{_USE_NAME}; a domain and '/' may come first")]
_LabelValue = Annotated[_Text, _like(f"({_NAME})?", f"{_USE_NAME}; or nothing")]
_AnnotationKey = Annotated[str, _like(f"(?i:{_KEY})", f"{_USE_NAME}; a domain and '/' may come first")]


class ObjectMeta(OpenModel):
    """Kubernetes metadata. What a newer server adds is kept, so that its jobs can still be read."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    generate_name: _Prefix | None = None
    namespace: _Namespace | None = None
    labels: dict[_LabelKey, _LabelValue] = Field(default_factory=dict)
    annotations: dict[_AnnotationKey, _Text] = Field(default_factory=dict)

    # Set by the server and its controllers
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    self_link: str | None = None
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[dict[str, Any]] = Field(default_factory=list)
    managed_fields: list[dict[str, Any]] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _read_like_the_api_server(cls, data: Any) -> Any:
        """Drop null, which here is as good as nothing, and make up a name after generateName."""
        if not isinstance(data, dict):
            return data
        kept = {key: value for key, value in data.items() if value is not None}
        prefix = kept.get("generateName")
        if prefix and isinstance(prefix, str) and not kept.get("name"):
            kept["name"] = prefix[:_GENERATED_FROM] + _GENERATED
        return kept
