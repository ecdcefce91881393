"""One run on a page: its first screen, its operators, facts, and pictures, all within limits."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.call_tree import merged_tree
from harness.analyze.compare import OperatorChange
from harness.analyze.statistics import Operator
from harness.analyze.ticks import durations, event_nanoseconds, unknown_durations
from harness.check.subject import Subject
from harness.extensions.web.html.difference import colour_of, difference_view
from harness.extensions.web.html.history import BaselineNumbers, history_view, signed
from harness.extensions.web.html.memory import memory_view, plan_view
from harness.extensions.web.html.svg import (
    SIZE,
    Axis,
    Curve,
    Limits,
    Mark,
    Tick,
    View,
    axis,
    below,
    line,
    strip,
)
from harness.extensions.web.html.timeline import executions, icicles, timeline_view, title_of
from harness.formatting import TICKS, DisplayUnit, operator_title, printable, time_unit
from harness.records.result import Result
from harness.records.trace import DELEGATE_CALL, EXECUTION, Kind, type_name
from harness.records.verdict import Check
from harness.report.description import (
    EMULATED,
    ClockQualityDocument,
    Fact,
    RunDescription,
    clock_documents,
    link_line,
    shape_text,
)
from harness.report.operators import (
    UNKNOWN,
    OperatorListing,
    RooflineTable,
    instruction_text,
    operator_name,
    share_text,
)
from harness.report.words import (
    NO_NAME,
    brief,
    bytes_unit,
    counted,
    left_out,
    number,
    one_time,
    percent,
    short_time,
    short_time_unit,
    three_digits,
)

if TYPE_CHECKING:
    from harness.analyze.workload import RooflinePoint


def _link_facts(result: Result | None) -> Iterator[Fact]:
    """The line's rate, its counters, and readings of the device's clock."""
    if result is None:
        return
    yield Fact("line rate", f"{result.baud:,} baud" if result.baud else "unknown")
    for name, count in result.link.items():
        yield Fact(name.replace("_", " "), f"{count:,}")
    if pings := result.pings:
        trips = [ping.host_after_ns - ping.host_before_ns for ping in pings]
        yield Fact("clock readings", f"{len(pings):,}")
        yield Fact("shortest round trip", one_time(min(trips)))
        yield Fact("longest round trip", one_time(max(trips)))
        yield Fact("clock epochs", f"{len({ping.epoch for ping in pings}):,}")


def _clock_facts(subject: Subject | None) -> list[tuple[str, list[Fact]]]:
    """What is known of each clock of the trace."""
    if subject is None:
        return []
    found = clock_documents(subject.trace, subject.qualities, emulated=subject.emulated_time)
    return [(printable(clock.name), [*_of_clock(clock)]) for clock in found]


def _of_clock(clock: ClockQualityDocument) -> Iterator[Fact]:
    yield Fact("rate", "unknown" if clock.hz is None else f"{number(clock.hz)} Hz")
    if clock.emulated:
        yield Fact("time", EMULATED)
    yield Fact("counter", f"{clock.bits} bits, counts {'down' if clock.down else 'up'}")
    jitter = f"{clock.backward_steps:,}, each by at most {clock.jitter:,} ticks"
    yield Fact("steps back", jitter)
    yield Fact("events that end before they begin", f"{clock.reversed_events:,}")
    quality = clock.quality
    if quality is None:
        yield Fact("on the host's clock", "no readings")
        return
    reference, why = printable(quality.reference), printable(quality.unknown)
    if quality.half_width_ns is None:
        yield Fact(f"on clock {reference}", f"not placed: {why}")
    else:
        yield Fact(f"on clock {reference}", f"within ±{one_time(quality.half_width_ns)}")
    yield Fact("readings", f"{quality.readings:,}")
    others = f"; not the others: {why}" if why else ""
    yield Fact("events on its timeline", f"{quality.placed:,} of {quality.events:,}")
    bounded = f"{quality.bounded:,} of {quality.events:,}{others}"
    yield Fact("events between two known instants", bounded)
    wraps = f"{quality.silent_wraps:,}, among {counted(quality.unsettled, 'event')}"
    yield Fact("wraps that cannot be placed", wraps)
    if quality.rate_ppm is not None and not clock.emulated:
        low, high = quality.rate_ppm
        yield Fact("rate against the declared one", f"{low:+,.1f} to {high:+,.1f} ppm")
    yield Fact("epochs", "; ".join(map(printable, quality.epochs)) or "none")


def output_facts(subject: Subject | None, result: Result | None) -> list[View]:
    """The outputs of the last execution, in order; of a sequence those of each step."""
    off: dict[str, str] = {}
    for output in () if subject is None else subject.outputs:
        if output.value.shape != output.reference.shape:
            off[output.name] = f"the reference has shape {shape_text(output.reference.shape)}"
        elif output.value.dtype != output.reference.dtype:
            types = f"it is {output.value.dtype}, the reference is {output.reference.dtype}"
            off[output.name] = printable(types)
        elif not output.value.size:
            off[output.name] = "both are empty"
        else:
            off[output.name] = f"{number(output.largest_difference)} at most"
    off = {name.rpartition(": ")[2]: text for name, text in off.items()}
    if result is None or result.model is None:
        unknown = {"type": "", "shape": "", "nbytes": 0}
        return [{"name": printable(name), **unknown, "off": text} for name, text in off.items()]
    return [
        {
            "name": printable(tensor.file),
            "type": type_name(tensor.scalar_type),
            "shape": shape_text(tensor.sizes),
            "nbytes": tensor.nbytes,
            "off": off.get(tensor.file, "no reference"),
        }
        for step in result.steps or (result.model,)
        for tensor in step.outputs
    ]


_ROOM = 1.6
"""Factor that the picture reaches beyond what is in it."""


def roofline_curve(table: RooflineTable | None, limits: Limits) -> Curve | None:
    """Draw a roofline; None without operators that multiply.

    Others have no place on a logarithmic scale.
    """
    placed = [item for item in table.rows[: limits.rows] if item[1].macs] if table else []
    if table is None or not placed:
        return None
    core = table.core
    points = [point for _, point in placed]
    ridge = core.macs_per_cycle / core.bytes_per_cycle
    along = _axis([ridge, *(point.intensity for point in points)])
    up = _axis([core.macs_per_cycle, *(point.macs_per_cycle for point in points)])
    # The slanted part of the roof begins where it enters the picture.
    left = max(along.low, up.low - math.log10(core.bytes_per_cycle))
    peak = SIZE - up.at(math.log10(core.macs_per_cycle))
    start = SIZE - up.at(left + math.log10(core.bytes_per_cycle))
    roof = [(along.at(left), start), (along.at(math.log10(ridge)), peak), (SIZE, peak)]
    bounds = [point.bound for point in points]
    counts = ", ".join(f"{bounds.count(bound)} by {bound}" for bound in dict.fromkeys(bounds))
    summary = f"{counted(len(placed), 'operator')} below a roof of "
    summary += f"{number(core.macs_per_cycle)} MACs per cycle"
    return Curve(
        title="MACs per cycle over MACs per byte of tensors",
        summary=f"Roofline: {summary}; bound {counts}",
        line=line(roof),
        area="",
        marks=tuple(_mark(operator, point, along, up) for operator, point in placed),
        scale=tuple(Tick(100 - up.at(place) / 10, text) for place, text in _ticks(up)),
        base=tuple(Tick(along.at(place) / 10, text) for place, text in _ticks(along)),
    )


def _axis(values: Iterable[float]) -> Axis:
    """A logarithmic axis that holds positive values with room on both sides."""
    found = [math.log10(value) for value in values]
    return Axis(min(found) - math.log10(_ROOM), max(found) + math.log10(_ROOM))


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    """Places and texts of powers of ten, of 1, 2 and 5 times them where these are few."""
    exponents = range(math.floor(axis.low) - 1, math.ceil(axis.high) + 1)
    wide = axis.high - axis.low > 2
    values = [n * 10.0**e for e in exponents for n in ((1,) if wide else (1, 2, 5))]
    places = [(math.log10(value), f"{value:g}") for value in values]
    return [(place, text) for place, text in places if axis.low <= place <= axis.high]


def _mark(operator: Operator, point: RooflinePoint, along: Axis, up: Axis) -> Mark:
    text = (
        f"{brief(operator_name(operator))}, instruction {instruction_text(operator)}: "
        f"{point.macs_per_cycle:.3f} MACs per cycle, {point.intensity:.2f} MACs per byte, "
        f"{100 * point.share:.1f} % of the roof, bound by {point.bound}"
    )
    x, y = along.at(math.log10(point.intensity)), up.at(math.log10(point.macs_per_cycle))
    return Mark(x, SIZE - y, text, point.bound)


_MILLI: Final = 1e-3


def current_curve(run: RunDescription) -> Curve | None:
    """Draw the mean current of each part of an execution, with a dot at the largest sample.

    None if none was measured.
    """
    result = run.run.result
    found = result.energy.curve if result is not None and result.energy is not None else None
    if found is None:
        return None
    parts = len(found.average_amperes)
    along = Axis(0.0, found.seconds)  # without room: the execution ends where the picture does
    up = axis([*found.average_amperes, max(found.peak_amperes)], from_zero=True)
    centers = [(part + 0.5) * found.seconds / parts for part in range(parts)]
    points = [
        (along.at(at), SIZE - up.at(amperes))
        for at, amperes in zip(centers, found.average_amperes, strict=True)
    ]
    path = line(points)
    top = found.peak_amperes.index(max(found.peak_amperes))
    peak = f"peak {number(found.peak_amperes[top] / _MILLI)} mA"
    mean = f"average {number(sum(found.average_amperes) / parts / _MILLI)} mA"
    unit = time_unit([found.seconds * 1e9])
    return Curve(
        title=f"Current during an execution: {mean}, {peak}",
        summary=f"Current during an execution: {mean}, {peak}",
        line=path,
        area=f"{below(path, points[0][0])}",
        marks=(Mark(along.at(centers[top]), SIZE - up.at(found.peak_amperes[top]), peak, "peak"),),
        scale=up.scale(_MILLI, "mA"),
        base=along.base(unit.divisor / 1e9, unit.name),
    )


_FEW: Final = 5
"""Of fewer values none is an outlier."""

_FAR: Final = 3.0
"""An outlier is this many times the interquartile range above the third quartile,"""

_FARTHER: Final = 1.1
"""and this many times the median."""

_LEAST_SPAN: Final = 0.05
"""Share of the median that a strip spans at least, so that a tick does not fill it."""

_TOGETHER: Final = 0.001
"""Share of the median within which nothing could be seen in a strip."""

_PLACES: Final = 200
"""Places along a strip that are told apart."""

SHOWN: Final = 8
"""Operators that are shown at first."""

_LIBRARY: Final = "site-packages"
"""Directory of code that is not the model's own."""


def operators_view(
    table: OperatorListing,
    subject: Subject,
    numbers: BaselineNumbers,
    drawn: Collection[int],
    limits: Limits,
    top: int = SHOWN,
) -> View:
    """Prepare the operators of a run: operators, scopes around them, and events of loading.

    Args:
        table: All operators.
        subject: The run.
        numbers: Its baseline.
        drawn: Numbers of the executions whose timelines are drawn.
        limits: How many of each kind are shown.
        top: How many operators are shown at first.
    """
    writer = _Writer(subject, numbers, drawn, table)
    return {
        "operators": writer.group(table.operators, limits),
        "scopes": writer.group(table.scopes, limits),
        "loading": writer.group(table.loading, limits),
        "more_time": writer.together(table.operators[limits.rows :]),
        "folded": len(table.operators) - top,
        "folded_time": writer.together(table.operators[top:]),
        "at_first": top,
        "groups": [*writer.groups(table.operators, limits)],
    }


_MODEL: Final = "(model)"
"""The module of operators that are directly in the model."""

_STACK_LINE: Final = re.compile(r'File "([^"]*)", line (\d+), in (\S+)\n?([^\n]*)')
"""A line of a Python stack trace: file, line, function, code."""


class _Writer:
    """Prepares operators of one run."""

    def __init__(
        self,
        subject: Subject,
        numbers: BaselineNumbers,
        drawn: Collection[int],
        table: OperatorListing,
    ) -> None:
        trace = subject.trace
        self._subject = subject
        self._numbers = numbers
        self._drawn = drawn
        self._table = table
        self._counts = Counter(block.name for block in trace.blocks)
        self._known = ~unknown_durations(trace)
        self._ticks = durations(trace)
        self._nanoseconds = event_nanoseconds(trace, self._ticks)
        self._blocks = block_numbers(trace)
        found = executions(subject)
        self._execution = {item.block: item for item in (found.all if found else ())}

    def group(self, rows: Sequence[Operator], limits: Limits) -> View:
        shown = rows[: limits.rows]
        timed = [operator.ns.p90 for operator in shown if operator.ns is not None]
        unit = short_time_unit(max(timed)) if timed else TICKS
        views = [self._view(operator, unit) for operator in shown]
        return {
            "rows": views,
            "unit": unit,
            "more": left_out(len(rows), limits.rows),
            "compared": any(view["delta"] for view in views),
            "before": any(view["before"] for view in views),
            "modules": any(view["module"] or view["source"][0] for view in views),
            "several_blocks": len({operator.block for operator in shown}) > 1,
        }

    def _view(self, operator: Operator, unit: DisplayUnit) -> View:
        times = operator.times
        own, suffix = (unit, "") if operator.ns is not None or unit is TICKS else (TICKS, " ticks")
        change = self._numbers.change_of(operator)
        before = change.time.before if change is not None else None
        return {
            "operator": operator,
            "title": self._title(operator),
            "source": self._source(operator),
            "exact": self._exact(operator),
            "module": self._module(operator),
            **self._strip(operator, change.time.before if change else None),
            "before": "" if before is None else _three(before, own) + suffix,
            "before_value": before or 0,
            "median": UNKNOWN if times is None else _three(times.p50, own) + suffix,
            "p90": UNKNOWN if times is None else _three(times.p90, own) + suffix,
            "exact_median": self._table.text(operator, "p50"),
            "exact_p90": self._table.text(operator, "p90"),
            "share": share_text(operator.share),
            "delta": self._delta(operator, change),
        }

    def _delta(self, operator: Operator, change: OperatorChange | None) -> View | None:
        """The change of an operator: of the statistic that got worse or better, else its median."""
        found = self._numbers.of_operator(operator)
        if change is None or change.time.before is None:
            return found
        ratio = change.time.ratio or 1.0
        median = {"text": f"{signed(100 * ratio - 100)} %", "judgement": "same"}
        if found is None:
            return median | {"note": "difference of medians, not judged"}
        if not found["text"].endswith(")") or colour_of(change) != "d-same":
            return found
        return found | median | {"note": f"{found['text']} {found['note']}"}

    def together(self, operators: Sequence[Operator]) -> str:
        """What operators take in an execution, and their share of it, as far as it is known."""
        parts = []
        time, _ = self._sums(operators)
        shares = [operator.share for operator in operators if operator.share is not None]
        if time is not None:
            parts.append(time[0])
        if operators and len(shares) == len(operators):
            parts.append(f"{percent(sum(shares))} of the execution")
        return ", ".join(parts)

    def _sums(self, operators: Sequence[Operator]) -> tuple[tuple[str, float] | None, float | None]:
        """What operators take in an execution, as text and as a number, and their change."""
        times = [
            (op, op.times.p50 * len(op.rows) / self._counts[op.block])
            for op in operators
            if op.times
        ]
        timed = {op.ns is not None for op, _ in times}
        if len(times) < len(operators) or len(timed) != 1:
            return None, None
        now = sum(time for _, time in times)
        changes = [(self._numbers.change_of(op), time) for op, time in times]
        known = [time / c.time.ratio for c, time in changes if c is not None and c.time.ratio]
        change = None if len(known) < len(times) or not sum(known) else now / sum(known) - 1
        return (short_time(now if timed == {True} else None, now), now), change

    def groups(self, operators: Sequence[Operator], limits: Limits) -> Iterator[View]:
        """Yield operators by kind, and by module if an ETRecord has modules; the longest first."""
        kinds: dict[str, list[Operator]] = defaultdict(list)
        modules: dict[str, list[Operator]] = defaultdict(list)
        for operator in operators:
            kinds[self._kind(operator)].append(operator)
            if self._subject.symbols is not None:
                modules[self._module(operator)].append(operator)
        if len(kinds) < len(operators):
            yield self._grouped("kind", kinds, limits)
        if set(modules) - {"", _MODEL}:
            yield self._grouped("module", modules, limits)

    def _kind(self, operator: Operator) -> str:
        """The name of an operator without its place, such as ``conv2d``."""
        if operator.delegate_int == -1 and operator.delegate_str is None:
            place = operator.chain, operator.instruction
            if operator.name == DELEGATE_CALL:
                return brief(self._subject.backends.get(place, DELEGATE_CALL))
            return brief(operator_title(operator.name) or NO_NAME)
        return title_of(self._subject, operator, int(operator.rows[0])).partition(" [")[0]

    def _grouped(self, by: str, groups: Mapping[str, list[Operator]], limits: Limits) -> View:
        rows = [self._group(name, members, limits) for name, members in groups.items()]
        rows.sort(key=lambda row: (-row["value"], row["name"]))
        return {
            "by": by,
            "summary": f"By {by}: {counted(len(rows), by)}",
            "rows": rows[: limits.rows],
            "more": left_out(len(rows), limits.rows),
            "compared": any(row["change"] for row in rows),
        }

    def _group(self, name: str, members: Sequence[Operator], limits: Limits) -> View:
        time, change = self._sums(members)
        shares = [operator.share for operator in members if operator.share is not None]
        text, value = (UNKNOWN, 0.0) if time is None else time
        return {
            "name": name or "unknown",
            "count": len(members),
            "time": text,
            "value": value,
            "share": sum(shares) if len(shares) == len(members) else None,
            "change": "" if change is None else f"{signed(100 * change)} %",
            "change_value": change or 0,
            "members": [
                (self._title(operator), share_text(operator.share))
                for operator in members[: limits.rows]
            ],
            "more": left_out(len(members), limits.rows),
        }

    def _title(self, operator: Operator) -> str:
        return title_of(self._subject, operator, int(operator.rows[0]))

    def _source(self, operator: Operator) -> tuple[str, str]:
        """Where the model's code has an operator: file and line, and the line with its function.

        Of several lines the innermost that is not in an installed library.
        """
        symbols = self._subject.symbols
        found = symbols[int(operator.rows[0])] if symbols is not None else None
        lines = []
        for trace in found.stack_traces.values() if found is not None else ():
            places = _STACK_LINE.findall(trace or "")
            own = [place for place in places if _LIBRARY not in place[0]] or places
            lines += own[-1:]
        texts = dict.fromkeys(f"{PurePath(file).name}:{line}" for file, line, *_ in lines)
        about = dict.fromkeys(
            f"{file}:{line} in {function}: {code.strip()}" for file, line, function, code in lines
        )
        return brief(", ".join(texts)), "; ".join(about)

    def _exact(self, operator: Operator) -> str:
        """The name as logged, and all statistics with the digits that other reports show."""
        parts = [brief(operator_name(operator))]
        if operator.chain != -1:
            parts.append(f"instruction {operator.instruction}")
        words = {"p50": "median", "avg": "average"}
        names = ("p50", "avg", "p90", "min", "max", "total")
        texts = ", ".join(
            f"{words.get(name, name)} {self._table.text(operator, name)}" for name in names
        )
        statistics = f"{texts} {self._table.unit.name}"
        return " · ".join([*parts, f"count {len(operator.rows):,}", statistics])

    def _module(self, operator: Operator) -> str:
        symbols = self._subject.symbols
        found = symbols[int(operator.rows[0])] if symbols is not None else None
        if found is None or not found.module:
            return ""
        return brief(found.module[-1].path or _MODEL)

    def _strip(self, operator: Operator, before: float | None) -> View:
        """Draw the time of every repeat, and the median ``before``; name the one that stands out.

        ``execution`` is the number of its execution if the timeline of that is drawn, else 0.
        """
        found: View = {"strip": None, "outlier": "", "execution": 0, "alike": ""}
        timed = operator.ns is not None
        column = self._nanoseconds if timed else self._ticks.astype(np.float64)
        rows = operator.rows[self._known[operator.rows]]
        values = column[rows]
        times = operator.times
        if times is None or len(values) < 2:
            return found
        if values.min() == values.max():
            return found | {"alike": f"all {len(values):,} alike"}
        median = float(times.p50)
        if values.max() - values.min() < _TOGETHER * median:
            return found | {"alike": f"all {len(values):,} within {percent(_TOGETHER)}"}
        along = axis(values.tolist(), from_zero=False, least=_LEAST_SPAN * median)
        span = along.high - along.low
        if before is None or not along.low - span < before < along.high + span:
            before = None  # so far away that nothing would be seen of the repeats
        elif not along.low <= before <= along.high:
            along = axis([*values.tolist(), before], from_zero=False)
        top = int(np.argmax(values))
        if len(values) >= _FEW and values[top] > _FARTHER * median:
            third, first = np.percentile(values, [75, 25])
            if values[top] > third + _FAR * (third - first):
                found |= self._outlier(int(rows[top]), float(values[top]), timed)
        places = {round(along.percent(v) * _PLACES / 100) * 100 / _PLACES for v in values.tolist()}
        largest = along.percent(float(values[top])) if found["outlier"] else None
        earlier = None if before is None else along.percent(before)
        return found | {"strip": strip(places, along.percent(median), largest, earlier)}

    def _outlier(self, row: int, value: float, timed: bool) -> View:
        time = short_time(value if timed else None, value)
        execution = self._execution.get(int(self._blocks[row]))
        if execution is None:
            return {"outlier": f"longest: {time}"}
        number = execution.number
        cold = " (cold)" if execution.cold else ""
        drawn = number if number in self._drawn else 0
        return {"outlier": f"execution {number:,}{cold}: {time}", "execution": drawn}


def _three(value: float, unit: DisplayUnit) -> str:
    return three_digits(value / unit.divisor)


_CLOSE = 2.0
"""A passed check within this factor of its limit is worth a word."""

_SLIGHT = 0.001
"""A smaller share is not worth a number."""

_COMMIT = 8
"""Characters of a commit."""


def _closest(run: RunDescription) -> Check | None:
    """Of a run that passed the limit of its budget that is closest, if it is close."""
    if run.failure is not None or run.verdict.failed:
        return None
    limited = [row for row in run.verdict.passed if row.code.startswith("B") and row.limit]
    close = min(limited, key=lambda row: row.excess, default=None)
    return close if close is not None and close.excess <= _CLOSE else None


def beyond_limit(check: Check) -> str:
    """By how much a measured value is off its limit, in per cent; empty for a limit of about 0."""
    if not check.limit or check.measured is None:
        return ""
    off = 100 * (check.measured / check.limit - 1)
    if not math.isfinite(off):
        return ""
    return f"{'-' if off < 0 else '+'}{three_digits(abs(off))} %"


def _tiles(run: RunDescription, numbers: BaselineNumbers) -> Iterator[View]:
    """Yield the numbers to read first.

    ``exact`` is the value with all digits, ``more`` what stands below it in small print. ``delta``
    is the change against the baseline and ``trend`` the last values as a line, None where these are
    unknown. Outputs that nothing is compared with have no tile.
    """
    subject = run.run.subject
    if subject is None:
        return
    rows = run.operators.operators if run.operators is not None else ()
    yield _execution(subject, numbers)
    yield _memory(run, subject, numbers)
    yield _slowest(subject, rows[0], numbers) if rows else _unknown("slowest operator", "operator")
    if subject.outputs:
        yield _outputs(subject)


def _unknown(label: str, what: str) -> View:
    return _incomparable(label, "unknown", "", f"no {what} was logged")


def _incomparable(label: str, value: str, exact: str, more: str) -> View:
    unknown = {"delta": None, "trend": None}
    return {"label": label, "value": value, "exact": exact, "more": more, **unknown}


def _execution(subject: Subject, numbers: BaselineNumbers) -> View:
    label = "median execution"
    found = next((op for op in subject.operators if op.name == EXECUTION), None)
    if found is None or found.times is None:
        return _unknown(label, "execution")
    p50, p90 = found.times.p50, found.times.p90
    timed = found.ns is not None
    return {
        "label": label,
        "value": short_time(p50 if timed else None, p50),
        "exact": one_time(p50 if timed else None, p50),
        "more": f"p90 {short_time(p90 if timed else None, p90)}",
        **_compared(found, numbers),
    }


def _compared(operator: Operator, numbers: BaselineNumbers) -> View:
    delta, trend = numbers.of_operator(operator), numbers.trend(operator)
    return {"delta": delta, "trend": trend}


def _memory(run: RunDescription, subject: Subject, numbers: BaselineNumbers) -> View:
    label = "peak memory"
    if run.untold or not subject.memory.allocators:
        return _unknown(label, "allocator")
    peak, arena = subject.memory.peak, subject.arena_capacity
    unit = bytes_unit([peak])
    more = "size of the arena unknown"
    if arena:
        room = bytes_unit([arena])
        size = f"{three_digits(arena / room.divisor)} {room.name}"
        more = f"{percent(peak / arena)} of the arena, {size}"
    return {
        "label": label,
        "value": f"{three_digits(peak / unit.divisor)} {unit.name}",
        "exact": f"{peak:,} bytes" + (f" of {arena:,} bytes" if arena else ""),
        "more": more,
        "delta": numbers.allocators,
        "trend": numbers.allocator_trend(sum(row.totals.peak_bytes for row in run.allocators)),
    }


def _slowest(subject: Subject, operator: Operator, numbers: BaselineNumbers) -> View:
    label, times = "slowest operator", operator.times
    if times is None:
        return _unknown(label, "operator")
    timed = operator.ns is not None
    share = "" if operator.share is None else f", {percent(operator.share)} of the time"
    median = one_time(times.p50 if timed else None, times.p50)
    return {
        "label": label,
        "value": brief(title_of(subject, operator, int(operator.rows[0])), 60),
        "exact": f"{operator_name(operator)}, median {median}",
        "more": short_time(times.p50 if timed else None, times.p50) + share,
        **_compared(operator, numbers),
    }


def _outputs(subject: Subject) -> View:
    label = "output error"
    found = [output.largest_difference for output in subject.outputs]
    known = [value for value in found if value is not None]
    of = f"{counted(len(found), 'output')} against the reference"
    if len(known) < len(found):
        return _incomparable(label, "differs in shape", "", of)
    largest = float(np.max(known))
    text = "0" if largest == 0 else f"{largest:.3g}"
    return _incomparable(label, text, f"{largest!r} at most", f"largest of {of}")


def _trust(run: RunDescription, tiles: Sequence[View]) -> Iterator[tuple[str, bool]]:
    """Yield what a reader should know before relying on the numbers, and whether it is good."""
    result, subject = run.run.result, run.run.subject
    if result is not None:
        done, wanted = result.runs_completed, result.runs_requested
        yield f"{done:,} of {counted(wanted, 'execution')}", done >= wanted
    counts = [item for item in run.losses if item.count and item.kind == "lost"]
    lost = [f"{item.count:,} {item.unit}" for item in counts if item.unit != "executions"]
    yield f"{', '.join(lost)} lost" if lost else "nothing lost", not lost
    if subject is not None:
        if not any(tile["delta"] for tile in tiles):
            yield "no baseline", True
        if not subject.outputs:
            yield "outputs not compared", True
        yield from _clock(subject)
        yield from _tracing(subject)
    if run.kernels:
        yield brief(run.kernels), True
    yield from _versions(result)


def _clock(subject: Subject) -> Iterator[tuple[str, bool]]:
    if subject.emulated_time:
        yield "emulated time", True
    elif subject.qualities:
        quality = subject.qualities[0]
        if quality.half_width_ns is None:
            yield "clock not placed on the host's", False
        else:
            yield f"clock ±{short_time(quality.half_width_ns)}", True


def _tracing(subject: Subject) -> Iterator[tuple[str, bool]]:
    """What logging its events adds to an execution, by the cost of an empty event."""
    found = executions(subject)
    if found is None or subject.probe is None:
        return
    median, trace = found.median, subject.trace
    block = trace.blocks[median.block]
    kinds = trace.kind[block.first : block.first + block.count]
    events = int(np.count_nonzero(kinds == Kind.PROFILE))
    ticks = int(trace.end[median.row]) - int(trace.start[median.row])
    if ticks > 0:
        cost = events * float(subject.probe) / ticks
        text = percent(cost) if cost >= _SLIGHT else f"under {percent(_SLIGHT)}"
        yield f"tracing {text} of an execution", True


def _versions(result: Result | None) -> Iterator[tuple[str, bool]]:
    if result is None:
        return
    if result.target is not None:
        yield f"firmware {brief(result.target.build_id, 16)}", True
    commit = result.commit[:_COMMIT]
    yield f"commit {brief(commit)}" if commit else "commit unknown", True


def _difference(
    subject: Subject, changes: Sequence[OperatorChange], numbers: BaselineNumbers, limits: Limits
) -> View | None:
    """Draw the median execution by what became of each part since the baseline."""
    found = difference_view(changes, limits, partial(title_of, subject))
    return None if found is None else found | {"beside": numbers.earlier_name}


def run_view(run: RunDescription, index: int, limits: Limits, top: int = SHOWN) -> View:
    """Return what a page shows of a run, the ``index``-th of it, with ``top`` operators at first.

    Pictures and tables are None where the run has no numbers for them.
    """
    anchor, model = f"run-{index + 1}", run.model.replace(".pte", "", 1)
    title = brief(f"{model} on {run.board}" if model and run.board else run.board or run.title)
    result, subject, verdict = run.run.result, run.run.subject, run.verdict
    nested = None if run.untold else subject
    numbers, closest = BaselineNumbers(run.run), _closest(run)
    changes = numbers.changes(subject) if subject else []
    timeline = timeline_view(nested, changes, numbers.earlier_name, limits) if nested else None
    operators = None
    if run.operators is not None and subject is not None:
        drawn = timeline["numbers"] if timeline is not None else ()
        operators = operators_view(run.operators, subject, numbers, drawn, limits, top)
    tiles = [*_tiles(run, numbers)]
    counts = Counter(row.outcome for row in verdict.warned)
    texts = [counted(count, outcome) for outcome, count in counts.items()]
    codes = sorted({row.code for row in verdict.warned})
    worst = (*verdict.failed, *verdict.warned)[: limits.rows]
    shown = (*([closest] if closest else ()), *worst, *verdict.checks[: limits.checks])
    missing = [item for item in run.losses if item.count and item.kind != "harmless"]
    return {
        "run": run,
        "limits": limits,
        "anchor": anchor,  # prefix of the ids of its elements
        "title": title,
        "label": f"run {index + 1}, {title}",  # unique on the page
        "closest": closest,
        "warned": f"{', '.join(texts)}: {', '.join(codes)}",
        "codes": [row.code for row in shown],
        "tiles": tiles,
        "trust": [*_trust(run, tiles)],
        "timeline": timeline,
        "operators": operators,
        "roofline": roofline_curve(run.roofline, limits),
        "history": history_view(run, numbers, limits),
        "difference": _difference(nested, changes, numbers, limits) if nested else None,
        "icicles": icicles(nested, merged_tree(nested.tree, typical=True), limits)
        if nested
        else [],
        "memory": memory_view(nested, run.allocators, limits) if nested else None,
        "plan": plan_view(run, anchor, limits),
        "current": current_curve(run),
        "losses": missing,
        "no_losses": [item for item in run.losses if item not in missing],
        "link": "" if result is None else link_line(result.link)[1],
        "link_facts": [*_link_facts(result)],
        "clocks": _clock_facts(subject),
        "outputs": output_facts(subject, result),
    }
