"""Whose an object is that has the name of one of ours. Pure."""

from __future__ import annotations

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .api import ApiError, Manifest

# The garbage collector mostly takes no longer.
_CLEANED_SECONDS = 1.5


def objection(found: Manifest, job: OmniLearnJob) -> ApiError | None:
    """Return why a job cannot use an object that is there; None if it is the job's own."""
    metadata = found.get("metadata", {})
    owners, what = metadata.get("ownerReferences", []), f"{found.get('kind', 'Pod')} {metadata.get('name')}"
    if any(owner.get("uid") == job.metadata.uid for owner in owners):
        return None
    former = any((owner.get("kind"), owner.get("name")) == (names.KIND, job.metadata.name) for owner in owners)
    if former or "deletionTimestamp" in metadata:
        why = (
            f"the {what} of an earlier job of this name is being cleaned up" if former else f"the {what} is about to go"
        )
        return ApiError(409, "AlreadyExists", why, retry_after=_CLEANED_SECONDS)
    return ApiError(409, "AlreadyExists", f"there is a {what} of somebody else: rename the job")
