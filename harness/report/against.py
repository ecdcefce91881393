"""A run beside its history on the terminal, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from harness.check.history.comparison import Compared, HistoryComparison, Interval
from harness.formatting import BYTES, TICKS, DisplayUnit, time_unit
from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console

_QUIET: Final = ("same", "too little")


def print_against(
    console: Console, comparison: HistoryComparison, *, detailed: bool = False
) -> None:
    """Print what became of each number: what changed, or everything when ``detailed``."""
    shown = [n for n in comparison.numbers if detailed or n.judgement not in _QUIET]
    several = len(comparison.units) > 1
    title = f"Beside {comparison.description}"
    for kind, chosen in (
        ("operators", [number for number in shown if number.metric.kind == "operator"]),
        ("sizes", [number for number in shown if number.metric.kind != "operator"]),
    ):
        if chosen:
            _print_numbers(console, f"{title}: {kind}", chosen, comparison, several=several)
    same = sum(number.judgement == "same" for number in comparison.numbers)
    if comparison.numbers:
        text = (
            f"the same beside {comparison.description}: {same} of {len(comparison.numbers)} numbers"
        )
        show_line(console, text)
    for note in comparison.notes:
        show_line(console, f"note: {note}")


def _print_numbers(
    console: Console,
    title: str,
    numbers: Sequence[Compared],
    comparison: HistoryComparison,
    *,
    several: bool,
) -> None:
    unit = _unit(numbers)
    level = f"{comparison.limits.confidence:.0%}"
    headers = ["", "name", "instruction", "of", f"baseline [{unit.name}]", f"now [{unit.name}]"]
    headers += ["change [%]", f"{level} from", "to", "q", "noise [%]", "sessions"]
    rows = []
    for number in numbers:
        metric = number.metric
        own = TICKS if metric.unit == "ticks" else unit
        name = f"{metric.name} ({number.board_unit})" if several else metric.name
        rows.append(
            [
                number.judgement,
                name,
                str(metric.instruction) if metric.kind == "operator" else "",
                metric.statistic,
                "" if number.baseline is None else own.text(number.baseline.value),
                "" if number.current is None else own.text(number.current),
                *_change(number),
                "" if number.q is None else f"{number.q:.1g}",
                "" if number.noise is None else f"{100 * number.noise:.2f}",
                f"{number.baseline_sessions}, {number.current_sessions}",
            ]
        )
    show_table(console, headers, rows, title=title, numbers=range(4, len(headers)))


def _change(number: Compared) -> list[str]:
    """The change and the bounds of its interval, in percent of the baseline."""
    if number.change is None or number.baseline is None or not number.baseline.value:
        return ["", "", ""]
    share: Interval = number.change
    factor = 100 / number.baseline.value
    return [f"{value * factor:+.2f}" for value in (share.value, share.low, share.high)]


def _unit(numbers: Sequence[Compared]) -> DisplayUnit:
    if numbers[0].metric.kind != "operator":
        return BYTES
    times = [
        value
        for number in numbers
        for value in (number.current, number.baseline.value if number.baseline else None)
        if number.metric.unit == "ns" and value is not None
    ]
    return time_unit(times) if times else TICKS
