"""Rules about what cannot change in a job that exists."""

from __future__ import annotations

from omnilearn_core.api.job import OmniLearnJob

from .rule import Rule, Values

# CEL, written for the part that a rule is about. Every list is bounded, or its cost would be refused.
_GONE = "oldSelf.workers.filter(o, !self.workers.exists(n, n.name == o.name))"
_MOVED = "self.workers.filter(n, oldSelf.workers.exists(o, o.name == n.name && o.device != n.device))"


def _manager(of: str) -> str:
    return f"(has({of}.managedBy) ? {of}.managedBy : '')"


def _claim(of: str) -> str:
    return f"(has({of}.checkpoint) ? {of}.checkpoint.claimName : '')"


def _claim_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = ("" if job.spec.checkpoint is None else job.spec.checkpoint.claim_name for job in (old, new))
    return (before, after) if before != after else None


def _gang_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = str(old.spec.gang_scheduler), str(new.spec.gang_scheduler)
    return (before, after) if before != after else None


def _manager_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = old.spec.managed_by or "", new.spec.managed_by or ""
    return (before, after) if before != after else None


def _batch_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = old.spec.batch.global_, new.spec.batch.global_
    return (before, after) if before != after else None


def _strategy_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = str(old.spec.strategy.type), str(new.spec.strategy.type)
    return (before, after) if before != after else None


def _group_is_gone(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    names = {group.name for group in new.spec.workers}
    gone = next((group.name for group in old.spec.workers if group.name not in names), None)
    return None if gone is None else (gone,)


def _device_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before = {group.name: str(group.device) for group in old.spec.workers}
    moved = next((g for g in new.spec.workers if before.get(g.name, str(g.device)) != str(g.device)), None)
    return None if moved is None else (moved.name, before[moved.name], str(moved.device))


RULES: tuple[Rule, ...] = (
    Rule(
        at="spec",
        field="batch.global",
        sentence="batch.global cannot change (it is %d, not %d): learning rate and progress depend on it;"
        " create another job",
        cel="self.batch.global == oldSelf.batch.global",
        values=("oldSelf.batch.global", "self.batch.global"),
        broken=_batch_changed,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="strategy.type",
        sentence="strategy.type cannot change (it is %s, not %s): create another job",
        cel="self.strategy.type == oldSelf.strategy.type",
        values=("oldSelf.strategy.type", "self.strategy.type"),
        broken=_strategy_changed,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="managedBy",
        sentence="managedBy cannot change (it is '%s', not '%s'): create another job",
        cel=f"{_manager('self')} == {_manager('oldSelf')}",
        values=(_manager("oldSelf"), _manager("self")),
        broken=_manager_changed,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="checkpoint.claimName",
        sentence="checkpoint.claimName cannot change (it is '%s', not '%s'): pods that run would save elsewhere than"
        " those that are to come; create another job",
        cel=f"{_claim('self')} == {_claim('oldSelf')}",
        values=(_claim("oldSelf"), _claim("self")),
        broken=_claim_changed,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="gangScheduler",
        sentence="gangScheduler cannot change (it is %s, not %s): pods that are there have another scheduler;"
        " create another job",
        cel="self.gangScheduler == oldSelf.gangScheduler",
        values=("oldSelf.gangScheduler", "self.gangScheduler"),
        broken=_gang_changed,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="workers",
        sentence="group '%s' cannot be removed or renamed: set its replicas to 0; other groups may be added",
        cel=f"size({_GONE}) == 0",
        values=(f"{_GONE}[0].name",),
        broken=_group_is_gone,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="workers",
        sentence="the device of group '%s' cannot change (it is %s, not %s): add another group",
        cel=f"size({_MOVED}) == 0",
        values=(
            f"{_MOVED}[0].name",
            f"oldSelf.workers.filter(o, o.name == {_MOVED}[0].name)[0].device",
            f"{_MOVED}[0].device",
        ),
        broken=_device_changed,
        on_change=True,
    ),
)
