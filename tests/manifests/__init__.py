"""Good and bad manifests and changes of them: one table for the unit tests and for the API server's own code."""

from .build import ABSENT, Manifest, changed, container, group, manifest
from .cases import Bad, Change, stored
from .changes import CHANGES
from .good import GOOD
from .rules import BROKEN_RULES
from .schema import OPTIONAL_NULLS, SCHEMA_REFUSALS

BAD: dict[str, Bad] = BROKEN_RULES | SCHEMA_REFUSALS

__all__ = [
    "ABSENT", "BAD", "CHANGES", "GOOD", "OPTIONAL_NULLS",
    "Bad", "Change", "Manifest", "changed", "container", "group", "manifest", "stored",
]  # fmt: skip
