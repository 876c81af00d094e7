"""Manifests near good ones: a seeded corpus in which something was deleted, renamed, retyped or driven to extremes."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from manifests import GOOD, Manifest

# A whole number as a fraction (10.0) is not among them: kubectl and our YAML reader make it 10 before anybody sees it.
_VALUES: tuple[Any, ...] = (
    True, False, 0, 1, 2, -1, 0.5, -1.5, 1e22, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
    "", "0", "1", "true", "cpu", "gpu", "trainer", "Never", "Always", "Affine", "none", "text", "nvidia.com/gpu", "ä",
    [], [1], ["text"], [[]], [{}], {}, {"name": "text"}, {"text": 1}, {"name": 1}, [{"name": "trainer"}],
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 3, 16, 17, 32, 33, 64, 65, 1000, 1001, 1023, 1024, 1025, 3600, 3601, 16384, 16385, 1000000, 1000001,
    16777215, 16777216, 16777217, 315360000, 315360001, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 10**30,
)  # fmt: skip
_TEXTS = (
    "", "a", "A", "1", "a1", "1a", "-", "a-", "-a", "a-b", "a.b", "a_b", "a b", " a", "ä", "日本", "a\n", "a\t", "%s",
    "a" * 11, "a" * 12, "a" * 39, "a" * 40, "a" * 41, "a" * 50, "a" * 51, "a" * 52, "a" * 63, "a" * 64, "a" * 253,
    "a" * 254, "CPU", "Gpu", "trainer", "affine", "Static", "native", "never", "example.com/a", "a/b/c", "/", "é" * 40,
)  # fmt: skip

Place = tuple[Any, Any]
"""A dict or list and a key or index of it."""


def corpus(seed: int, size: int) -> Iterator[Manifest]:
    """Return manifests near the good ones, always the same for a seed."""
    return near([GOOD[name] for name in sorted(GOOD)], seed, size)


def near(good: Sequence[Manifest], seed: int, size: int) -> Iterator[Manifest]:
    """Return documents near good ones, always the same for a seed."""
    rng = random.Random(seed)
    for number in range(size):
        manifest = copy.deepcopy(good[number % len(good)])
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            rng.choice(_MUTATIONS)(manifest, rng)
        yield manifest


def _places(part: Any) -> Iterator[Place]:
    """Return all places of a manifest but those below what Kubernetes alone understands."""
    keys: Sequence[Any] = sorted(part) if isinstance(part, dict) else range(len(part))
    for key in keys:
        yield part, key
        if isinstance(part[key], (dict, list)) and key != "finalizers":
            yield from _places(part[key])


def _pick(manifest: Manifest, rng: random.Random, wanted: Callable[[Any, Any], bool]) -> Place | None:
    places = [(part, key) for part, key in _places(manifest) if wanted(part, key)]
    return rng.choice(places) if places else None


def _delete(manifest: Manifest, rng: random.Random) -> None:
    if place := _pick(manifest, rng, lambda _, __: True):
        del place[0][place[1]]


def _retype(manifest: Manifest, rng: random.Random) -> None:
    if place := _pick(manifest, rng, lambda _, __: True):
        place[0][place[1]] = copy.deepcopy(rng.choice(_VALUES))


def _rename(manifest: Manifest, rng: random.Random) -> None:
    """Misspell a field: a letter lost, another case, snake_case. One that holds null is left alone."""
    if place := _pick(manifest, rng, lambda part, key: isinstance(key, str) and part[key] is not None):
        part, key = place
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
        part[rng.choice((key[:-1], key.upper(), key.capitalize(), snake, f"{key}s", f"x{key}"))] = part.pop(key)


def _null(manifest: Manifest, rng: random.Random) -> None:
    if place := _pick(manifest, rng, lambda _, __: True):
        place[0][place[1]] = None


def _number(manifest: Manifest, rng: random.Random) -> None:
    if place := _pick(manifest, rng, lambda part, key: type(part[key]) is int):
        place[0][place[1]] = rng.choice(_NUMBERS)


def _text(manifest: Manifest, rng: random.Random) -> None:
    if place := _pick(manifest, rng, lambda part, key: isinstance(part[key], str)):
        place[0][place[1]] = rng.choice(_TEXTS)


def _name(manifest: Manifest, rng: random.Random) -> None:
    if place := _pick(manifest, rng, lambda _, key: key in ("name", "generateName", "namespace")):
        place[0][place[1]] = rng.choice(_TEXTS)


def _label(manifest: Manifest, rng: random.Random) -> None:
    if isinstance(metadata := manifest.get("metadata"), dict):
        metadata[rng.choice(("labels", "annotations"))] = {rng.choice(_TEXTS): rng.choice(_TEXTS)}


def _repeat(manifest: Manifest, rng: random.Random) -> None:
    """Repeat an entry of a list: a group, a container, an argument."""
    if place := _pick(manifest, rng, lambda part, _: isinstance(part, list)):
        place[0].append(copy.deepcopy(place[0][place[1]]))


def _add(manifest: Manifest, rng: random.Random) -> None:
    """Add a field that the place may or may not know."""
    if place := _pick(manifest, rng, lambda part, key: isinstance(part[key], dict)):
        fields = (
            "name",
            "replicas",
            "device",
            "maxWorkers",
            "suspend",
            "restartPolicy",
            "limits",
            "claims",
            "text",
            "",
        )
        place[0][place[1]][rng.choice(fields)] = copy.deepcopy(rng.choice(_VALUES))


_MUTATIONS: tuple[Callable[[Manifest, random.Random], None], ...] = (
    _delete, _retype, _rename, _null, _number, _number, _text, _name, _label, _repeat, _add,
)  # fmt: skip
