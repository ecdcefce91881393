"""Accuracy of two runs over the same samples, judged as a comparison with a history does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.analyze.compare import AccuracyChange, Change
from harness.check.history.compare import DEFAULT_LIMITS, compare_with_history
from harness.check.history.comparison import judgement_word
from harness.check.history.measure import accuracy_numbers
from harness.check.history.samples import History, Measured, Sample, with_results
from harness.errors import UsageError
from harness.history.entries import provenance_of
from harness.records.result import ACCURACY_METRICS
from harness.report.terminal import show_table

if TYPE_CHECKING:
    from rich.console import Console

    from harness.records.result import Result
    from harness.records.verdict import Judgement
    from harness.runs.source import Source


def compare_accuracy(sources: Sequence[Source], warnings: list[str]) -> tuple[AccuracyChange, ...]:
    """Return the metrics that both runs have over the same samples.

    Models, boards and settings may differ: the outputs of the same samples compare all the same.

    Args:
        sources: Both runs.
        warnings: Takes a sentence on each regression, or on samples that did not run, for every
            report of the comparison.
    """
    before, after = (source.result for source in sources)
    old = before.accuracy if before is not None else None
    new = after.accuracy if after is not None else None
    if before is None or after is None or old is None or new is None or old.sha256 != new.sha256:
        return ()
    parts = [
        f"{side.ran:,} of {side.samples:,} samples ran {when}"
        for side, when in ((old, "before"), (new, "after"))
        if side.ran != side.samples
    ]
    if parts:
        warnings.append(f"ACCURACY: not judged, because {' and '.join(parts)}")
    judged = {} if parts else _judgements(before, after)
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in ACCURACY_METRICS)
    changes = tuple(
        AccuracyChange(name, Change.of(first, second), judged.get(name, ""))
        for name, first, second in pairs
        if first is not None or second is not None
    )
    for change in changes:
        if change.judgement == "regression":
            values = f"{_text(change.value.before)} before, {_text(change.value.after)} after"
            warnings.append(f"ACCURACY: {change.metric} is worse: {values}, over the same samples")
    return changes


def _judgements(before: Result, after: Result) -> dict[str, Judgement]:
    """Return the judgement of each metric by its name."""
    tested = provenance_of(after)
    first, second = (
        Measured(where, {metric: Sample(loss) for metric, loss in accuracy_numbers(side.accuracy)})
        for where, side in ((replace(tested, id=f"{tested.id} before"), before), (tested, after))
    )
    try:
        compared = compare_with_history(
            with_results(History(baseline=(0,)), [first]), [second], DEFAULT_LIMITS
        )
    except UsageError:  # SciPy is not installed
        return {}
    return {
        number.metric.name.removeprefix("1 - "): number.judgement for number in compared.numbers
    }


def print_accuracy_changes(console: Console, changes: Sequence[AccuracyChange]) -> None:
    """Print a table of all changes."""
    rows = [
        [
            change.metric,
            _text(change.value.before),
            _text(change.value.after),
            judgement_word(change.judgement, "accuracy") if change.judgement else "",
        ]
        for change in changes
    ]
    headers = ["metric", "before", "after", "verdict"]
    show_table(console, headers, rows, title="Accuracy", numbers=(1, 2))


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
