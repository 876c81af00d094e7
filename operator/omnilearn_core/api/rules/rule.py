"""What a rule is: a sentence, a CEL form and a Python form, declared together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Values = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that must hold of one part of a job.

    ``at`` is the part's path in the schema (``[]``: each item of a list), ``field`` what to change below it.
    The sentence names the field, what it holds and what to change; ``%s`` and ``%d`` stand for the values.
    ``broken`` returns these values if the rule is broken, else None: it gets the part, or the old and the new
    job where the rule is about a change. ``cel`` is true while the rule holds, ``values`` are CEL, too.
    """

    at: str
    field: str
    sentence: str
    cel: str
    values: tuple[str, ...]
    broken: Callable[..., Values | None]
    on_change: bool = False

    @property
    def message(self) -> str:
        """The sentence without values: what the API server falls back to."""
        return self.sentence.replace("%d", "…").replace("%s", "…")

    def sentence_of(self, values: Values) -> str:
        """Return the sentence with its values; like the API server, without them if one would break the line."""
        sentence = self.sentence % values
        return self.message if "\n" in sentence else sentence

    @property
    def message_expression(self) -> str | None:
        """The sentence as a CEL expression; None if it has no values and is a message as it is."""
        quoted = self.sentence.replace("'", "\\'")
        return f"'{quoted}'.format([{', '.join(self.values)}])" if self.values else None
