"""Events with the attributes that ExecuTorch's Inspector gives them, and the table of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.converters import Convert, delegate_times
from harness.analyze.ticks import default_jitter, forward, signed_steps, to_nanoseconds, unwrap
from harness.errors import FormatError
from harness.plugins import require
from harness.records.trace import ClockDomain, DebugValue, Kind, TensorValue, Trace, tensor_array

MetadataParser = Callable[[list[bytes]], list[str] | dict[str, Any]]
"""Parses the metadata of an event's repeats."""

ProgramOutput = list[Any]
"""Values that a program or an instruction returned: tensors, lists of tensors, numbers."""


@dataclass
class Event:
    """All repeats of one event in the runs of a block.

    The attributes up to ``raw_delegate_debug_metadatas`` are those of ExecuTorch's class; the
    others are additional.

    Attributes:
        name: Its name; of a delegate's event, its id as text.
        perf_data: What the repeats took; None for values without a profile event.
        op_types: Operators of the model behind it.
        delegate_debug_identifier: Its id in the delegate; None outside.
        debug_handles: Debug handles of these operators: one, several, or None.
        num_outputs: Outputs of its instruction.
        stack_traces: Where each operator comes from, by its name in the graph.
        module_hierarchy: The modules around each operator.
        is_delegated_op: True within a delegate.
        delegate_backend_name: Name of the delegate's backend.
        debug_data: What its instruction logged in the first run.
        start_time: The counter's reading at the start of each repeat, in raw ticks.
        raw_delegate_debug_metadatas: Metadata of each repeat; empty when none has any.
        chain_index: The chain of its instruction, -1 outside of instructions.
        scaled_start_time: When each repeat began, in the block's target time scale; goes on where
            the counter wraps.
        rows: Rows of the repeats in the trace.
        debug_data_per_run: What its instruction logged, run by run.
    """

    name: str
    perf_data: PerfData | None = None
    op_types: list[str] = field(default_factory=list)
    delegate_debug_identifier: int | str | None = None
    debug_handles: int | Sequence[int] | None = None
    num_outputs: int = 1
    stack_traces: dict[str, str | None] = field(default_factory=dict)
    module_hierarchy: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    is_delegated_op: bool | None = None
    delegate_backend_name: str | None = None
    debug_data: ProgramOutput = field(default_factory=list)
    start_time: list[int] | None = None
    raw_delegate_debug_metadatas: list[bytes] = field(default_factory=list)
    chain_index: int = -1
    rows: list[int] = field(default_factory=list, compare=False, repr=False)
    debug_data_per_run: list[ProgramOutput] = field(default_factory=list, compare=False, repr=False)
    _instruction_id: int | None = None
    _delegate_metadata_parser: MetadataParser | None = field(default=None, compare=False)
    _scaled_starts: Callable[[list[int]], list[int | float]] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def scaled_start_time(self) -> list[int | float] | None:
        """See above; None for values without a profile event."""
        if self.start_time is None or self._scaled_starts is None:
            return None
        return self._scaled_starts(self.rows)

    @cached_property
    def delegate_debug_metadatas(self) -> list[bytes] | list[str] | dict[str, Any]:
        """The parsed metadata, or the raw metadata without a parser."""
        if not self.is_delegated_op or self._delegate_metadata_parser is None:
            return self.raw_delegate_debug_metadatas
        return self._delegate_metadata_parser(self.raw_delegate_debug_metadatas)

    def asdict(self, _units: str = "") -> dict[str, Any]:
        """Return a row of a table, by column name."""
        perf = self.perf_data
        return {
            "event_name": self.name,
            "raw": [perf.raw if perf else None],
            **{f"{key}{_units}": getattr(perf, key) if perf else None for key in STATISTICS},
            "op_types": [shown_op_types(self.op_types)],
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "stack_traces": [self.stack_traces],
            "module_hierarchy": [self.module_hierarchy],
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": [self.debug_data],
            "start_time": [self.start_time],
        }

    def to_dataframe(self, _units: str = "") -> Any:
        """Return a pandas DataFrame with one row."""
        return EventColumns.of([self]).frame(_units)


Floats = npt.NDArray[np.float64]


class TimeScale(Enum):
    """A unit of time; cycles cannot be converted to other units."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


def time_scale_of(given: Enum | str) -> TimeScale:
    """Return the scale with the value of another enumeration's member, such as ExecuTorch's.

    Raises:
        ValueError: There is no such scale.
    """
    value = given.value if isinstance(given, Enum) else given
    try:
        return TimeScale(value)
    except ValueError:
        known = ", ".join(scale.value for scale in TimeScale)
        raise ValueError(f"unknown time scale {given!r}: use {known}") from None


PER_SECOND: Final[dict[TimeScale, int]] = {
    TimeScale.NS: 1_000_000_000,
    TimeScale.US: 1_000_000,
    TimeScale.MS: 1_000,
    TimeScale.S: 1,
    TimeScale.CYCLES: 1,
}
"""Number per second; 1 for cycles."""


def scale_between(source: TimeScale, target: TimeScale) -> Fraction:
    """Return the number of ``source`` units per ``target`` unit.

    Raises:
        RuntimeError: Only one of them is cycles.
    """
    if (source is TimeScale.CYCLES) != (target is TimeScale.CYCLES):
        raise RuntimeError("cycles have no length: source and target scale must both be cycles")
    return Fraction(PER_SECOND[source], PER_SECOND[target])


@dataclass
class PerfData:
    """Durations of an event, one per repeat, in the target time scale."""

    raw: list[float]

    @property
    def p10(self) -> float:
        """10th percentile."""
        return float(np.percentile(self.raw, 10))

    @property
    def p50(self) -> float:
        """Median."""
        return float(np.percentile(self.raw, 50))

    @property
    def p90(self) -> float:
        """90th percentile."""
        return float(np.percentile(self.raw, 90))

    @property
    def avg(self) -> float:
        """Mean."""
        return float(np.mean(self.raw))

    @property
    def min(self) -> float:
        """Shortest."""
        return min(self.raw)

    @property
    def max(self) -> float:
        """Longest."""
        return max(self.raw)


STATISTICS: Final = ("p10", "p50", "p90", "avg", "min", "max")


def statistics(durations: Floats, starts: npt.NDArray[np.int64]) -> Floats:
    """Return ``STATISTICS`` of many events at once, shape (n, 6); NaN without durations.

    Args:
        durations: Durations of all events, one event after the other.
        starts: Index of the first duration of each event, and the end, shape (n + 1,).
    """
    counts = np.diff(starts)
    found = np.full((len(counts), len(STATISTICS)), np.nan)
    for count in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == count)
        if len(rows) == len(counts):
            values = durations[starts[0] : starts[-1]].reshape(-1, count)
        else:
            values = durations[starts[rows][:, None] + np.arange(count)]
        if count == 1:
            found[rows] = values
            continue
        ascending = np.sort(values, axis=1)
        found[rows, :3] = _percentiles(ascending, (10, 50, 90))
        found[rows, 3] = values.mean(axis=1)  # in log order, as a sum depends on the order
        found[rows, 4] = ascending[:, 0]
        found[rows, 5] = ascending[:, -1]
    return found


def _percentiles(ascending: Floats, shares: tuple[int, ...]) -> Floats:
    """Return percentiles of sorted rows, shape (rows, shares), bit by bit as ``np.percentile``.

    Sorting takes half as long as the partitions of ``np.percentile``, and gives the extremes, too.
    """
    positions = np.array(shares) / 100 * (ascending.shape[1] - 1)
    below = np.floor(positions).astype(np.int64)
    share = positions - below
    low, high = ascending[:, below], ascending[:, np.minimum(below + 1, ascending.shape[1] - 1)]
    step = high - low
    # NumPy interpolates from the nearer end.
    found: Floats = np.where(share < 0.5, low + step * share, high - step * (1 - share))
    return found


class Times:
    """Durations and starts of events. One entry per row of the trace.

    Attributes:
        durations: In the target scale, float64; exact to the last bit if the clock rate is known.
            Negative for events that end slightly before they start.
        backward: Number of events that end before they start.
    """

    def __init__(self, trace: Trace, target: TimeScale, converter: Convert | None = None) -> None:
        """Convert the durations of all events; starts follow on first use.

        Args:
            trace: A trace with known clock rates, unless the target is cycles.
            target: Target time scale.
            converter: Converts times of delegate events instead of their clock's rate; takes the
                delegate's debug id as text and a time, as in ``harness.analyze.converters``.

        Raises:
            ValueError: The rate of a clock is unknown and the target is not cycles.
            FormatError: An event is longer than 2**62 ticks.
        """
        self._trace, self._target = trace, target
        self.durations, self.backward = np.zeros(len(trace)), 0
        for _, domain, rows in self._profiles():
            ticks = forward(domain, trace.start[rows], trace.end[rows])
            steps = signed_steps(domain, ticks, default_jitter(domain))
            self.durations[rows] = _scaled(np.abs(steps), domain, target) * np.sign(steps)
            self.backward += int(np.count_nonzero(steps < 0))
        self._converted: dict[int, float] = {}
        if converter is not None:
            delegated = np.flatnonzero((trace.kind == Kind.PROFILE) & trace.delegated)
            for row, (name, start, end) in zip(
                delegated.tolist(), delegate_times(trace, delegated), strict=True
            ):
                began = converter(name, start)
                self.durations[row] = float(converter(name, end) - began)
                self._converted[row] = float(began)

    @cached_property
    def starts(self) -> npt.NDArray[np.float64] | npt.NDArray[np.uint64]:
        """Starts on the unwrapped counter, in the target scale; exact ticks if it has their unit.

        Raises:
            FormatError: The events span more than 2**62 ticks.
        """
        timeline = unwrap(self._trace)
        ticks, scaled = timeline.start.astype(np.uint64), np.zeros(len(self._trace))
        exact = not self._converted
        for number, domain, rows in self._profiles():
            if not domain.down:
                ticks[rows] += np.uint64(timeline.origins[number] or 0)
            scaled[rows] = _scaled(ticks[rows], domain, self._target)
            exact &= self._target is TimeScale.CYCLES or domain.hz == PER_SECOND[self._target]
        scaled[[*self._converted]] = [*self._converted.values()]
        return ticks if exact else scaled

    def _profiles(self) -> Iterator[tuple[int, ClockDomain, npt.NDArray[np.int64]]]:
        """Yield number, domain and rows of the profile events of each clock."""
        profile = self._trace.kind == Kind.PROFILE
        for number, domain in enumerate(self._trace.clocks):
            rows = np.flatnonzero((self._trace.clock == number) & profile)
            if len(rows):
                yield number, domain, rows


def of_readings(trace: Trace, hz: Fraction, bits: int | None = None) -> Trace:
    """Return the trace on a counter of rate ``hz`` and, unless given, a width by its readings.

    A counter with all readings below 2**32 counts as 32 bits wide, because the log has no better
    evidence. Delegates may use another counter than ExecuTorch or, like XNNPACK, add to a reading
    in 64 bits, so their events get a clock of their own; it has ``bits`` if all of them fit.
    """
    largest = np.maximum(trace.start, trace.end)
    clocks = []
    for name, delegated in (("given", False), ("delegates", True)):
        used = int(largest.max(initial=0, where=trace.delegated == delegated)).bit_length()
        width = 32 if used <= 32 else 64
        clocks.append(ClockDomain(name, hz, bits if bits is not None and used <= bits else width))
    numbers = np.where(trace.clock == 0, trace.delegated, trace.clock).astype(np.uint8)
    return replace(trace, clocks=tuple(clocks), clock=numbers).sealed()


def _scaled(
    ticks: npt.NDArray[np.int64] | npt.NDArray[np.uint64], domain: ClockDomain, target: TimeScale
) -> npt.NDArray[np.float64]:
    if target is TimeScale.CYCLES:
        return ticks.astype(np.float64)
    if domain.hz is None:
        raise ValueError(
            f"clock {domain.name!r}: the rate is unknown; give source_time_scale, or use cycles"
        )
    # Nanoseconds of a clock that is as much faster are units of this one.
    faster = replace(domain, hz=domain.hz * scale_between(TimeScale.NS, target))
    return to_nanoseconds(ticks, faster)


_SHOWN_OP_TYPES: Final = 4


def encodable(name: str) -> str:
    """Return a name with invalid UTF-8 bytes escaped, so that tables can be written."""
    return name.encode("utf-8", "backslashreplace").decode()


def shown_op_types(names: list[str]) -> list[str] | str:
    """Abbreviate long lists of names like ExecuTorch's tables."""
    if len(names) <= _SHOWN_OP_TYPES:
        return names
    return f"['{names[0]}', '{names[1]}' ... '{names[-1]}'] ({len(names)} total)"


def _raw(event: Event) -> list[float] | None:
    return event.perf_data.raw if event.perf_data else None


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause garbage collection while a table is made.

    Its cells are new lists and dicts, several per event, and none of them is garbage. Searching
    them again and again takes longer than making them.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


CELLS: Final[Mapping[str, Callable[[Event], Any]]] = {
    "event_name": lambda event: encodable(event.name),
    "raw": _raw,
    "op_types": lambda event: shown_op_types(event.op_types),
    "delegate_debug_identifier": lambda event: event.delegate_debug_identifier,
    "stack_traces": lambda event: event.stack_traces,
    "module_hierarchy": lambda event: event.module_hierarchy,
    "is_delegated_op": lambda event: event.is_delegated_op,
    "delegate_backend_name": lambda event: event.delegate_backend_name,
    "debug_data": lambda event: event.debug_data,
    "start_time": lambda event: event.start_time,
}
"""Every column but the statistics, which stand behind ``raw``, with its cell of an event."""

_INFERRED: Final = ("event_name", "is_delegated_op")
"""Columns of which pandas finds the type; the others hold objects."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns of some events.

    Attributes:
        cells: A list per column of ``CELLS``.
        statistics: ``STATISTICS`` of every event, shape (n, 6); NaN without durations.
    """

    cells: dict[str, list[Any]]
    statistics: Floats

    @classmethod
    def of(cls, events: Sequence[Event]) -> EventColumns:
        """Return the columns of single events."""
        cells = {name: [cell(event) for event in events] for name, cell in CELLS.items()}
        return cls(cells, _statistics(events))

    def put(self, rows: Sequence[int], events: Sequence[Event]) -> None:
        """Replace rows by those of single events."""
        for name, cell in CELLS.items():
            column = self.cells[name]
            for row, event in zip(rows, events, strict=True):
                column[row] = cell(event)
        self.statistics[list(rows)] = _statistics(events)

    def frame(self, units: str, block: str | None = None) -> Any:
        """Return a pandas DataFrame with a row per event.

        Args:
            units: Suffix of the headers of statistics.
            block: Name of the block, for a first column with it.
        """
        raw, cells = self.cells["raw"], self.cells
        columns: dict[str, Any] = {}
        if block is not None:
            columns["event_block_name"] = [encodable(block)] * len(raw)
        for name, column in cells.items():
            columns[name] = column if name in _INFERRED else _objects(column)
            if name == "raw":
                columns |= self._statistics_columns(units, complete=None not in raw)
        return pandas().DataFrame(columns)

    def _statistics_columns(self, units: str, *, complete: bool) -> dict[str, Any]:
        columns = dict(zip([key + units for key in STATISTICS], self.statistics.T, strict=True))
        if complete:
            return columns
        known = [raw is not None for raw in self.cells["raw"]]
        return {
            key: np.where(known, column.astype(object), None) for key, column in columns.items()
        }


def _statistics(events: Iterable[Event]) -> Floats:
    raws = [_raw(event) or [] for event in events]
    starts = np.cumsum([0, *map(len, raws)])
    return statistics(np.array([time for raw in raws for time in raw], np.float64), starts)


def pandas() -> Any:
    """Return pandas, imported on first use.

    Raises:
        UsageError: pandas is not installed.
    """
    (module,) = require("inspector", "a table of events", "pandas")
    return module


def _objects(items: Sequence[Any]) -> Any:
    """Return a column of objects, including lists and None, whatever type pandas would infer."""
    return pandas().Series(np.fromiter(items, object, len(items)), dtype=object)


def with_metadata(frame: Any, metadata: Sequence[Any]) -> Any:
    """Append the delegates' metadata: one column, or the columns of the parser.

    Raises:
        ValueError: A parser returned neither a list nor a dict.
    """
    rows: list[dict[Any, Any]] = []
    for found in metadata:
        if not isinstance(found, list | dict):
            raise ValueError(
                f"delegate_metadata_parser returned {type(found).__name__}, not a list or dict"
            )
        listed = {"delegate_debug_metadata": found} if found else {}
        rows.append(found if isinstance(found, dict) else listed)
    if not any(rows):
        return frame
    return pandas().concat([frame, pandas().DataFrame(rows)], axis=1)


Tensors = Callable[[np.ndarray], Any]
"""Makes a tensor from an array."""


def tensor_maker(kind: str | None) -> Tensors:
    """Return the function that makes tensors: ``"torch"``, ``"numpy"``, or None for the default.

    By default a program that has imported torch gets torch tensors, as from ExecuTorch; others get
    arrays.
    """
    if kind is None:
        kind = "torch" if "torch" in sys.modules else "numpy"
    if kind == "numpy":
        return lambda array: array
    if kind != "torch":
        raise ValueError(f"tensors must be 'torch' or 'numpy', not {kind!r}")
    from harness.plugins import require

    (torch,) = require("oracle", "tensors='torch'", "torch")
    return lambda array: torch.from_numpy(np.array(array))


class LoggedValues:
    """Inflates values."""

    def __init__(self, debug_buffer: bytes | None, tensors: Tensors) -> None:
        """Read elements from ``debug_buffer``, None without one."""
        self._buffer = debug_buffer
        self._tensors = tensors

    def missing(self, values: Iterable[DebugValue]) -> int:
        """Return the number of tensors without elements."""
        contents = (value.value for value in values)
        lists = (item if isinstance(item, tuple) else (item,) for item in contents)
        tensors = (item for items in lists for item in items if isinstance(item, TensorValue))
        return sum(self._array(tensor) is None for tensor in tensors)

    def inflate(self, value: DebugValue) -> Any:
        """Return the value; a tensor without elements stays a ``TensorValue`` with its sizes."""
        content = value.value
        if isinstance(content, TensorValue):
            return self._tensor(content)
        if isinstance(content, tuple):
            return [self._tensor(tensor) for tensor in content]
        return content

    def _tensor(self, tensor: TensorValue) -> Any:
        array = self._array(tensor)
        return tensor if array is None else self._tensors(array)

    def _array(self, tensor: TensorValue) -> np.ndarray | None:
        if self._buffer is None:
            return None
        try:
            return tensor_array(tensor, self._buffer)
        except FormatError:
            return None
