"""Manifests whose strategy does not fit the rest, and those in which it just does."""

from __future__ import annotations

from typing import Any

from .build import Manifest, group, manifest
from .cases import Bad, breaks


def local_sgd(batch: dict[str, Any], /, **options: Any) -> Manifest:
    """Return a job of LocalSGD."""
    return manifest(batch=batch, strategy={"type": "LocalSGD", **({"localSGD": options} if options else {})})


def hierarchical(**options: Any) -> Manifest:
    """Return a job of Hierarchical."""
    return manifest(strategy={"type": "Hierarchical", **({"hierarchical": options} if options else {})})


def asynchronous(**options: Any) -> Manifest:
    """Return a job of Asynchronous."""
    return manifest(strategy={"type": "Asynchronous", **({"asynchronous": options} if options else {})})


STRATEGIES: dict[str, Manifest] = {
    "asynchronous without options": asynchronous(),
    "asynchronous with every option": asynchronous(staleness="Ringmaster", bound=4, gradients="BFloat16"),
    "asynchronous with a server of its own": manifest(
        workers=[group("server", replicas=1), group("cpu", replicas=3)],
        strategy={"type": "Asynchronous", "asynchronous": {"serverGroup": "server"}},
    ),
    "asynchronous without a bound": asynchronous(staleness="Rennala"),
    "asynchronous without anything to bound": asynchronous(staleness="Ringleader", gradients="Float16"),
    "local SGD without options": local_sgd({"global": 64}),
    "local SGD with every option": local_sgd(
        {"global": 64, "maxPerWorker": 64},
        batch=16,
        steps="Proportional",
        interval=2,
        aggregation="BySteps",
        exponentPercent=50,
        sampling="LossBiased",
        hardSamples="Fast",
        hardRatio=8,
        rule="FedLALR",
        outer="Nesterov",
        outerRatePercent=70,
        outerMomentumPercent=90,
    ),
    "local SGD in fixed steps": local_sgd({"global": 64}, steps="Fixed", aggregation="Uniform", exponentPercent=0),
    "local SGD in which some may have no step": local_sgd({"global": 32, "minPerWorker": 0}),
    "local SGD with a tail of nothing": local_sgd({"global": 64, "tailPercent": 0}),
    "local SGD by shares": local_sgd({"global": 63, "maxPerWorker": 63}, steps="Shares", interval=8),
    "auto": manifest(strategy={"type": "Auto"}),
    "auto with a tail until it has chosen": manifest(
        batch={"global": 64, "tailPercent": 20}, strategy={"type": "Auto"}
    ),
    "hierarchical without options": hierarchical(),
    "hierarchical with every option": hierarchical(
        interval=2, maxInterval=16, warmupEpochs=0, cooldownEpochs=3, wait=16
    ),
    "hierarchical that always merges": hierarchical(interval=1, maxInterval=1),
}

UNFIT: dict[str, Bad] = {
    "hard samples for nobody": breaks(
        local_sgd({"global": 64}, steps="Fixed", sampling="LossBiased"),
        (
            "spec.strategy.localSGD.sampling",
            "sampling is LossBiased, but steps is Fixed: everybody has the same share then, so that nobody is slow or"
            " fast; set steps to Proportional or Shares",
        ),
    ),
    "an exponent of equal weights": breaks(
        local_sgd({"global": 64}, aggregation="Uniform", exponentPercent=50),
        (
            "spec.strategy.localSGD.exponentPercent",
            "exponentPercent is 50, but aggregation is Uniform, in which every model weighs the same: set aggregation"
            " to BySteps, or remove one of them",
        ),
    ),
    "a rate of no optimizer": breaks(
        local_sgd({"global": 64}, outerRatePercent=50),
        (
            "spec.strategy.localSGD.outerRatePercent",
            "outerRatePercent is 50, but outer is None, which takes the mean as it is: set outer to Momentum or"
            " Nesterov, or remove it",
        ),
    ),
    "options of another strategy": breaks(
        manifest(strategy={"type": "Synchronous", "localSGD": {"batch": 8}}),
        (
            "spec.strategy.localSGD",
            "localSGD has options, but the type of the strategy is Synchronous: set type to LocalSGD, or remove them",
        ),
    ),
    "options of a strategy that Auto may choose": breaks(
        manifest(strategy={"type": "Auto", "localSGD": {"interval": 8}}),
        (
            "spec.strategy.localSGD",
            "localSGD has options, but the type of the strategy is Auto: set type to LocalSGD, or remove them",
        ),
    ),
    "group options under Auto": breaks(
        manifest(strategy={"type": "Auto", "hierarchical": {"interval": 2}}),
        (
            "spec.strategy.hierarchical",
            "hierarchical has options, but the type of the strategy is Auto: set type to Hierarchical, or remove them",
        ),
    ),
    "options of asynchrony without it": breaks(
        manifest(strategy={"type": "LocalSGD", "asynchronous": {"bound": 2, "staleness": "Bounded"}}),
        (
            "spec.strategy.asynchronous",
            "asynchronous has options, but the type of the strategy is LocalSGD: set type to Asynchronous, or remove"
            " them",
        ),
    ),
    "a bound of nothing": breaks(
        asynchronous(staleness="Ringleader", bound=2),
        (
            "spec.strategy.asynchronous.bound",
            "asynchronous.bound is set, but Ringleader has no bound: remove it, or set staleness to Bounded,"
            " Ringmaster, Rennala",
        ),
    ),
    "a server that is no group": breaks(
        asynchronous(serverGroup="servers"),
        (
            "spec.strategy.asynchronous.serverGroup",
            "strategy.asynchronous.serverGroup is servers, but there is no group of that name with replicas 1: name a"
            " group of workers, and let it have one worker",
        ),
    ),
    "two servers": breaks(
        manifest(
            workers=[group("server", replicas=2), group("cpu", replicas=3)],
            strategy={"type": "Asynchronous", "asynchronous": {"serverGroup": "server"}},
        ),
        (
            "spec.strategy.asynchronous.serverGroup",
            "strategy.asynchronous.serverGroup is server, but there is no group of that name with replicas 1: name a"
            " group of workers, and let it have one worker",
        ),
    ),
    "a server and nobody who computes": breaks(
        manifest(
            workers=[group("server", replicas=1), group("cpu", replicas=0)],
            strategy={"type": "Asynchronous", "asynchronous": {"serverGroup": "server"}},
        ),
        (
            "spec.strategy.asynchronous.serverGroup",
            "strategy.asynchronous.serverGroup is server, but no other group has workers, and a server does not"
            " compute: add a group that does, or remove serverGroup",
        ),
    ),
    "no whole number of local steps": breaks(
        local_sgd({"global": 72}, batch=16),
        (
            "spec.batch.global",
            "batch.global is 72, which is not a whole number of local steps of 16 samples (strategy.localSGD.batch):"
            " change one of them",
        ),
    ),
    "fewer local steps than workers": breaks(
        manifest(batch={"global": 64}, workers=[group(replicas=3)], strategy={"type": "LocalSGD"}),
        (
            "spec.batch.global",
            "batch.global is 64, but the most workers that the job can have (3) take at least one local step of 32"
            " samples each, 96 together: raise global, lower strategy.localSGD.batch, use fewer workers, or let"
            " minPerWorker be 0",
        ),
    ),
    "a largest share between two local steps": breaks(
        local_sgd({"global": 64, "maxPerWorker": 65}, batch=16),
        (
            "spec.batch.maxPerWorker",
            "batch.maxPerWorker is 65, which is not a whole number of local steps of 16 samples: change one of them",
        ),
    ),
    "a tail without synchrony": breaks(
        local_sgd({"global": 64, "tailPercent": 20}),
        (
            "spec.batch.tailPercent",
            "batch.tailPercent is set, but only Synchronous has a tail, not LocalSGD: remove it",
        ),
    ),
    "group options of another strategy": breaks(
        manifest(strategy={"type": "Synchronous", "hierarchical": {"interval": 2}}),
        (
            "spec.strategy.hierarchical",
            "hierarchical has options, but the type of the strategy is Synchronous: set type to Hierarchical, or remove"
            " them",
        ),
    ),
    "an interval beyond the most": breaks(
        hierarchical(interval=9),
        (
            "spec.strategy.hierarchical.interval",
            "interval is 9, but the most steps between two merges (maxInterval) are 8: change one of them",
        ),
    ),
    "a wait beyond the most": breaks(
        hierarchical(interval=2, maxInterval=2, wait=3),
        (
            "spec.strategy.hierarchical.wait",
            "wait is 3, but the most steps between two merges (maxInterval) are 2: a merge must have been taken in"
            " before the next one begins; change one of them",
        ),
    ),
    "a tail of groups": breaks(
        manifest(batch={"global": 64, "tailPercent": 20}, strategy={"type": "Hierarchical"}),
        (
            "spec.batch.tailPercent",
            "batch.tailPercent is set, but only Synchronous has a tail, not Hierarchical: remove it",
        ),
    ),
}
