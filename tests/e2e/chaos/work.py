"""What the pods of the chaos run: the digits example's data and net, for as long as the test wants.

Mounted into the pods, so it stands alone. The rate is constant, because nobody knows the last epoch at the beginning: a
file on the claim names it, or LAST_EPOCH. Each attempt writes its committed rounds to the claim. A file in /tmp has it
take more memory than it may: in its first process, because that is the one whose end is its container's.
"""

from __future__ import annotations

import os
import runpy
import threading
import time
from pathlib import Path

SHARED = Path("/checkpoints")
_WORKER, _ATTEMPT = os.environ["OMNILEARN_WORKER"], os.environ["OMNILEARN_ATTEMPT"]
_TRACE = SHARED / "traces" / f"{_WORKER}-{_ATTEMPT}.jsonl"
_TRACE.parent.mkdir(exist_ok=True)
os.environ |= {"OMNILEARN_TRACE_FILE": str(_TRACE), "OMNILEARN_TRACE_HASHES": "1"}

import torch  # noqa: E402 - what is above must be set before
import torch.nn.functional as F  # noqa: E402

import omnilearn_runtime as omnilearn  # noqa: E402

_NEVER = 10**6
_GROW = Path("/tmp/grow")  # noqa: S108 - a path in the pod
_LAST, _EPOCH = SHARED / "last-epoch", SHARED / "epoch"
_RATE = 0.02
_LOOK_SECONDS = 0.2
_CHUNK = 32 << 20


def last_epoch() -> int:
    """Return the epoch to stop before; the test names one that nobody has reached."""
    return int(_LAST.read_text() if _LAST.exists() else os.environ.get("LAST_EPOCH", _NEVER))


def grow_when_told() -> None:
    """Wait until somebody makes the file, and then take memory until the kernel has had enough."""
    held = []
    while True:
        if _GROW.exists():
            held.append(bytearray(b"x" * _CHUNK))
        else:
            time.sleep(_LOOK_SECONDS)


def main() -> None:
    """Train, and evaluate after every epoch."""
    threading.Thread(target=grow_when_told, daemon=True).start()
    example = runpy.run_path("/examples/digits/train.py")
    train, test = example["digits"]()
    with omnilearn.Session(seed=0) as session:
        model = example["network"]().to(session.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=0.9, weight_decay=5e-4)
        session.manage(model, optimizer)

        def correct(images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"correct": (model(images).argmax(1) == labels).sum()}

        for epoch in session.epochs(_NEVER):
            if epoch >= last_epoch():
                break
            if session.is_lead:
                _EPOCH.write_text(str(epoch))
            for images, labels in session.batches(train):
                session.step(F.cross_entropy(model(images), labels))
            session.log(accuracy=session.evaluate(test, correct)["correct"] / len(test))


if __name__ == "__main__":
    main()
