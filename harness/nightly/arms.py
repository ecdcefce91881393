"""Sides: variants held against the first one, by what the night has measured, or against others.

The results of both sides were made in the same sessions, in turns, which tells a change from noise
better than any number of nights does (``docs/verdicts.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.check.budget import load_budget
from harness.check.history.compare import DEFAULT_LIMITS, compare_with_history
from harness.check.history.comparison import Compared, HistoryComparison
from harness.check.history.measure import numbers_of
from harness.check.history.samples import History, Measured, Metric, Sample, Series
from harness.check.history.settings import HistoryLimits
from harness.check.subject import model_name
from harness.errors import HarnessError
from harness.formatting import printable
from harness.history.entries import provenance_of
from harness.records.nightly import ArmComparison, Changed, StepOutcome
from harness.records.result import Result
from harness.records.trace import Losses
from harness.runs.add_results import kept_subject
from harness.runs.baseline import HistoryRef
from harness.runs.directory import RunDirectory

_MOST: Final = 50
"""Numbers that are told of one comparison."""

_UNCHANGED: Final = ("same", "too little")


@dataclass(frozen=True, slots=True)
class _Pile:
    """Sound results of a variant of a model on a type of board, and what they are judged by."""

    measured: tuple[Measured, ...]
    limits: HistoryLimits


def compare_sides(
    directory: Path,
    outcomes: Sequence[StepOutcome],
    variants: Sequence[str],
    baseline: HistoryRef | None,
    tonight: Collection[str],
) -> Iterator[ArmComparison]:
    """Yield what became of every model on every type of board.

    Args:
        directory: The folder of the night.
        outcomes: What came of each step.
        variants: Labels of variants; all others are held against the first.
        baseline: Earlier nights, if results are held against these.
        tonight: Ids of all results of this one.
    """
    if len(variants) == 1 and baseline is None:
        return
    pairs = dict.fromkeys((o.step.board, o.step.model) for o in outcomes)
    for board, model in pairs:
        here = [o for o in outcomes if (o.step.board, o.step.model) == (board, model)]
        piles = {label: _pile(directory, _of(here, label)) for label in variants}
        first = variants[0]
        for label in variants[1:]:
            old, new = piles[first], piles[label]
            yield _sides((board, model, first, label), _within(old, new, first))
        if baseline is not None:
            for label in variants:
                names = (board, model, str(baseline.baseline), label)
                yield _sides(names, _earlier(piles[label], baseline, tonight))


def _of(outcomes: Iterable[StepOutcome], label: str) -> list[StepOutcome]:
    """Steps of a variant whose last attempt ended, be it with a failed check."""
    return [o for o in outcomes if o.step.variant == label and o.attempts]


def _pile(directory: Path, outcomes: Sequence[StepOutcome]) -> _Pile:
    """Measure the runs that ended, and lost nothing."""
    limits: HistoryLimits | None = None
    measured = []
    for outcome in outcomes:
        run = RunDirectory(directory / outcome.attempts[-1].directory)
        try:
            result = run.read_result()
            subject, damage = kept_subject(run, result)
        except (HarnessError, OSError):
            continue  # the history says of it that it cannot be read
        if subject is None or damage or result.failure is not None or _lossy(subject.trace.losses):
            continue
        limits = limits or _limits(result)
        measured.append(Measured(provenance_of(result), numbers_of(subject, limits)))
    measured.sort(key=lambda item: item.provenance.started_utc)
    return _Pile(tuple(measured), limits or DEFAULT_LIMITS)


def _lossy(losses: Losses) -> bool:
    return bool(losses.events or losses.blocks or losses.chunks or losses.records or losses.damaged)


def _limits(result: Result) -> HistoryLimits:
    file = result.verdict.budget if result.verdict else ""
    if not file:
        return DEFAULT_LIMITS
    model = model_name(result.model.file) if result.model else ""
    return load_budget(Path(file), result.board, model, result.unit).history


def _within(old: _Pile, new: _Pile, label: str) -> HistoryComparison | None:
    """The new side held against the old one, by what this night measured alone."""
    if not old.measured or not new.measured:
        return None
    series: dict[Metric, tuple[list[int], list[Sample]]] = {}
    for place, item in enumerate(old.measured):
        for metric, sample in item.samples.items():
            places, samples = series.setdefault(metric, ([], []))
            places.append(place)
            samples.append(sample)
    history = History(
        results=tuple(item.provenance for item in old.measured),
        series=tuple(Series(m, tuple(p), tuple(s)) for m, (p, s) in series.items()),
        baseline=tuple(range(len(old.measured))),
        description=f"{label} of the same night",
    )
    return compare_with_history(history, new.measured, new.limits)


def _earlier(
    pile: _Pile, baseline: HistoryRef, tonight: Collection[str]
) -> HistoryComparison | None:
    """A side held against earlier nights."""
    if not pile.measured:
        return None
    history = baseline.fetch(pile.measured[-1].provenance, pile.limits, also=tonight)
    return compare_with_history(history, pile.measured, pile.limits) if history.baseline else None


def _sides(names: tuple[str, str, str, str], comparison: HistoryComparison | None) -> ArmComparison:
    board, model, before, after = names
    if comparison is None:
        said = "there is nothing to compare: one of them has no whole result"
        passed = True
    else:
        passed = not any(number.judgement == "regression" for number in comparison.numbers)
        said = in_words(comparison)
    numbers = comparison.numbers if comparison else ()
    changed = [number for number in numbers if number.judgement not in _UNCHANGED]
    return ArmComparison(
        board=board,
        model=model,
        before=before,
        after=after,
        passed=passed,
        said=said,
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


def in_words(comparison: HistoryComparison) -> str:
    """What changed, in a sentence."""
    counts: Counter[str] = Counter(number.judgement for number in comparison.numbers)
    total = len(comparison.numbers)
    names = {"regression": "regressions", "improvement": "improvements", "changed": "changes"}
    found = [f"{counts[kind]} {name}" for kind, name in names.items() if counts[kind]]
    found += [f"{counts[kind]} {kind}" for kind in ("appeared", "vanished") if counts[kind]]
    if counts["too little"]:
        found.append(f"too little is known of {counts['too little']}")
    text = f"{', '.join(found) or 'nothing changed'} among {total} numbers"
    worst = comparison.numbers[0] if comparison.numbers else None
    if worst is not None and worst.judgement == "regression":
        more = "" if worst.relative is None else f" {100 * worst.relative:+.1f} %"
        text += f"; worst: {printable(worst.metric.name)}{more} on {worst.board_unit}"
    return text
