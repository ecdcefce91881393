"""Compares the arms of a nightly run: each variant with the first one, and with a baseline.

Both arms of a comparison ran in the same sessions, in turns, which separates a change from noise
better than any number of nightly runs does (``docs/verdicts.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.check.budget import load_budget
from harness.check.history.checks import history_checks
from harness.check.history.compare import DEFAULT_LIMITS, compare_with_history
from harness.check.history.comparison import Compared, HistoryComparison
from harness.check.history.measure import numbers_of, ticks_of
from harness.check.history.samples import History, Measured, Metric, Sample, Series
from harness.check.history.settings import HistoryLimits
from harness.check.subject import model_name
from harness.errors import HarnessError
from harness.formatting import printable
from harness.history.entries import provenance_of
from harness.records.nightly import ArmComparison, Changed, StepOutcome
from harness.records.result import Result, VerdictRecord
from harness.records.trace import Losses
from harness.runs.add_results import read_subject
from harness.runs.baseline import HistoryRef
from harness.runs.directory import RunDirectory, save_verdict

_NO_RESULT: Final = "an arm has no sound result"
_MOST: Final = 50
"""Largest number of changed metrics recorded for a comparison."""

_UNCHANGED: Final = ("same", "too little")


@dataclass(frozen=True, slots=True)
class _ArmResults:
    """The sound results of a variant of a model on a type of board, and their limits."""

    measured: tuple[Measured, ...]
    limits: HistoryLimits
    verdicts: Mapping[Path, tuple[str, VerdictRecord]] = field(default_factory=dict)
    """Ids and verdicts of the results by their run directories."""


def compare_arms(
    directory: Path,
    outcomes: Sequence[StepOutcome],
    variants: Sequence[str],
    baseline: HistoryRef | None,
    tonight: Collection[str],
) -> Iterator[ArmComparison]:
    """Yield the comparisons of every model on every type of board.

    Args:
        directory: The folder of the nightly run.
        outcomes: The outcome of each step.
        variants: Labels of the variants; the others are compared with the first.
        baseline: Baseline of earlier nightly runs to compare with; None for none.
        tonight: Ids of all results of this nightly run.
    """
    if len(variants) == 1 and baseline is None:
        return
    pairs = dict.fromkeys((o.step.board, o.step.model) for o in outcomes)
    for board, model in pairs:
        of_pair = [
            o for o in outcomes if o.attempts and (o.step.board, o.step.model) == (board, model)
        ]
        results = {
            label: _load_results(directory, [o for o in of_pair if o.step.variant == label])
            for label in variants
        }
        first = variants[0]
        for label in variants[1:]:
            old, new = results[first], results[label]
            compared = _compare_tonight(old, new, first)
            yield _arm_comparison((board, model, first, label), compared, _NO_RESULT)
        if baseline is not None:
            for label in variants:
                names = (board, model, str(baseline.baseline), label)
                compared = _compare_with_baseline(results[label], baseline, tonight)
                if compared is not None:
                    _store_verdicts(results[label], baseline, compared)
                missing = "no earlier results" if results[label].measured else _NO_RESULT
                yield _arm_comparison(names, compared, missing)


def _load_results(directory: Path, outcomes: Sequence[StepOutcome]) -> _ArmResults:
    """Load the measurements of the runs that completed and lost no events."""
    limits: HistoryLimits | None = None
    measured = []
    verdicts: dict[Path, tuple[str, VerdictRecord]] = {}
    for outcome in outcomes:
        run = RunDirectory(directory / outcome.attempts[-1].directory)
        try:
            result = run.read_result()
            subject, damage = read_subject(run, result)
        except (HarnessError, OSError):
            continue  # reported when it is added to the history
        if subject is None or damage or result.failure is not None or _lossy(subject.trace.losses):
            continue
        limits = limits or _limits(result)
        numbers = numbers_of(subject, limits)
        measured.append(Measured(provenance_of(result), numbers, ticks_of(subject)))
        if result.verdict is not None:
            verdicts[run.path] = (result.id, result.verdict)
    measured.sort(key=lambda item: item.provenance.started_utc)
    return _ArmResults(tuple(measured), limits or DEFAULT_LIMITS, verdicts)


def _lossy(losses: Losses) -> bool:
    return bool(losses.events or losses.blocks or losses.chunks or losses.records or losses.damaged)


def _limits(result: Result) -> HistoryLimits:
    file = result.verdict.budget if result.verdict else ""
    if not file:
        return DEFAULT_LIMITS
    model = model_name(result.model.file) if result.model else ""
    return load_budget(Path(file), result.board, model, result.unit).history


def _compare_tonight(old: _ArmResults, new: _ArmResults, label: str) -> HistoryComparison | None:
    """Compare the new arm with the old one, by the results of this nightly run alone."""
    if not old.measured or not new.measured:
        return None
    series: dict[Metric, tuple[list[int], list[Sample]]] = {}
    for index, item in enumerate(old.measured):
        for metric, sample in item.samples.items():
            indices, samples = series.setdefault(metric, ([], []))
            indices.append(index)
            samples.append(sample)
    history = History(
        results=tuple(item.provenance for item in old.measured),
        series=tuple(Series(m, tuple(i), tuple(s)) for m, (i, s) in series.items()),
        baseline=tuple(range(len(old.measured))),
        description=f"{label} of the same nightly run",
    )
    return compare_with_history(history, new.measured, new.limits)


def _compare_with_baseline(
    arm: _ArmResults, baseline: HistoryRef, tonight: Collection[str]
) -> HistoryComparison | None:
    """Compare an arm with earlier nightly runs."""
    if not arm.measured:
        return None
    history = baseline.fetch(arm.measured[-1].provenance, arm.limits, also=tonight)
    return compare_with_history(history, arm.measured, arm.limits) if history.baseline else None


def _store_verdicts(arm: _ArmResults, baseline: HistoryRef, comparison: HistoryComparison) -> None:
    """Record a failed comparison with the results of the arm in the history.

    Each of them passed when it was added. Without this they would become the baseline of later
    nights, in which the regression would disappear.
    """
    checks = [*history_checks(comparison)]
    if not any(check.failed for check in checks):
        return
    with baseline.open() as store:
        for directory, (own_id, verdict) in arm.verdicts.items():
            whole = replace(verdict, passed=False, checks=(*verdict.checks, *checks))
            save_verdict(directory, whole)
            store.record_verdict(own_id, whole)


def _arm_comparison(
    names: tuple[str, str, str, str], comparison: HistoryComparison | None, missing: str
) -> ArmComparison:
    """Return what a comparison found; without one, what was missing for it."""
    board, model, before, after = names
    if comparison is None:
        summary = f"nothing to compare: {missing}"
        passed = True
    else:
        passed = not any(check.failed for check in history_checks(comparison))
        summary = _summarize(comparison)
    numbers = comparison.numbers if comparison else ()
    changed = [number for number in numbers if number.judgement not in _UNCHANGED]
    return ArmComparison(
        board=board,
        model=model,
        before=before,
        after=after,
        passed=passed,
        summary=summary,
        units=comparison.units if comparison else (),
        counts=dict(Counter(number.judgement for number in numbers)),
        changed=tuple(map(_changed, changed[:_MOST])),
    )


def _changed(number: Compared) -> Changed:
    return Changed(
        unit=number.board_unit,
        what=printable(number.metric.name),
        statistic=number.metric.statistic,
        judgement=number.judgement,
        before=number.baseline.value if number.baseline else None,
        after=number.current,
        relative=number.relative,
        counted_in=number.metric.unit,
        reason=printable(number.reason),
    )


def _summarize(comparison: HistoryComparison) -> str:
    """Summarize the changes in a sentence."""
    counts: Counter[str] = Counter(number.judgement for number in comparison.numbers)
    total = len(comparison.numbers)
    names = {"regression": "regressions", "improvement": "improvements", "changed": "changes"}
    found = [
        f"all operators {100 * common.change.value:+.1f} % ({common.board_unit})"
        for common in comparison.common
        if common.judgement in ("regression", "improvement")
    ]
    found += [
        f"most operators off by {100 * common.typical:.1f} % ({common.board_unit})"
        for common in comparison.common
        if common.judgement == "scattered"
    ]
    found += [f"{counts[kind]} {name}" for kind, name in names.items() if counts[kind]]
    found += [f"{counts[kind]} {kind}" for kind in ("appeared", "vanished") if counts[kind]]
    if counts["too little"]:
        found.append(f"too few samples of {counts['too little']}")
    undecided = sum(any(step.undecided for step in number.steps) for number in comparison.numbers)
    if undecided:
        found.append(f"{undecided} steps that nobody accepted")
    text = f"{', '.join(found) or 'nothing changed'} among {total} metrics"
    worst = comparison.numbers[0] if comparison.numbers else None
    if worst is not None and worst.judgement == "regression":
        more = "" if worst.relative is None else f" {100 * worst.relative:+.1f} %"
        text += f"; worst: {printable(worst.metric.name)}{more} on {worst.board_unit}"
    return text
