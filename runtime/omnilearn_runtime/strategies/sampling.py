"""Which samples a worker of Biased Local SGD gets: those that were hard to learn, or the next ones. arXiv 2508.08540.

What is hard is known from the losses of the last passes, which all members share at the end of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omnilearn_core.api.strategy import HardSamples
from omnilearn_runtime.division import Place
from omnilearn_runtime.ledger import Intervals


def hard_ranks(shares: Sequence[int], who: HardSamples) -> list[int]:
    """Return the ranks that get the hard samples: those with less than the mean share, or those with more."""
    mean = sum(shares) / max(1, len(shares))
    slow = who is HardSamples.SLOW
    return [rank for rank, share in enumerate(shares) if share and (share < mean if slow else share > mean)]


def hardest(order: Tensor, scores: Tensor, count: int, ratio: int, seed: int) -> Tensor:
    """Return ``count`` samples: of ``ratio`` times as many that are drawn at random those with the highest score.

    Samples without a score (infinity) come first, so that everything is seen once before anything is preferred.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = order[torch.randperm(len(order), generator=generator)[: max(count, min(len(order), ratio * count))]]
    chosen = drawn[torch.argsort(scores[drawn], descending=True, stable=True)[:count]]
    return chosen[torch.randperm(len(chosen), generator=generator)]


def own_places(size: int, batch: int, shares: Sequence[int], rank: int, hard: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return a rank's positions of a pass by the present shares, and where each stands among all hard ranks'."""
    begins = [sum(shares[:each]) for each in range(len(shares))]
    before = sum(shares[each] for each in hard if each < rank)
    a_round = sum(shares[each] for each in hard)
    positions = torch.arange(size)
    offsets = positions % batch
    mine = (offsets >= begins[rank]) & (offsets < begins[rank] + shares[rank])
    return positions[mine], (positions // batch * a_round + before + offsets - begins[rank])[mine]


class LossBias:
    """The losses that this worker has seen in a pass, and what all share: scores, and how often samples were used."""

    def __init__(self, who: HardSamples, ratio: int) -> None:
        self._who, self._ratio = who, ratio
        self._scores = torch.zeros(0)
        self._sums = torch.zeros(0)
        self._counts = torch.zeros(0)
        self._uses = torch.zeros(0)
        self._order = torch.zeros(0, dtype=torch.int64)
        self.figures: dict[str, float] = {}

    def order(self, order: Tensor, pass_: int, place: Place) -> Tensor:
        """Return which sample stands at each position of a pass; those that are another's do not matter."""
        batch, shares, rank = place
        if len(self._scores) != len(order):
            self._resize(len(order))
        self._order = order
        hard = hard_ranks(shares, self._who)
        if rank in hard:
            positions, places = own_places(len(order), batch, shares, rank, hard)
            count = max(1, len(order) * sum(shares[each] for each in hard) // max(1, sum(shares)))
            found = hardest(order, self._scores, count, self._ratio, pass_)
            self._order = order.clone()
            self._order[positions] = found[places % len(found)]
        return self._order

    def at(self, positions: Intervals) -> list[int]:
        """Return the samples that this worker has at some positions of the present pass."""
        return [sample for low, high in positions for sample in self._order[low:high].tolist()]

    def saw(self, samples: Sequence[int], losses: Tensor) -> None:
        """Note the losses of some samples, or their mean for all of them."""
        at = torch.tensor(samples)
        if len(self._sums) > int(at.max()):
            given = losses.reshape(-1).to("cpu", torch.float64).expand(len(at))
            # What has no loss is not hard, and would be chosen again and again. A sample may be there twice.
            self._sums.index_add_(0, at, torch.where(given.isfinite(), given, 0.0))
            self._counts.index_add_(0, at, torch.ones(len(at), dtype=torch.float64))

    def contributions(self) -> list[Tensor]:
        """Return what this worker has seen."""
        return [self._sums.clone(), self._counts.clone()]

    def merge(self, sums: Tensor, counts: Tensor) -> None:
        """Take what all members have seen in a pass, and begin another."""
        self._scores = torch.where(counts > 0, sums / counts.clamp(min=1), self._scores)
        self._uses = self._uses + counts
        unused, most = (self._uses == 0).sum(), self._uses.max()
        self.figures = {"unused_samples": float(unused), "most_uses_of_a_sample": float(most)}
        self._sums, self._counts = torch.zeros_like(sums), torch.zeros_like(counts)

    def to_tree(self) -> dict[str, Any]:
        """Return what all members share."""
        return {"scores": self._scores, "uses": self._uses}

    def load(self, tree: dict[str, Any]) -> None:
        """Become that."""
        self._resize(len(tree["scores"]))
        self._scores, self._uses = tree["scores"].clone(), tree.get("uses", self._uses).clone()

    def _resize(self, size: int) -> None:
        self._scores = torch.full((size,), torch.inf, dtype=torch.float64)
        self._sums = torch.zeros(size, dtype=torch.float64)
        self._counts = torch.zeros(size, dtype=torch.float64)
        self._uses = torch.zeros(size, dtype=torch.float64)
