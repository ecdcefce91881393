"""Checks that all executions log the same events (I10)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from harness.analyze.blocks import BlockRun, equal_rows, runs
from harness.check.invariants.scopes import order_known
from harness.check.subject import Subject
from harness.records.trace import Kind, Trace
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
    values = _values(subject.trace)
    for (tracer, name), group in alike.items():
        if len(group) > 1:
            logged = [(run.signature, values[run.order]) for run in group]
            one_method = subject.runs_requested is not None
            yield _same(tracer, name, group, logged, one_method=one_method)


def _values(trace: Trace) -> list[bytes]:
    """Return what is logged of values in each block: their instructions and types, as bytes.

    Empty if values were dropped: the log then does not say which.
    """
    rows = np.flatnonzero(trace.kind == Kind.DEBUG)
    if not len(rows) or trace.losses.values:
        return [b""] * len(trace.blocks)
    types = np.array([value.type for value in trace.debug_values] + [-1])[trace.debug[rows]]
    codes = equal_rows([trace.chain[rows], trace.instruction[rows], types])
    bounds = np.searchsorted(rows, [block.first for block in trace.blocks] + [len(trace)])
    return [codes[first:behind].tobytes() for first, behind in pairwise(bounds.tolist())]


def _same(
    tracer: int,
    name: str,
    group: list[BlockRun],
    logged: list[tuple[int, bytes]],
    *,
    one_method: bool,
) -> Check:
    counts = Counter(logged)
    (usual, often), *others = counts.most_common()
    pairs = list(zip(group, logged, strict=True))
    different = next((run for run, events in pairs if events != usual), None)
    reason = f"{len(group):,} warm executions logged the same events"
    if different is not None:
        like = next(run for run, events in pairs if events == usual)
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
