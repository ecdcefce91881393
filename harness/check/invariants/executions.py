"""Checks that executions log the same events (I10), completed (I12), were measured (I13), and are
all in the log (I15).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from harness.analyze.blocks import BlockRun, equal_rows, executions, runs
from harness.check.invariants.scopes import named, order_known
from harness.check.subject import Subject
from harness.records.trace import EXECUTION, STREAMING, Kind, Trace
from harness.records.verdict import Check, check


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


def completion_checks(subject: Subject) -> Iterator[Check]:
    """Compare completed with requested executions, if both numbers are known."""
    requested, completed = subject.runs_requested, subject.runs_completed
    if requested is None or completed is None:
        return
    yield check(
        "I12",
        rule="all requested executions completed",
        subject="executions",
        measured=float(completed),
        unit="executions",
        # 0 of 0 fails: a board may not have executed anything when its log was pulled.
        passed=completed >= max(requested, 1),
        reason=f"{completed} of {requested} executions completed",
    )


def measured_checks(subject: Subject) -> Iterator[Check]:
    """Fail a trace without an execution, where all other checks would pass vacuously.

    Yields nothing for other traces.
    """
    executed, _ = executions(subject.trace)
    if not executed.any():
        count = len(subject.trace)
        content = f"{count:,} events, but no execution of a method" if count else "no events"
        yield _unmeasured("trace", f"nothing was measured: the trace has {content}")


def logged_checks(subject: Subject) -> Iterator[Check]:
    """Compare the executions in the log with the completed ones.

    Blocks that the device dropped for newer ones count as executions if all others are. The log may
    have more than the completed executions if fewer completed than were requested: the host did not
    hear of the end of all. Yields nothing if other events
    are missing, or if a filter left out the events of executions.
    """
    trace, completed = subject.trace, subject.runs_completed
    if completed is None or not order_known(trace.losses) or not len(trace):
        return
    if trace.filtered_events and not named(trace, EXECUTION).any():
        return
    # Several cores may log the same executions, or one of them all.
    tracers = Counter(run.tracer for run in subject.runs if run.executes)
    logged = max(tracers.values(), default=0)
    dropped = trace.losses.runs
    unheard = completed < (subject.runs_requested or 0)
    # A device whose blocks behind the first are all executions drops no others.
    alike = all(run.executes for run in subject.runs if run.order and run.events)
    least = logged + dropped if alike else logged
    passed = completed <= logged + dropped and (unheard or least <= completed)
    also = f" and {dropped:,} dropped blocks" if dropped else ""
    yield check(
        "I15",
        rule="all completed executions are in the log",
        subject="executions",
        measured=float(logged),
        unit="executions",
        passed=passed,
        reason=f"the log has {logged:,}{also} of {completed:,} completed executions",
    )


def nothing_checked() -> Check:
    """Return the failed check for a budget that turns all other checks off."""
    return _unmeasured("checks", "nothing was checked: the budget turns every check off")


def _unmeasured(subject: str, reason: str) -> Check:
    return check(
        "I13",
        rule="an execution was measured",
        subject=subject,
        measured=0.0,
        passed=False,
        reason=reason,
    )
