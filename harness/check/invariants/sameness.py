"""Whether all executions logged the same (I10)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from harness.analyze.blocks import BlockRun, runs
from harness.check.invariants.scopes import order_known
from harness.check.subject import Subject
from harness.records.verdict import Check, check

STREAMING: Final = ("Link::stream",)
"""What comes when a buffer is full, in whatever execution that is."""


def sameness_checks(subject: Subject) -> Iterator[Check]:
    """Compare the sequences of events of executions, by name of their blocks and by tracer.

    The first after loading may differ from the others. Of a trace without a result nobody knows
    whether one method ran, or several: there it is but a note.
    """
    if not order_known(subject.trace.losses):
        return
    alike: dict[tuple[int, str], list[BlockRun]] = defaultdict(list)
    for run in runs(subject.trace, without=STREAMING):
        if run.executes and not run.cold:
            alike[run.tracer, run.name].append(run)
    for (tracer, name), group in alike.items():
        if len(group) > 1:
            yield _same(tracer, name, group, ours=subject.runs_requested is not None)


def _same(tracer: int, name: str, group: list[BlockRun], *, ours: bool) -> Check:
    counts = Counter(run.signature for run in group)
    (usual, often), *others = counts.most_common()
    different = next((run for run in group if run.signature != usual), None)
    reason = f"{len(group):,} warm runs logged the same events"
    if different is not None:
        like = next(run for run in group if run.signature == usual)
        reason = (
            f"{len(group) - often:,} of {len(group):,} warm runs differ from the others, in "
            f"{len(others):,} ways; the first is block {different.order}, with "
            f"{different.events:,} events where block {like.order} has {like.events:,}"
        )
    return check(
        "I10",
        severity=None if ours else "note",
        rule="all runs log the same events in the same order",
        subject=(name or "(no name)") + (f" of tracer {tracer}" if tracer else ""),
        measured=float(len(counts)),
        limit=1.0,
        unit="sequences",
        passed=different is None,
        reason=reason,
    )
