"""Environment variables → one frozen value, read once by the session. docs/protocol.md lists them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnilearn_core.api import names

_SECURE = "wss://"


class BadEnvironmentError(ValueError):
    """A variable that cannot be understood; the sentence names it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Who this worker is and where it finds the others."""

    job: str = "alone"
    worker: str = "alone"
    attempt: int = 0
    device: str = "cpu"
    coordinator: str | None = None
    token: str = ""
    token_file: Path | None = None
    authorities_file: Path | None = None
    address: str | None = None
    checkpoint_dir: Path | None = None
    checkpoint_seconds: float = 60.0
    checkpoint_keep: int = 3
    grace_seconds: float = 25.0
    memory_bound: int | None = None
    """Samples to compute at once, as earlier attempts have learned; 0 if what they learned holds no more."""

    termination_file: Path | None = None
    trace_file: Path | None = None
    trace_hashes: bool = False
    faults: str = ""

    def fresh_token(self) -> str:
        """Return the credential as it is now: a cluster renews it in its file."""
        return self.token if self.token_file is None else _token(self.token_file)

    def fresh_tls(self) -> ssl.SSLContext | None:
        """Return whom to trust, as it is now: authorities are renewed in their file. None if there is no TLS."""
        if self.coordinator is None or not self.coordinator.lower().startswith(_SECURE):
            return None
        return _trusting(self.coordinator, self.authorities_file)

    @property
    def connect_seconds(self) -> float:
        """How long to wait for the coordinator at first: an operator may just be upgraded."""
        return 600.0 if self.in_cluster else 60.0

    @property
    def in_cluster(self) -> bool:
        """True if an operator coordinates: what nobody needs any more, the cluster ends."""
        return self.coordinator is not None and self.coordinator.startswith(_SECURE)

    @property
    def alone(self) -> bool:
        """True without a coordinator: the script is a job of one."""
        return self.coordinator is None


def read(variables: Mapping[str, str] | None = None) -> Environment:
    """Return the environment of this process; raises BadEnvironmentError with a sentence."""
    given = os.environ if variables is None else variables
    coordinator = given.get(names.ENV_COORDINATOR) or None
    token = ""
    if coordinator is not None:
        missing = [name for name in (names.ENV_JOB, names.ENV_WORKER, names.ENV_TOKEN_FILE) if not given.get(name)]
        if missing:
            raise BadEnvironmentError(
                f"{names.ENV_COORDINATOR} is set, but {' and '.join(missing)} is not: start the script with omnilearn "
                f"run or as a pod of an OmniLearnJob, or unset {names.ENV_COORDINATOR} to train alone"
            )
        token = _token(Path(given[names.ENV_TOKEN_FILE]))
    environment = Environment(
        job=given.get(names.ENV_JOB) or "alone",
        worker=given.get(names.ENV_WORKER) or "alone",
        attempt=int(_number(given, names.ENV_ATTEMPT, 0)),
        device=given.get(names.ENV_DEVICE) or "",
        coordinator=coordinator,
        token=token,
        token_file=_path(given, names.ENV_TOKEN_FILE) if coordinator else None,
        authorities_file=_path(given, names.ENV_AUTHORITIES_FILE),
        address=given.get(names.ENV_ADDRESS) or None,
        checkpoint_dir=_path(given, names.ENV_CHECKPOINT_DIR),
        checkpoint_seconds=_number(given, names.ENV_CHECKPOINT_SECONDS, 60.0),
        checkpoint_keep=int(_number(given, names.ENV_CHECKPOINT_KEEP, 3)),
        grace_seconds=_number(given, names.ENV_GRACE_SECONDS, 25.0),
        memory_bound=int(_number(given, names.ENV_MEMORY_BOUND, 0)) if given.get(names.ENV_MEMORY_BOUND) else None,
        termination_file=_path(given, names.ENV_TERMINATION_FILE),
        trace_file=_path(given, names.ENV_TRACE_FILE),
        trace_hashes=bool(given.get(names.ENV_TRACE_HASHES)),
        faults=given.get(names.ENV_FAULTS) or "",
    )
    environment.fresh_tls()  # what is wrong with it is said now, not when the first connection fails
    return environment


def _path(given: Mapping[str, str], name: str) -> Path | None:
    return Path(given[name]) if given.get(name) else None


def _number(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name)
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < 1e9:
        raise BadEnvironmentError(f"{name} is '{text}': set it to a number from 0 on, or unset it")
    return number


def _token(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadEnvironmentError(
            f"{names.ENV_TOKEN_FILE} names {file}, which cannot be read ({error.strerror}): "
            "without it the worker cannot prove who it is"
        ) from None


def _trusting(coordinator: str, file: Path | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a file and nobody else."""
    if file is None:
        raise BadEnvironmentError(
            f"{names.ENV_COORDINATOR} is {coordinator}, but {names.ENV_AUTHORITIES_FILE} is not set: name a file with "
            "the certificates of the authorities to trust"
        )
    try:
        text = file.read_bytes().decode("ascii", errors="ignore")
    except OSError as error:
        raise BadEnvironmentError(
            f"{names.ENV_AUTHORITIES_FILE} names {file}, which cannot be read ({error.strerror}): "
            "without it the worker cannot tell the coordinator from somebody else"
        ) from None
    # Not create_default_context: without authorities it would trust those of the system.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise BadEnvironmentError(
            f"{names.ENV_AUTHORITIES_FILE} names {file}, which holds no certificate: "
            "put those of the authorities to trust there, as PEM"
        ) from None
    return context
