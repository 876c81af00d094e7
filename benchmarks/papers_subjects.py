"""What `benchmarks.papers` trains: pictures of clothes, and the next character of a text. Both are small on purpose."""

from __future__ import annotations

import random
import runpy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .plain import SCRIPT

_EXAMPLE = Path(__file__).parents[1] / "examples" / "fashion" / "train.py"
_TESTED = 3000
_CONTEXT, _PREDICTED = 8, 8


class Subject(ABC):
    """A data set with a net for it and a figure that says how good the net is."""

    name: str
    inputs: Tensor
    outputs: Tensor
    test: tuple[Tensor, Tensor]
    unit: str
    higher_is_better: bool

    @abstractmethod
    def network(self) -> nn.Module:
        """Return the net."""

    @abstractmethod
    def losses(self, model: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Return the loss of each sample."""

    @abstractmethod
    def score(self, model: nn.Module) -> float:
        """Return how good a net is on data that it has not seen."""


class Pictures(Subject):
    """Fashion-MNIST; where it is not installed, scikit-learn's digits."""

    unit, higher_is_better = "accuracy", True

    def __init__(self) -> None:
        try:
            training, test = _fashion("train"), _fashion("t10k")
            self.name = "Fashion-MNIST"
        except SystemExit as missing:
            print(f"scikit-learn's digits instead: {missing}", file=sys.stderr)
            (training, test), self.name = _digits(), "digits"
        self.inputs, self.outputs = training
        self.test = _centred(test[0][:_TESTED]), test[1][:_TESTED]

    def network(self) -> nn.Module:
        """Return a perceptron with one hidden layer (Fashion-MNIST: 50 890 parameters, 0.2 MB)."""
        return nn.Sequential(nn.Linear(self.inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, 10))

    def losses(self, model: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Return the cross-entropy of each picture."""
        return F.cross_entropy(model(_centred(inputs)), outputs, reduction="none")

    def score(self, model: nn.Module) -> float:
        """Return the part of the test pictures whose kind is found."""
        return float((model(self.test[0]).argmax(1) == self.test[1]).float().mean())


class Text(Subject):
    """The reference of the Python language, which comes with Python (`pydoc_data.topics`); the last tenth is the test.

    A sample is sixteen characters: each of the last eight is to be told from the eight before it.
    """

    name, unit, higher_is_better = "text", "bits per character", False

    def __init__(self) -> None:
        text = "".join(topics[each] for each in sorted(topics)).encode("ascii", "replace")
        self.characters = sorted(set(text))
        places = bytes.maketrans(bytes(self.characters), bytes(range(len(self.characters))))
        numbers = torch.frombuffer(bytearray(text.translate(places)), dtype=torch.uint8)
        windows = numbers.unfold(0, _CONTEXT + _PREDICTED, _PREDICTED)
        learned = len(windows) * 9 // 10
        self.inputs, self.outputs = windows[:learned], torch.zeros(learned, dtype=torch.long)
        tested = windows[learned:][:_TESTED]
        self.test = tested, torch.zeros(len(tested), dtype=torch.long)

    def network(self) -> nn.Module:
        """Return Bengio's language model of 2003, with 16 numbers for a character and 64 hidden units."""
        count = len(self.characters)
        return nn.Sequential(
            nn.Embedding(count, 16), nn.Flatten(1), nn.Linear(16 * _CONTEXT, 64), nn.Tanh(), nn.Linear(64, count)
        )

    def losses(self, model: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Return the mean cross-entropy of each sample's characters."""
        del outputs
        characters = inputs.long()
        contexts = characters[:, :-1].unfold(1, _CONTEXT, 1).reshape(-1, _CONTEXT)
        wanted = characters[:, _CONTEXT:].reshape(-1)
        return F.cross_entropy(model(contexts), wanted, reduction="none").view(len(inputs), _PREDICTED).mean(1)

    def score(self, model: nn.Module) -> float:
        """Return the bits that a character of the test takes."""
        return float(self.losses(model, *self.test).mean()) / float(torch.log(torch.tensor(2.0)))


class Samples:
    """A data set for the runtime: a whole batch is taken by one indexing, so that loading costs little."""

    def __init__(self, subject: Subject, own: Tensor, size: int) -> None:
        self._subject, self._own, self._size = subject, own, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        where = self._own[torch.tensor(indices) % len(self._own)]
        return self._subject.inputs[where], self._subject.outputs[where]


def skewed(labels: Tensor, workers: int, concentration: float, seed: int) -> list[Tensor]:
    """Return each worker's samples: a label is divided among them by a Dirichlet distribution; nobody has too few."""
    chance = random.Random(seed)
    while True:
        shards: list[list[Tensor]] = [[] for _ in range(workers)]
        for label in sorted(set(labels.tolist())):
            places = (labels == label).nonzero().reshape(-1)
            gammas = torch.tensor([chance.gammavariate(concentration, 1.0) for _ in range(workers)])
            ends = (gammas.cumsum(0) / gammas.sum() * len(places)).round().long().tolist()
            for shard, begin, end in zip(shards, [0, *ends], ends, strict=False):
                shard.append(places[begin:end])
        whole = [torch.cat(shard) for shard in shards]
        if min(map(len, whole)) * workers * 5 >= len(labels):
            return whole


@cache
def subject_of(name: str) -> Subject:
    """Return a subject by name; its data are read once."""
    return {"pictures": Pictures, "text": Text}[name]()


def _centred(pictures: Tensor) -> Tensor:
    return pictures.float() / 255 - 0.2860


def _fashion(part: str) -> tuple[Tensor, Tensor]:
    example = runpy.run_path(str(_EXAMPLE), run_name="fashion")
    images, labels = (f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
    folder: Path | None = next((each for each in example["FOLDERS"] if (each / images).exists()), None)
    if folder is None:
        example["fashion"](part)  # exits with a sentence that says what to do
        raise SystemExit("there is no Fashion-MNIST")
    numbers: Callable[..., Tensor] = example["numbers"]
    kinds = numbers(folder / labels, header=8).long()
    return numbers(folder / images, header=16).view(len(kinds), -1), kinds


def _digits() -> list[tuple[Tensor, Tensor]]:
    parts = runpy.run_path(str(SCRIPT), run_name="digits")["digits"]()
    return [(_bytes(images), labels) for images, labels in (part.tensors for part in parts)]


def _bytes(images: Tensor) -> Tensor:
    return (images * 255).round().to(torch.uint8).reshape(len(images), -1)
