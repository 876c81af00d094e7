"""Messages as frames, and back: one JSON object each, told apart by its type."""

from __future__ import annotations

from typing import Annotated, Any, Union, cast, get_args

from pydantic import Discriminator, Tag, TypeAdapter

from .messages import FromWorker, ToWorker


def _kind(message: Any) -> Any:
    return message.get("type") if isinstance(message, dict) else getattr(message, "type", None)


def _adapter(union: Any) -> TypeAdapter[Any]:
    tagged = [Annotated[model, Tag(model.model_fields["type"].default)] for model in get_args(union)]
    return TypeAdapter(cast(Any, Annotated[Union[tuple(tagged)], Discriminator(_kind)]))  # noqa: UP007 - made at run time


FROM_WORKER: TypeAdapter[FromWorker] = _adapter(FromWorker)
TO_WORKER: TypeAdapter[ToWorker] = _adapter(ToWorker)


def to_frame(message: FromWorker | ToWorker) -> str:
    """Return a message as one frame."""
    return message.model_dump_json(by_alias=True, exclude_none=True)
