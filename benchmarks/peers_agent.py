"""The agent of torchrun, tied to the benchmark that starts it: python -m benchmarks.peers_agent OPTIONS-OF-TORCHRUN."""

from __future__ import annotations

from torch.distributed.run import main

from .peers_work import die_with_parent

if __name__ == "__main__":
    die_with_parent()
    main()
