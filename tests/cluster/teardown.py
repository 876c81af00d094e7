"""Taking the node away: its processes, mounts, interface, rules, routes and control groups, and nothing else."""

from __future__ import annotations

import shutil
from contextlib import suppress

from cluster import cgroups, namespaces, network, packages
from cluster.layout import Places
from cluster.progress import Progress

# What outlives the cluster unless all of it is to go: images are expensive, logs are wanted when something has failed.
KEPT = ("images", "loaded-images.json", "logs")


def down(places: Places, everything: bool, progress: Progress) -> None:
    """Take the node away, whatever there is of it; images and logs stay unless ``everything`` goes."""
    packages.allow_services()
    with progress.step("ending the node's processes"):
        # Mounts, packet filter rules and the link go with the namespaces, which go with their first process.
        namespaces.end(places)
        shared = namespaces.others(places)
        if not shared:
            network.remove()
    with progress.step("removing control groups and files"):
        if not shared:
            cgroups.remove()
        delete(places, everything)


def delete(places: Places, everything: bool) -> None:
    """Delete what is in the folder, if the folder is ours; the folder, too, if nothing in it is kept."""
    if not places.mark.exists():
        with suppress(OSError):  # somebody else's files are in it
            places.folder.rmdir()
        return
    kept = {places.mark.name, *KEPT} - (set(KEPT) if everything else set())
    for entry in places.folder.iterdir():
        if entry.is_dir() and not entry.is_symlink() and entry.name not in kept:
            shutil.rmtree(entry)
        elif entry.name not in kept:
            entry.unlink()
    # The mark goes last: whatever stops this, the next run goes on.
    if everything:
        places.mark.unlink()
        places.folder.rmdir()
