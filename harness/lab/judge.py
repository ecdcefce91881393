"""The verdict on a run, made of nothing but what its run directory holds and the rules given.

``run``, ``check`` and a replay judge by this one function, so they cannot disagree.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from harness.check.budget import Budget, load_budget
from harness.check.checks import Verdict
from harness.check.evaluate import evaluate
from harness.check.subject import Subject, model_name
from harness.result import Result
from harness.result import Verdict as RecordedVerdict
from harness.trace import Trace


def judge(
    trace: Trace, result: Result | None = None, budget: Path | Budget | None = None
) -> RecordedVerdict:
    """Hold a trace against every rule there is for it.

    Args:
        trace: What was logged, on its time scales.
        result: The result of its run, if that is known.
        budget: A budget or its file; without one, only what always holds is checked.

    Raises:
        UsageError: The budget file is wrong.
    """
    file = budget if isinstance(budget, Path) else None
    rules = load_budget(budget) if isinstance(budget, Path) else budget
    return recorded(evaluate(subject_of(trace, result), rules), file)


def recorded(verdict: Verdict, budget: Path | None) -> RecordedVerdict:
    """What a result keeps of a verdict."""
    return RecordedVerdict(passed=verdict.passed, budget=str(budget or ""), checks=verdict.checks)


def subject_of(trace: Trace, result: Result | None = None) -> Subject:
    """Join a trace with what the result of its run says."""
    if result is None:
        return Subject(trace)
    target, model, summary, image = result.target, result.model, result.trace, result.image
    probe = None
    if target and target.probe_pairs:
        probe = Fraction(target.probe_ticks, target.probe_pairs)
    return Subject(
        trace,
        board=result.board,
        unit=result.unit,
        model=model_name(model.file) if model else "",
        log_bytes=summary.log_bytes if summary else None,
        trace_capacity=target.trace_capacity if target else None,
        arena_capacity=target.arena_capacity if target else None,
        probe=probe,
        qualities=result.clock_quality,
        image={"text": image.text, "data": image.data, "bss": image.bss} if image else {},
        runs_requested=result.runs_requested,
    )
