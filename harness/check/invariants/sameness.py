"""Checks that all executions log the same events (I10)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from harness.analyze.blocks import BlockRun, runs
from harness.check.invariants.scopes import order_known
from harness.check.subject import Subject
from harness.records.verdict import Check, check

STREAMING: Final = ("Link::stream",)
"""Events that depend on how full a buffer is, not on the execution."""


def sameness_checks(subject: Subject) -> Iterator[Check]:
    """Compare the event sequences of executions with the same block name and tracer.

    The cold execution is skipped. Without a run result it is unknown whether the trace covers one
    method or several, so a difference is only a note.
    """
    if not order_known(subject.trace.losses):
        return
    alike: dict[tuple[int, str], list[BlockRun]] = defaultdict(list)
    for run in runs(subject.trace, without=STREAMING):
        if run.executes and not run.cold:
            alike[run.tracer, run.name].append(run)
    for (tracer, name), group in alike.items():
        if len(group) > 1:
            yield _same(tracer, name, group, one_method=subject.runs_requested is not None)


def _same(tracer: int, name: str, group: list[BlockRun], *, one_method: bool) -> Check:
    counts = Counter(run.signature for run in group)
    (usual, often), *others = counts.most_common()
    different = next((run for run in group if run.signature != usual), None)
    reason = f"{len(group):,} warm executions logged the same events"
    if different is not None:
        like = next(run for run in group if run.signature == usual)
        reason = (
            f"{len(group) - often:,} of {len(group):,} warm executions differ from the others, in "
            f"{len(others):,} ways; the first is block {different.order} with "
            f"{different.events:,} events, block {like.order} has {like.events:,}"
        )
    return check(
        "I10",
        severity=None if one_method else "note",
        rule="all executions log the same events in the same order",
        subject=(name or "(no name)") + (f" of tracer {tracer}" if tracer else ""),
        measured=float(len(counts)),
        limit=1.0,
        unit="sequences",
        passed=different is None,
        reason=reason,
    )
