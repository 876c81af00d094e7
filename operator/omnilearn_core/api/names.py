"""Every name that a cluster sees, written once: groups, labels, annotations, environment, ports, reasons."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

ApiVersion = Literal["omnilearn.dev/v1alpha1"]
Kind = Literal["OmniLearnJob"]

API_VERSION: ApiVersion = "omnilearn.dev/v1alpha1"
KIND: Kind = "OmniLearnJob"
GROUP, VERSION = API_VERSION.split("/")
LIST_KIND = "OmniLearnJobList"
PLURAL = "omnilearnjobs"
SINGULAR = "omnilearnjob"
SHORT_NAME = "olj"
CRD_NAME = f"{PLURAL}.{GROUP}"

# What spec.managedBy says of a job that the operator minds
MANAGER = f"{GROUP}/operator"

# Labels of everything that belongs to a job
MANAGED_LABEL = f"{GROUP}/managed"
JOB_LABEL = f"{GROUP}/job"
GROUP_LABEL = f"{GROUP}/group"
WORKER_LABEL = f"{GROUP}/worker"
ATTEMPT_LABEL = f"{GROUP}/attempt"

# Label of the operator's pod that leads; the coordinator's Service selects it
LEADER_LABEL = f"{GROUP}/leader"

# Annotations of a worker's pod: the share is for people and for an operator that starts anew
SHARE_ANNOTATION = f"{GROUP}/share"
GENERATION_ANNOTATION = f"{GROUP}/generation"
PLAN_ANNOTATION = f"{GROUP}/plan"
TEMPLATE_HASH_ANNOTATION = f"{GROUP}/template-hash"
AUTHORITIES_ANNOTATION = f"{GROUP}/authorities"
MEMORY_BOUND_ANNOTATION = f"{GROUP}/memory-bound"

# The container of a worker's pod that trains, unless it is the only one
TRAINER = "trainer"

# Environment of the user's script
ENV_JOB = "OMNILEARN_JOB"
ENV_WORKER = "OMNILEARN_WORKER"
ENV_ATTEMPT = "OMNILEARN_ATTEMPT"
ENV_GROUP = "OMNILEARN_GROUP"
ENV_DEVICE = "OMNILEARN_DEVICE"
ENV_COORDINATOR = "OMNILEARN_COORDINATOR"
ENV_TOKEN_FILE = "OMNILEARN_TOKEN_FILE"  # noqa: S105 - the name of a variable, not a secret
ENV_AUTHORITIES_FILE = "OMNILEARN_AUTHORITIES_FILE"
ENV_ADDRESS = "OMNILEARN_ADDRESS"
ENV_CHECKPOINT_DIR = "OMNILEARN_CHECKPOINT_DIR"
ENV_CHECKPOINT_SECONDS = "OMNILEARN_CHECKPOINT_SECONDS"
ENV_CHECKPOINT_KEEP = "OMNILEARN_CHECKPOINT_KEEP"
ENV_CPU_QUOTA = "OMNILEARN_CPU_QUOTA"
ENV_MEMORY_BOUND = "OMNILEARN_MEMORY_BOUND"
ENV_THREADS = "OMNILEARN_THREADS"
OMP_THREADS = "OMP_NUM_THREADS"
ENV_GRACE_SECONDS = "OMNILEARN_GRACE_SECONDS"
ENV_TERMINATION_FILE = "OMNILEARN_TERMINATION_FILE"
ENV_TRACE_FILE = "OMNILEARN_TRACE_FILE"
ENV_TRACE_HASHES = "OMNILEARN_TRACE_HASHES"
ENV_FAULTS = "OMNILEARN_FAULTS"

# What a worker exits with if its script has to start anew to be in step with the others (EX_TEMPFAIL): no failure
START_ANEW_EXIT = 75

# Ports: the coordinator's service, its metrics, the operator's health
COORDINATOR_PORT = 7443
METRICS_PORT = 9090
HEALTH_PORT = 8080

# The audience of the token by which a pod proves who it is
TOKEN_AUDIENCE = GROUP

# Pods are called <job>-<group>-<index>-<attempt>, within a DNS label; index and attempt need their digits.
DNS_LABEL_LENGTH = 63
INDEX_DIGITS = 4
ATTEMPT_DIGITS = 5
JOB_AND_GROUP_LENGTH = DNS_LABEL_LENGTH - len("---") - INDEX_DIGITS - ATTEMPT_DIGITS


class ConditionType(StrEnum):
    """What `status.conditions` may say of a job."""

    READY = "Ready"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"


class Reason(StrEnum):
    """Why a condition is as it is; also the reasons of events."""

    ENOUGH_WORKERS = "EnoughWorkers"
    WAITING_FOR_WORKERS = "WaitingForWorkers"
    FEWER_WORKERS_THAN_WANTED = "FewerWorkersThanWanted"
    ROLLING_OUT = "RollingOut"
    ALL_SAMPLES_COMMITTED = "AllSamplesCommitted"
    SUSPENDED_BY_USER = "SuspendedByUser"
    SCRIPT_FAILED = "ScriptFailed"
    TOO_MANY_FAILURES = "TooManyFailures"
    STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
    ACTIVE_DEADLINE_EXCEEDED = "ActiveDeadlineExceeded"
    BAD_TEMPLATE = "BadTemplate"
    POD_REFUSED = "PodRefused"
    BATCH_REBALANCED = "BatchRebalanced"
    STRATEGY_CHOSEN = "StrategyChosen"
    WORKER_JOINED = "WorkerJoined"
    WORKER_LOST = "WorkerLost"
    WORKER_LEFT = "WorkerLeft"
    WORKER_FAILED = "WorkerFailed"
    WORKER_PREEMPTED = "WorkerPreempted"
    WORKER_OUT_OF_MEMORY = "WorkerOutOfMemory"
    COORDINATOR_ADOPTED = "CoordinatorAdopted"
    REGROUPED = "Regrouped"
    STEP_SKIPPED = "StepSkipped"
    CONVERGED = "Converged"


def namespace_path(namespace: str) -> str:
    """Return the path under which a coordinator of many jobs serves those of a namespace."""
    return f"/namespaces/{namespace}"


def worker_path(job: str, worker: str) -> str:
    """Return the path at which the coordinator talks to a worker."""
    return f"/v1/jobs/{job}/workers/{worker}"


def worker_name(job: str, group: str, index: int) -> str:
    """Return the stable name of a worker: label, hostname, and what people read."""
    return f"{job}-{group}-{index}"


def pod_name(worker: str, attempt: int) -> str:
    """Return the name of a worker's pod; each attempt has its own, so a replacement never waits for the old."""
    return f"{worker}-{attempt}"
