"""The data plane when all members compute on CUDA: buckets are reduced by NCCL, on the devices.

NOT RUN YET: it was written on machines without a GPU. Everything else (control element, roll call, healing) uses gloo
there, too, so that only the reduction of buckets depends on this file. Members on unlike devices use gloo with pinned
staging instead (`Bucket.copy`), which is not run on CUDA either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import TCPStore

from .store import StoreClient

_LOOK_SECONDS = 0.0005


def form_nccl(store: StoreClient, address: str, rank: int, size: int, seconds: float) -> Any:
    """Form the NCCL group of a generation beside its gloo group.

    NCCL's watchdog goes on using its store, so it has one of torch's own, which rank 0 opens at ``address``.
    """
    from torch.distributed import ProcessGroupNCCL  # noqa: PLC0415 - not part of a build without CUDA

    options = ProcessGroupNCCL.Options()
    # Nobody waits for a watchdog: the coordinator decides who is lost, and an abandoned group is aborted.
    options._timeout = timedelta(seconds=seconds)
    port = 0 if rank == 0 else int(store.get("nccl"))
    shared = TCPStore(address, port, is_master=rank == 0, wait_for_workers=False, timeout=options._timeout)
    if rank == 0:
        store.set("nccl", str(shared.port))
    return ProcessGroupNCCL(shared, rank, size, options)


class CudaOperation:
    """A collective on the device. Its future does not say when it has completed, so a thread looks."""

    def __init__(self, work: Any, buffers: Sequence[torch.Tensor], wake: Callable[[], None]) -> None:
        self._work, self.buffers, self._wake = work, buffers, wake
        self.error: str | None = None
        self.over = False
        threading.Thread(target=self._look, name="omnilearn-nccl", daemon=True).start()

    def _look(self) -> None:
        while not self._work.is_completed():
            time.sleep(_LOOK_SECONDS)
        error = self._work.exception()
        self.error = None if error is None else str(error).split("\n", maxsplit=1)[0][:300]
        self.over = True
        self._wake()
