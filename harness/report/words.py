"""Words and tables of every report: verdicts, states, counts, numbers and units, titles."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from harness.formatting import TICKS, DisplayUnit, operator_title, printable, time_unit
from harness.printing import counted as counted
from harness.records.nightly import StepState
from harness.records.trace import EXECUTION, SUM_OF_OPERATORS

if TYPE_CHECKING:
    from harness.check.history.samples import Metric
    from harness.records.trace import Signature


class ReportTable(NamedTuple):
    """A table, which each report lays out in its way.

    Attributes:
        title: Heading.
        headers: One per column.
        rows: Cells.
        numbers: Columns of numbers.
        notes: Sentences below it.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    notes: Sequence[str] = ()


RunState: TypeAlias = StepState
"""How a run ended, the most urgent first; see ``StepState``."""

STATES: Final[dict[RunState, str]] = {
    "failed": "failed",
    "regression": "regressions",
    "set-up": "set-up errors",
    "infrastructure": "infrastructure failures",
    "not run": "not run",
    "quarantined": "known failures",
    "pass": "passed",
}
"""How runs of each state are counted, the most urgent state first."""

URGENCY: Final = tuple(STATES)
"""States, the most urgent first."""

_BY_EXIT_CODE: Final[dict[int, RunState]] = {
    0: "pass",
    1: "failed",
    2: "set-up",
    3: "set-up",
    4: "failed",
}


def state_of(exit_code: int) -> RunState:
    """Return how a run with this exit code ended."""
    return _BY_EXIT_CODE.get(exit_code, "infrastructure")


def word_of(state: RunState) -> str:
    """Return how one run of this state ended."""
    return STATES[state].removesuffix("s")


def counts_text(counts: Mapping[RunState, int]) -> str:
    """Return how runs ended, in words: ``6 passed, 2 regressions``."""
    return ", ".join(
        f"{count:,} {STATES[state] if count > 1 else word_of(state)}"
        for state, count in counts.items()
        if count
    )


def counts_of_states(states: Iterable[RunState]) -> dict[RunState, int]:
    """Return how many there are of each state, the most urgent first; they sum to all."""
    found = [*states]
    return {state: found.count(state) for state in STATES}


OWNERS: Final = {
    0: "passed",
    1: "a check failed",
    2: "usage or configuration",
    3: "results are not comparable",
    4: "the target misbehaved",
    75: "infrastructure, safe to retry",
    130: "interrupted",
    143: "terminated",
}
"""What exit codes mean."""

OUTCOME_WORDS: Final[dict[str, str]] = {"pass": "pass", "fail": "FAIL", "error": "ERROR"}
"""How a run ended, in a table."""


def verdict_word(passed: bool) -> str:
    """Return the word of a verdict."""
    return "PASS" if passed else "FAIL"


STATISTIC_WORDS: Final = {
    "p10": "10th percentile",
    "p50": "median",
    "p90": "90th percentile",
    "avg": "average",
    "min": "fastest",
    "max": "slowest",
    "total": "total",
    "peak_bytes": "peak",
    "total_bytes": "total",
    "failed_bytes": "refused",
}
"""Statistics in words."""

_SIZES: Final = {
    "log_bytes": "size of the log",
    "stack_used": "use of the stack",
    "text_bytes": "size of the code",
    "data_bytes": "size of initialized data",
    "bss_bytes": "size of zeroed data",
}


def metric_title(metric: Metric) -> str:
    """Return the title of a metric, safe to print.

    Examples:
        >>> metric_title(Metric("operator", "native_call_add.out", "cold p50", "ns", "", 0, 3))
        'cold median of add #3'
    """
    if metric.kind == "result":
        return _SIZES.get(metric.name, printable(metric.name).replace("_", " "))
    statistic = statistic_text(metric)
    if metric.kind == "allocator":
        return f"{statistic} of allocator {printable(metric.name) or NO_NAME}"
    if metric.name == EXECUTION and metric.kind == "operator":
        return f"{statistic} execution"
    if metric.name == SUM_OF_OPERATORS and metric.kind == "operator":
        return f"{statistic} {SUM_OF_OPERATORS}"
    return f"{statistic} of {metric_subject(metric)}"


def statistic_text(metric: Metric) -> str:
    """Return the statistic of a metric in words, with the executions that it is of."""
    executions, _, statistic = metric.statistic.rpartition(" ")
    text = STATISTIC_WORDS.get(statistic, printable(statistic).replace("_", " ")) or "size"
    return f"{printable(executions)} {text}" if executions else text


def metric_subject(metric: Metric) -> str:
    """Return the operator of a metric with its delegate id, safe to print."""
    if metric.kind not in ("operator", "counter", "energy"):
        return printable(metric.name)
    delegate = metric.delegate_int if metric.delegate_str is None else metric.delegate_str
    instruction = metric.instruction if metric.chain != -1 else None
    name = operator_title(metric.name, instruction) or NO_NAME
    return name if delegate == -1 else f"{name} [{printable(str(delegate))}]"


LONGEST_NAME: Final = 160
"""Characters of a name that a page shows."""

LONGEST_SENTENCE: Final = 1_000
"""Characters of a reason or a message that a page shows."""

NO_NAME: Final = "(no name)"


def brief(text: str, longest: int = LONGEST_NAME) -> str:
    """``text`` without control characters; long text keeps its start, its end and its length."""
    if len(text) <= longest:
        return printable(text)
    head, tail = printable(text[: longest * 3 // 4]), printable(text[-longest // 5 :])
    return f"{head} … {tail} [{len(text):,} characters]"


def with_unit(value: float | None, unit: str) -> str:
    """A number with its unit, if it has one; empty without a number."""
    if value is None:
        return ""
    return f"{number(value)} {printable(unit)}" if unit else number(value)


def number(value: float | None) -> str:
    """Up to three decimals and thousands separators; a dash for None."""
    if value is None:
        return "-"
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


def three_digits(value: float) -> str:
    """A number with three significant digits, without an exponent; whole from 100."""
    size = abs(value)
    if not math.isfinite(value) or size >= 99.95 or size < 1e-9:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(float(f'{size:.2e}')))}f}"


def short_time_unit(nanoseconds: float) -> DisplayUnit:
    """The unit in which a time is a number below 1,000, for three digits of it."""
    for name, divisor in (("ns", 1.0), ("us", 1e3), ("ms", 1e6)):
        if nanoseconds < 999.5 * divisor:
            return DisplayUnit(name, divisor, 3)
    return DisplayUnit("s", 1e9, 3)


def short_time(nanoseconds: float | None, ticks: float | None = None) -> str:
    """A single time with three digits and its unit: nanoseconds if known, else ticks."""
    if nanoseconds is None:
        return one_time(None, ticks)
    unit = short_time_unit(nanoseconds)
    return f"{three_digits(nanoseconds / unit.divisor)} {unit.name}"


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as a percentage; a dash for None."""
    return "-" if share is None else f"{100 * share:.{decimals}f} %"


def bytes_unit(sizes: Iterable[float]) -> DisplayUnit:
    """The unit for a scale of sizes, chosen by the largest."""
    largest = max(sizes, default=0.0)
    if largest < 10 * 1024:
        return DisplayUnit("bytes", 1, 0)
    if largest < 10 * 1024**2:
        return DisplayUnit("KiB", 1024, 1)
    return DisplayUnit("MiB", 1024**2, 1)


def one_time(nanoseconds: float | None, ticks: float | None = None) -> str:
    """A single time with its unit: nanoseconds if known, else ticks."""
    if nanoseconds is None:
        return "-" if ticks is None else f"{TICKS.text(ticks)} ticks"
    unit = time_unit([nanoseconds])
    return f"{unit.text(nanoseconds)} {unit.name}"


def short_size(size: float) -> str:
    """A single size to three digits with its unit."""
    unit = bytes_unit([abs(size)])
    return (
        f"{size:,.0f} bytes"
        if unit.divisor == 1
        else f"{three_digits(size / unit.divisor)} {unit.name}"
    )


def few(names: Sequence[str], most: int = 3) -> str:
    """Return names in a list, the first and a count if there are many."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def more_text(others: int, shown: int) -> str:
    """What stands for the rows that are not shown, and how to see them."""
    return f"... {others:,} more (--top {shown + others})"


def with_delegate(event: Signature | Metric) -> str:
    """The event's name and its delegate id, or ``NO_NAME``; not safe to print."""
    delegate = event.delegate_str if event.delegate_str is not None else event.delegate_int
    if delegate == -1:
        return event.name or NO_NAME
    return f"{event.name} [{delegate}]" if event.name else f"[{delegate}]"


def event_title(event: Signature) -> str:
    """The event's short name and its instruction, such as ``conv2d #5``, safe to print."""
    instruction = None if event.chain == -1 else event.instruction
    name = with_delegate(event)
    if name == event.name:
        return operator_title(name, instruction)
    return printable(name) if instruction is None else f"{printable(name)} #{instruction}"


def left_out(count: int, limit: int) -> int:
    """How many of ``count`` items are beyond the limit."""
    return max(count - limit, 0)
