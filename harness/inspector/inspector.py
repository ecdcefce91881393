"""Inspector: a drop-in for ExecuTorch's class, on our reader and analyses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from harness.analyze.converters import Convert
from harness.analyze.symbols import SymbolTable, event_symbols, module_times, time_of_module
from harness.inspector.blocks import BlockMaker, add_symbols
from harness.inspector.event import EventBlock, MetadataParser, pandas
from harness.inspector.event_times import (
    PER_SECOND,
    Times,
    TimeScale,
    event_times,
    of_readings,
    scale_between,
)
from harness.inspector.record import EDGE_GRAPH, InspectorRecord
from harness.inspector.values import LoggedValues, tensor_maker
from harness.records.clock_domain import HOST_NANOSECONDS
from harness.records.trace import OPERATOR_CALL, Trace
from harness.runs.source import Source, load_source, on_scales

if TYPE_CHECKING:
    from harness.inspector.comparators import NumericalComparatorBase

_HIDDEN_COLUMNS: Final = (
    "raw",
    "delegate_debug_identifier",
    "stack_traces",
    "module_hierarchy",
    "debug_data",
)

GIVEN: Final = "given"
"""Name of a clock for which only the rate is known, given by the user."""


@dataclass(frozen=True, slots=True)
class GivenTrace:
    """A trace with rates for all clocks, and its debug buffer."""

    trace: Trace
    debug_buffer: bytes | None


class Inspector:
    """Performance, values and symbols of a trace.

    Constructor, attributes and methods are those of ``executorch.devtools.Inspector``;
    ``docs/differences.md`` lists the differences. It also reads device logs and run directories,
    and needs neither torch nor flatc.

        inspector = Inspector("trace.etdp", etrecord="etrecord.bin")
        inspector.print_data_tabular()

    Attributes:
        event_blocks: One block per group of runs with the same events.
        trace: All events in log order.
        method: The executed method, "" without an ETRecord.
    """

    def __init__(
        self,
        etdump_path: str | Path | None = None,
        etdump_data: bytes | Source | None = None,
        etrecord: Any = None,
        source_time_scale: TimeScale = TimeScale.NS,
        target_time_scale: TimeScale = TimeScale.MS,
        debug_buffer_path: str | Path | None = None,
        delegate_metadata_parser: MetadataParser | None = None,
        delegate_time_scale_converter: Convert | None = None,
        enable_module_hierarchy: bool = False,  # noqa: ARG002
        reference_graph_name: str = EDGE_GRAPH,
        *,
        method: str | None = None,
        tensors: str | None = None,
        bundled_input_index: int | None = None,
    ) -> None:
        """Read a trace and, if one is given, the ETRecord of its model.

        Args:
            etdump_path: A file of ED00 dumps, a device log, a console capture or a run directory.
            etdump_data: The bytes of such a file, or the result of ``load_source``.
            etrecord: Path of an ETRecord, or ExecuTorch's ETRecord object.
            source_time_scale: Tick unit for files that do not record one.
            target_time_scale: The unit of all times.
            debug_buffer_path: File with the elements of logged tensors; found automatically in a
                run directory.
            delegate_metadata_parser: Parses the metadata of the repeats of a delegate's event.
            delegate_time_scale_converter: Converts times of delegate events; takes the event's id,
                an integer or text, and the time.
            enable_module_hierarchy: Ignored; modules are always available.
            reference_graph_name: The graph of the ETRecord with the displayed operators.
            method: The executed method, if the ETRecord has several.
            tensors: Type of tensors, ``"torch"`` or ``"numpy"``; by default torch for a program
                that has imported torch.
            bundled_input_index: Test case of the ETRecord that ran, for files that do not record
                it, such as those of ETDumpGen.

        Raises:
            ValueError: Not exactly one of path and data was given, or only one scale is cycles.
            TypeError: The ETRecord is neither a path nor an ETRecord.
            UsageError: A file, method or graph was not found.
            FormatError: A file is damaged; the error has offset and field.
        """
        given = etdump_path if etdump_data is None else etdump_data
        if given is None or (etdump_path is not None and etdump_data is not None):
            raise ValueError("give exactly one of etdump_path and etdump_data")
        scale_between(source_time_scale, target_time_scale)
        self._record = None if etrecord is None else InspectorRecord(etrecord)
        source = read_source(given, debug_buffer_path, source_time_scale)
        self.trace: Trace = source.trace
        self._times = event_times(source.trace, target_time_scale, delegate_time_scale_converter)
        values = LoggedValues(source.debug_buffer, tensor_maker(tensors))
        self.event_blocks: list[EventBlock] = BlockMaker(
            source.trace,
            self._times,
            values,
            delegate_metadata_parser,
            source_time_scale,
            target_time_scale,
        ).blocks()
        if values.missing:
            warnings.warn(
                f"{values.missing} logged tensors have no elements in a debug buffer", stacklevel=2
            )
        self.method = ""
        self._table: SymbolTable | None = None
        if self._record is not None:
            self._join(self._record, method, reference_graph_name, bundled_input_index)

    @property
    def backward_events(self) -> int:
        """Number of events that end slightly before they start."""
        return self._times.backward

    def _join(
        self, record: InspectorRecord, method: str | None, graph: str, bundled: int | None
    ) -> None:
        """Add the ETRecord's data to blocks and events."""
        self.method = record.symbols.method(method)
        self._table = SymbolTable(
            record.symbols.methods[self.method], record.graph(graph, self.method)
        )
        add_symbols(self.event_blocks, self._table)
        for block in self.event_blocks:
            index = block.bundled_input_index
            if (index is None or index < 0) and block.run_output:
                index = bundled
            if index is not None and index >= 0:
                block._reference = self._reference(record, index)

    def _reference(self, record: InspectorRecord, index: int) -> Callable[[], list[Any] | None]:
        def find() -> list[Any] | None:
            cases = record.reference_outputs(self.method)
            return None if cases is None or index >= len(cases) else cases[index]

        return find

    def to_dataframe(
        self, include_units: bool = True, include_delegate_debug_data: bool = False
    ) -> Any:
        """Return a pandas DataFrame with a row per event of all blocks."""
        frames = [
            block.to_dataframe(include_units, include_delegate_debug_data)
            for block in self.event_blocks
        ]
        if not frames:
            return EventBlock("").to_dataframe(include_units)
        filled = [frame for frame in frames if len(frame)]
        return pandas().concat(filled or frames[:1], ignore_index=True)

    def _shown(self, include_units: bool, include_delegate_debug_data: bool) -> Any:
        """Return the table without the hidden columns and the operator wrappers."""
        frame = self.to_dataframe(include_units, include_delegate_debug_data)
        frame = frame.drop(columns=[*_HIDDEN_COLUMNS])
        shown = [OPERATOR_CALL not in name for name in frame["event_name"]]
        return frame[shown].reset_index(drop=True)

    def print_data_tabular(
        self,
        file: IO[str] | None = None,
        include_units: bool = True,
        include_delegate_debug_data: bool = False,
    ) -> None:
        """Print the events as a table, without the wrappers around operators.

        Args:
            file: Output file; standard output by default.
            include_units: Show the unit of times in the headers.
            include_delegate_debug_data: Show the delegates' metadata, too.
        """
        from rich.console import Console

        from harness.report.terminal import show_table

        frame = self._shown(include_units, include_delegate_debug_data)
        rows = [[str(number), *map(_cell, row)] for number, row in enumerate(frame.to_numpy())]
        show_table(Console(file=file), ["", *map(str, frame.columns)], rows)

    def save_data_to_tsv(
        self,
        file: IO[str] | str | Path,
        include_units: bool = True,
        include_delegate_debug_data: bool = False,
    ) -> None:
        """Write the table of ``print_data_tabular`` as tab-separated values."""
        frame = self._shown(include_units, include_delegate_debug_data)
        frame.to_csv(file, sep="\t")

    def find_total_for_module(self, module_name: str) -> float:
        """Return the time per run in the modules with a name, in the target time scale.

        Every instruction counts once. ``harness.analyze.symbols`` defines how names match.
        """
        if self._table is None:
            return 0.0
        return total_for_module(
            self.event_blocks, self.trace, self._times, self._table, module_name
        )

    def get_exported_program(self, graph: str | None = None) -> Any:
        """Return a program of the ETRecord: the edge dialect's, or that of the named graph.

        None without an ETRecord or without this graph.

        Raises:
            UsageError: ExecuTorch is not installed.
        """
        if self._record is None:
            return None
        record = self._record.program()
        if graph is not None:
            return record.graph_map.get(graph) if record.graph_map else None
        program = record.edge_dialect_program
        return program[self.method] if isinstance(program, dict) else program

    def calculate_numeric_gap(
        self,
        distance: str | NumericalComparatorBase,
        disable_debug_handle_valdiation: bool = False,
        reference_graph: str | None = None,
    ) -> Any:
        """Compare the logged values with those of the exported program.

        Args:
            distance: ``"MSE"``, ``"L1"``, ``"SNR"``, or a comparator.
            disable_debug_handle_valdiation: Compare as far as possible if the exported graph lacks
                operators of the edge dialect.
            reference_graph: ``"exported_program"``, ``"edge_dialect_exported_program"`` or a graph
                of the record; by default the first if its operators can be matched, else the
                second.

        Returns:
            A pandas DataFrame with a row per pair of values.

        Raises:
            ValueError: The ETRecord, its representative inputs or the graph is missing.
            UsageError: ExecuTorch is not installed.
        """
        from harness.inspector.gap import numeric_gap

        if self._record is None:
            raise ValueError("a numeric gap needs an ETRecord with representative inputs")
        return numeric_gap(
            self,
            self._record.program(),
            distance,
            reference_graph,
            validate=not disable_debug_handle_valdiation,
        )


def total_for_module(
    blocks: Sequence[EventBlock], trace: Trace, times: Times, table: SymbolTable, name: str
) -> float:
    """Return the average time per run in the modules with a name, summed over blocks."""
    symbols = event_symbols(trace, table)
    total = 0.0
    for block in blocks:
        runs = replace(trace, blocks=tuple(trace.blocks[number] for number in block.runs))
        found = module_times(runs, symbols, times.durations)
        total += time_of_module(found, name) / len(block.runs)
    return total


def read_source(
    given: str | Path | bytes | Source, debug_buffer: str | Path | None, source: TimeScale
) -> GivenTrace:
    """Return the trace at a path, in the bytes of a file, or in a loaded source.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged.
    """
    if not isinstance(given, Source):
        given = load_source(
            given if isinstance(given, bytes) else Path(given),
            debug_buffer=None if debug_buffer is None else Path(debug_buffer),
        )
        if given.result is not None and given.result.time_scales:
            given = on_scales(given, {})
    return GivenTrace(_with_rates(given.trace, source), given.debug_buffer)


def _with_rates(trace: Trace, source: TimeScale) -> Trace:
    """Set the rate of clocks of unknown rate to that of the source time scale."""
    rate = Fraction(PER_SECOND[source])
    if trace.clocks == (HOST_NANOSECONDS,):
        return of_readings(trace, rate)
    if len(trace.clocks) == 1 and trace.clocks[0].name == GIVEN and trace.clocks[0].bits == 64:
        return of_readings(trace, trace.clocks[0].hz or rate)
    clocks = tuple(replace(clock, hz=rate) if clock.hz is None else clock for clock in trace.clocks)
    return replace(trace, clocks=clocks).sealed()


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
