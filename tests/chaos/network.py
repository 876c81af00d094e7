"""Networks of the test's own: one namespace per worker and one for all links, joined by a bridge. Needs root and `ip`.

Nothing outside is touched but two kinds of names, which end with the process id. Links are cut by taking a worker's
port down, or by isolating two ports from each other, and are made slow by a small token bucket.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
_PREFIX = "10.213.7"
_LIMIT_SECONDS = 10.0


class ImpossibleError(RuntimeError):
    """There can be no namespaces here; the sentence says why."""


def _command(*words: str) -> None:
    found = shutil.which(words[0])
    if found is None:
        raise ImpossibleError(f"there is no command {words[0]} here: install iproute2")
    done = subprocess.run([found, *words[1:]], capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)
    if done.returncode:
        raise ImpossibleError(f"{' '.join(words)} failed, which needs root: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Network:
    """The namespaces of the workers, and the bridge's, which has the coordinator's address, too."""

    workers: Sequence[str]

    @property
    def coordinator(self) -> str:
        """The address of the coordinator."""
        return f"{_PREFIX}.1"

    def address(self, worker: str) -> str:
        """Return a worker's address."""
        return f"{_PREFIX}.{10 + self.workers.index(worker)}"

    def namespace(self, worker: str) -> str:
        """Return the file that stands for a worker's namespace."""
        return f"/run/netns/{self._name(worker)}"

    def cut(self, worker: str) -> None:
        """Cut a worker off from everybody; nobody is told, packets are just gone."""
        _command("ip", "-n", _hub(), "link", "set", self._port(worker), "down")

    def part(self, *workers: str) -> None:
        """Cut these workers off from each other; everybody else reaches them."""
        for worker in workers:
            _command("bridge", "-n", _hub(), "link", "set", "dev", self._port(worker), "isolated", "on")

    def hush(self, worker: str) -> None:
        """Cut a worker off from the coordinator only: its peers still hear it."""
        _command("ip", "-n", self._name(worker), "route", "add", "blackhole", f"{self.coordinator}/32")

    def slow(self, worker: str, rate: str) -> None:
        """Let through only so much to a worker, later."""
        words = ("tbf", "rate", rate, "burst", "3000", "latency", "400ms")
        _command("tc", "-n", _hub(), "qdisc", "replace", "dev", self._port(worker), "root", *words)

    def part_slowly(self, groups: Sequence[Sequence[str]], rate: str) -> None:
        """Let through only so much to every worker from those of other groups; the coordinator is near to all."""
        for group in groups:
            near = [self.coordinator, *map(self.address, group)]
            for worker in group:
                port = self._port(worker)
                _shape(port, "qdisc", "root", "handle", "1:", "htb", "default", "2")
                for number, each in ((1, "10gbit"), (2, rate)):
                    kind = ("classid", f"1:{number}", "htb", "rate", each, "burst", "3k", "cburst", "3k")
                    _shape(port, "class", "parent", "1:", *kind)
                for address in near:
                    match = ("u32", "match", "ip", "src", f"{address}/32", "flowid", "1:1")
                    _shape(port, "filter", "parent", "1:", "protocol", "ip", *match)

    def mend(self, worker: str) -> None:
        """Undo all of it."""
        _command("ip", "-n", _hub(), "link", "set", self._port(worker), "up")
        _command("bridge", "-n", _hub(), "link", "set", "dev", self._port(worker), "isolated", "off")
        with suppress(ImpossibleError):  # there may be none
            _command("tc", "-n", _hub(), "qdisc", "del", "dev", self._port(worker), "root")
        with suppress(ImpossibleError):
            _command("ip", "-n", self._name(worker), "route", "del", "blackhole", f"{self.coordinator}/32")

    def make(self) -> None:
        """Make all namespaces and links."""
        hub = _hub()
        _command("ip", "netns", "add", hub)
        _command("ip", "-n", hub, "link", "set", "lo", "up")
        _command("ip", "-n", hub, "link", "add", "bridge0", "type", "bridge")
        _command("ip", "-n", hub, "address", "add", f"{self.coordinator}/24", "dev", "bridge0")
        _command("ip", "-n", hub, "link", "set", "bridge0", "up")
        for worker in self.workers:
            own, port = self._name(worker), self._port(worker)
            _command("ip", "netns", "add", own)
            _command("ip", "-n", own, "link", "set", "lo", "up")
            _command("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", own)
            _command("ip", "-n", hub, "link", "set", port, "master", "bridge0", "up")
            _command("ip", "-n", own, "address", "add", f"{self.address(worker)}/24", "dev", "eth0")
            _command("ip", "-n", own, "link", "set", "eth0", "up")

    def remove(self) -> None:
        """Remove them; links go with their namespaces."""
        for name in (*(self._name(worker) for worker in self.workers), _hub()):
            if Path(f"/run/netns/{name}").exists():
                _command("ip", "netns", "delete", name)

    def _name(self, worker: str) -> str:
        return f"chaos-{self.workers.index(worker)}-{os.getpid()}"

    def _port(self, worker: str) -> str:
        return f"port{self.workers.index(worker)}"


def _shape(port: str, what: str, *words: str) -> None:
    _command("tc", "-n", _hub(), what, "add", "dev", port, *words)


def _hub() -> str:
    return f"chaos-hub-{os.getpid()}"


@contextmanager
def network(workers: Sequence[str]) -> Iterator[Network]:
    """Make a network for these workers, with this thread in the coordinator's namespace; raises ImpossibleError."""
    made = Network(workers)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        made.make()
        hub = os.open(f"/run/netns/{_hub()}", os.O_RDONLY)
        try:
            _enter(hub)
        finally:
            os.close(hub)
        yield made
    finally:
        _enter(home)
        os.close(home)
        made.remove()


def _enter(namespace: int) -> None:
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise ImpossibleError(f"this process cannot change its network: {os.strerror(ctypes.get_errno())}")
