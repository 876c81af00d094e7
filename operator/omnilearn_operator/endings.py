"""What the end of a pod counts as, and what its worker's next attempt learns from it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from omnilearn_core.api import names
from omnilearn_core.endings import Meaning, back_off

from .observed import Ended, Pod

# Exit code of a process that was told to go: 128 + SIGTERM
_TERMINATED = 143
_OUT_OF_MEMORY = "OOMKilled"
# A node that was interrupted while it started a container. With other words, it is a command that is not there.
_START_ERROR, _INTERRUPTIONS = "StartError", ("context canceled", "context deadline exceeded")

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Ending:
    """A pod that ended, and what that counts as."""

    pod: Pod
    meaning: Meaning
    sentence: str
    fatal: bool = False
    """The job is to fail because of it."""

    @property
    def with_words(self) -> str:
        """The sentence, with the end of what the script has written."""
        words = "" if self.pod.ended is None else self.pod.ended.message.strip()
        return f"{self.sentence}: {words}" if words and not words.startswith("{") else self.sentence


def ending_of(pod: Pod, *, finished: bool, fatal: Collection[int] = ()) -> Ending:
    """Return what the end of a pod counts as; ``finished`` if the job has ended, ``fatal`` are exit codes."""
    ended, worker = pod.ended, pod.worker
    if pod.disrupted:
        return Ending(pod, Meaning.PREEMPTED, f"{worker} was taken away: {pod.disrupted}")
    if ended is None or ended.code == _TERMINATED:
        return Ending(pod, Meaning.PREEMPTED, f"{worker} was told to go")
    if ended.code == 0 and finished:
        return Ending(pod, Meaning.FINISHED, f"{worker} has finished")
    if pod.leaving:  # whatever a script does that is told to go, is nobody's failure
        return Ending(pod, Meaning.PREEMPTED, f"{worker} was told to go")
    return _by_itself(pod, ended, fatal, finished=finished)


def _by_itself(pod: Pod, ended: Ended, fatal: Collection[int], *, finished: bool) -> Ending:
    worker = pod.worker
    if ended.code == names.START_ANEW_EXIT:
        return Ending(pod, Meaning.PREEMPTED, f"{worker} starts anew")
    if _was_not_run(ended):
        return Ending(pod, Meaning.PREEMPTED, f"{worker} was not run: {ended.reason or 'the cluster says not why'}")
    bound = memory_bound_after(pod)
    if ended.reason == _OUT_OF_MEMORY and bound is not None and bound != pod.memory_bound and not finished:
        why = f"{worker} was out of memory: its next attempt computes at most {bound} samples at once"
        return Ending(pod, Meaning.OUT_OF_MEMORY, why)
    if ended.code in fatal:
        why = f"{worker} exited with {ended.code}, which is one of restart.failOnExitCodes"
        return Ending(pod, Meaning.FAILED, why, fatal=True)
    return Ending(pod, Meaning.FAILED, f"{worker} {_how(ended)}")


def memory_bound_after(pod: Pod) -> int | None:
    """Return how many samples the next attempt may compute at once: half of what was too much, but one at least."""
    if pod.ended is None or pod.ended.reason != _OUT_OF_MEMORY:
        return pod.memory_bound
    tried = [each for each in (pod.memory_bound, pod.assigned.share if pod.assigned else None) if each]
    return max(1, min(tried) // 2) if tried else None


def _was_not_run(ended: Ended) -> bool:
    """Tell whether a node has given up a pod before anything of it ran."""
    interrupted = ended.reason == _START_ERROR and any(each in ended.message for each in _INTERRUPTIONS)
    return ended.code < 0 or interrupted


def _how(ended: Ended) -> str:
    if ended.code == 0:
        return "ended before the job was complete"
    known = f" ({ended.reason})" if ended.reason not in ("", "Error") else ""
    return f"exited with {ended.code}{known}"


def pause_after(attempts: Sequence[Pod]) -> float:
    """Return how long to wait before the next attempt: longer with every one in a row that came to nothing."""
    failures = 0
    for pod in reversed(attempts):
        if not _came_to_nothing(pod):
            break
        failures += 1
    return back_off(failures, _FIRST_SECONDS, _LONGEST_SECONDS) if failures else 0.0


def _came_to_nothing(pod: Pod) -> bool:
    """Tell whether a pod failed, was not run by its node, could not take part, or was told to go by nobody we know."""
    if pod.ended is None or pod.leaving or pod.disrupted:
        return False
    again = _was_not_run(pod.ended) or pod.ended.code in (names.START_ANEW_EXIT, _TERMINATED)
    return again or ending_of(pod, finished=False).meaning in (Meaning.FAILED, Meaning.OUT_OF_MEMORY)
