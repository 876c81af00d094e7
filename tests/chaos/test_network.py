"""Links that are cut, parted and slow, in networks that the test makes: nobody is told, packets are just gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the workers need torch")

from .arena import SILENT_AFTER, Arena, names_of  # noqa: E402 - only with torch
from .network import ImpossibleError, Network, network  # noqa: E402
from .verdict import Traces  # noqa: E402
from .work import train_alone  # noqa: E402

SIZE = 4
LIMIT = max(SILENT_AFTER, 5.0) + 5.0
BRIEFLY = 1.2


class Played:
    """A run over a network that was hurt, and what was seen meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.generations: dict[str, tuple[int, int]] = {}
        self.epochs = 0


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("network")
    try:
        with network(names_of(SIZE)) as links:
            yield asyncio.run(_play(folder, links))
    except ImpossibleError as error:
        pytest.skip(str(error))


async def _play(folder: Path, links: Network) -> Played:
    played = Played(folder)
    arena = Arena(folder, SIZE, links.coordinator, {name: links.namespace(name) for name in links.workers})
    arena.addresses = {name: links.address(name) for name in links.workers}
    scenes: dict[str, Callable[[Arena, Network], Awaitable[None]]] = {
        "cut briefly": _cut_briefly,
        "part briefly": _part_briefly,
        "slow": _slow,
        "cut": _cut,
        "hush": _hush,
    }
    try:
        await arena.start()
        for name, scene in scenes.items():
            arena.note(f"--- {name}")
            before = arena.generation()
            await scene(arena, links)
            await arena.until_whole(name)
            played.generations[name] = (before, arena.generation())
        played.epochs = await arena.finish()
    finally:
        await arena.stop()
    return played


async def _all_step(arena: Arena, names: list[str], what: str) -> None:
    now = time.time()
    await arena.until(lambda: all(arena.workers[name].since(now) for name in names), LIMIT, what)


async def _cut_briefly(arena: Arena, links: Network) -> None:
    links.cut(arena.names[1])
    await asyncio.sleep(BRIEFLY)
    links.mend(arena.names[1])
    await _all_step(arena, arena.names, "all step after a brief cut")


async def _part_briefly(arena: Arena, links: Network) -> None:
    links.part(*arena.names[:2])
    await asyncio.sleep(BRIEFLY)
    for name in arena.names[:2]:
        links.mend(name)
    await _all_step(arena, arena.names, "all step after two workers were parted briefly")


async def _slow(arena: Arena, links: Network) -> None:
    links.slow(arena.names[2], "2mbit")
    await asyncio.sleep(2 * BRIEFLY)
    await _all_step(arena, arena.names, "all step over a slow link")
    links.mend(arena.names[2])


async def _cut(arena: Arena, links: Network) -> None:
    await _lose(arena, links, arena.ranks()[0].name, links.cut)


async def _hush(arena: Arena, links: Network) -> None:
    await _lose(arena, links, arena.ranks()[1].name, links.hush)


async def _lose(arena: Arena, links: Network, victim: str, hurt: Callable[[str], None]) -> None:
    """Hurt a link until the others go on without the worker; then mend it."""
    others, generation = [arena.workers[name] for name in arena.names if name != victim], arena.generation()
    hurt(victim)
    await arena.until(
        lambda: all((last := worker.last) is not None and last.generation > generation for worker in others),
        LIMIT,
        f"the others step without {victim}",
    )
    links.mend(victim)


@pytest.mark.parametrize("scene", ["cut briefly", "part briefly", "slow"])
def test_a_link_that_comes_back_soon_changes_no_members(played: Played, scene: str) -> None:
    before, after = played.generations[scene]
    assert after == before


@pytest.mark.parametrize("scene", ["cut", "hush"])
def test_a_worker_that_cannot_be_reached_is_left_and_comes_back(played: Played, scene: str) -> None:
    before, after = played.generations[scene]
    assert after >= before + 2


def test_no_sample_is_lost_or_doubled_by_the_network(played: Played) -> None:
    traces = Traces.read(played.folder / "jsonl")
    assert traces.audit().clean, traces.audit().findings
    assert [*traces.disagreements(), *traces.strays()] == []


def test_the_parameters_are_those_of_one_process_whatever_the_network_did(played: Played) -> None:
    alone = train_alone(played.epochs)
    files = sorted(played.folder.glob("*.pt"))
    assert len(files) == SIZE
    for file in files:
        trained = torch.load(file, weights_only=True)
        assert max(float((trained[name] - alone[name]).abs().max()) for name in alone) < 1e-10
