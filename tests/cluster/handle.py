"""A cluster that is up, as its users see it: whoever has made it, it is used in the same way."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cluster import commands
from cluster.errors import FailedError

_IMAGE_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to use the cluster.

    ``importer`` is the command that imports an archive of images, whose path comes last, if there is one. ``loaded`` is
    a file for whoever uses it to note what has been imported: it is deleted with the images. ``volumes`` is a folder
    that this machine and the node share.
    """

    provider: str
    kubeconfig: Path
    kubectl: Path
    helm: Path
    loaded: Path
    importer: tuple[str, ...] | None = None
    volumes: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment for kubectl, helm and whatever else speaks with the cluster."""
        return os.environ | {"KUBECONFIG": str(self.kubeconfig)}

    def run(self, *words: str, seconds: float = 60, given: str | None = None) -> str:
        """Run kubectl with these words and return what it prints; raise FailedError with what it says."""
        return commands.run(self.kubectl, *words, seconds=seconds, given=given, environment=self.environment)

    def load_archive(self, archive: Path) -> None:
        """Import a docker-archive, so that pods can use the images in it."""
        if self.importer is None:
            raise FailedError(
                "images cannot be put into the cluster of OMNILEARN_KUBECONFIG from here: "
                "push them to a registry that it can reach"
            )
        commands.run(*self.importer, archive, seconds=_IMAGE_SECONDS)
