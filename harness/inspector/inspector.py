"""Inspector: a drop-in for ExecuTorch's class, on our reader and analyses.

ExecuTorch's VGF backend logs neural statistics as metadata of its events: a JSON object with the
schema name, its version and a list of segments. A segment may have up to three blobs; the ones that
are available hold base64 text.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from harness.analyze.converters import Convert
from harness.analyze.ticks import with_width
from harness.decode.program import Method
from harness.inspector.blocks import EventBlock, EventViews
from harness.inspector.event import (
    PER_SECOND,
    LoggedValues,
    MetadataParser,
    Times,
    TimeScale,
    of_readings,
    pandas,
    scale_between,
    tensor_maker,
    time_scale_of,
)
from harness.inspector.gap import EDGE_GRAPH, InspectorRecord
from harness.inspector.symbols import SymbolTable, module_times, symbols_of_blocks
from harness.records.symbols import Module, ModuleTime
from harness.records.trace import HOST_NANOSECONDS, OPERATOR_CALL, Damage, Trace
from harness.runs.source import Source, load_source, on_scales

if TYPE_CHECKING:
    from harness.inspector.comparators import NumericalComparatorBase


SCHEMA: Final = "executorch.vgf.neural_statistics"
VERSION: Final = 1
_BLOBS: Final = ("debug_database", "statistics_info", "statistics_memory")

Metadata = bytes | bytearray | str


def parse_vgf_neural_statistics_metadata(metadata: Metadata) -> dict[str, Any]:
    """Return the record in some metadata; available blobs also get their bytes as ``raw_data``.

    Raises:
        ValueError: The metadata is no such record, or is damaged.
        TypeError: The metadata is neither bytes nor text.
    """
    record = _parsed(_as_bytes(metadata))
    if not _is_record(record):
        raise ValueError("the metadata is not a record of VGF neural statistics")
    if record.get("schema_version") != VERSION:
        raise ValueError(
            "Unsupported VGF neural statistics metadata schema version: "
            f"{record.get('schema_version')!r}; version {VERSION} is supported"
        )
    segments = [_decoded(segment) for segment in record.get("segments", [])]
    return {**record, "segments": segments}


def parse_vgf_neural_statistics_delegate_metadata(
    metadata: Iterable[Metadata | None],
) -> list[dict[str, Any]]:
    """Return the records among the metadata of an event; metadata of other backends are skipped.

    Raises:
        ValueError: A record is damaged.
    """
    return [
        parse_vgf_neural_statistics_metadata(item)
        for item in metadata
        if isinstance(item, Metadata) and _holds_record(_as_bytes(item))
    ]


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error


def _holds_record(data: bytes) -> bool:
    try:
        return _is_record(_parsed(data))
    except ValueError as error:
        if SCHEMA.encode() in data:
            raise ValueError(
                f"Malformed VGF neural statistics delegate metadata: {error}"
            ) from error
        return False


def _is_record(content: Any) -> bool:
    return isinstance(content, dict) and content.get("schema") == SCHEMA


def _as_bytes(metadata: Metadata) -> bytes:
    if isinstance(metadata, str):
        return metadata.encode()
    if not isinstance(metadata, bytes | bytearray):
        raise TypeError(f"metadata must be bytes or text, not {type(metadata).__name__}")
    return bytes(metadata)


def _decoded(segment: dict[str, Any]) -> dict[str, Any]:
    blobs = {key: segment[key] for key in _BLOBS if isinstance(segment.get(key), dict)}
    return {**segment, **{key: _with_bytes(key, blob) for key, blob in blobs.items()}}


def _with_bytes(key: str, blob: dict[str, Any]) -> dict[str, Any]:
    if not blob.get("available", False):
        return {"raw_data": b"", **blob}
    if blob.get("encoding") != "base64":
        raise ValueError(
            f"Unsupported encoding {blob.get('encoding')!r} of VGF neural statistics blob {key}"
        )
    try:
        return {**blob, "raw_data": base64.b64decode(blob.get("data", ""), validate=True)}
    except (binascii.Error, TypeError) as error:
        raise ValueError(
            f"Malformed base64 data in VGF neural statistics blob {key}: {error}"
        ) from error


_HIDDEN_COLUMNS: Final = (
    "raw",
    "delegate_debug_identifier",
    "stack_traces",
    "module_hierarchy",
    "debug_data",
)

Data = bytes | bytearray | memoryview
"""The content of a file."""

GIVEN: Final = "given"
"""Name of a clock for which only the rate is known, given by the user."""


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
        method: The executed method, of several the first; "" without an ETRecord.
        damage: What was left out of a damaged file.
    """

    def __init__(
        self,
        etdump_path: str | Path | None = None,
        etdump_data: Data | Source | None = None,
        etrecord: Any = None,
        source_time_scale: TimeScale | Enum = TimeScale.NS,
        target_time_scale: TimeScale | Enum = TimeScale.MS,
        debug_buffer_path: str | Path | None = None,
        delegate_metadata_parser: MetadataParser | None = None,
        delegate_time_scale_converter: Convert | None = None,
        enable_module_hierarchy: bool = False,  # noqa: ARG002
        reference_graph_name: str = EDGE_GRAPH,
        *,
        method: str | None = None,
        tensors: str | None = None,
        bundled_input_index: int | None = None,
        clock_bits: int | None = None,
        salvage: bool = False,
    ) -> None:
        """Read a trace and, if one is given, the ETRecord of its model.

        Args:
            etdump_path: A file of ED00 dumps, a device log, a console capture or a run directory.
            etdump_data: The bytes of such a file, or the result of ``load_source``.
            etrecord: Path of an ETRecord, or ExecuTorch's ETRecord object.
            source_time_scale: Tick unit for files that do not record one; ExecuTorch's own
                enumeration is taken by value.
            target_time_scale: The unit of all times but ``start_time``.
            debug_buffer_path: File with the elements of logged tensors; found automatically in a
                run directory.
            delegate_metadata_parser: Parses the metadata of the repeats of a delegate's event.
            delegate_time_scale_converter: Converts times of delegate events; takes the event's id
                as text and a time in ticks, and returns a time in the target scale. It gets the
                start and the end of each event; after a wrap the counter's readings go on.
            enable_module_hierarchy: Ignored; modules are always available.
            reference_graph_name: The graph of the ETRecord with the displayed operators.
            method: The executed method, where several of the ETRecord match an execution.
            tensors: Type of tensors, ``"torch"`` or ``"numpy"``; by default torch for a program
                that has imported torch.
            bundled_input_index: Test case of the ETRecord that ran, for files that do not record
                it, such as those of ETDumpGen.
            clock_bits: Width of the counter, for files that do not record it; by default 32 if all
                readings fit into 32 bits, else 64.
            salvage: Read the intact parts of a damaged file; ``damage`` lists the others.

        Raises:
            ValueError: Not exactly one of path and data was given.
            RuntimeError: Only one scale is cycles.
            TypeError: The ETRecord is neither a path nor an ETRecord.
            FileNotFoundError: A file was not found.
            UsageError: A method or graph was not found, or ``clock_bits`` are too few.
            FormatError: A file is damaged; the error has offset and field.
        """
        given = etdump_path if etdump_data is None else etdump_data
        if given is None or (etdump_path is not None and etdump_data is not None):
            raise ValueError("give exactly one of etdump_path and etdump_data")
        scales = time_scale_of(source_time_scale), time_scale_of(target_time_scale)
        scale_between(*scales)
        self._record = None if etrecord is None else InspectorRecord(etrecord)
        self.trace, buffer, self.damage = read_source(
            given, debug_buffer_path, scales[0], clock_bits, salvage=salvage
        )
        self._times = Times(self.trace, scales[1], delegate_time_scale_converter)
        values = LoggedValues(buffer, tensor_maker(tensors))
        if missing := values.missing(self.trace.debug_values):
            warnings.warn(
                f"{missing} logged tensors have no elements in a debug buffer", stacklevel=2
            )
        self.method = ""
        self._tables: dict[str | None, SymbolTable] = {}
        self._methods: tuple[Method | None, ...] = ()
        symbols = None
        if (record := self._record) is not None:
            self._methods = record.executed(self.trace, method)
            executed = dict.fromkeys(found.name for found in self._methods if found is not None)
            self.method = method or next(iter(executed), None) or record.symbols.method(method)
            for name in executed or (self.method,):
                graph = record.graph(reference_graph_name, name)
                self._tables[name] = SymbolTable(record.symbols.methods[name], graph)
            symbols = [
                None if found is None else self._tables[found.name] for found in self._methods
            ]
        self.event_blocks: list[EventBlock] = EventViews(
            self.trace, self._times, values, delegate_metadata_parser, symbols
        ).blocks(source_time_scale, target_time_scale)
        if self._record is not None:
            self._add_references(self._record, bundled_input_index)

    @property
    def backward_events(self) -> int:
        """Number of events that end slightly before they start."""
        return self._times.backward

    def _add_references(self, record: InspectorRecord, bundled: int | None) -> None:
        """Add the ETRecord's reference outputs to blocks."""
        for block in self.event_blocks:
            index = block.bundled_input_index
            if (index is None or index < 0) and bundled is not None and block.run_output:
                index = bundled
            if index is not None and index >= 0:
                # A function instead of the value: reading the tensors needs PyTorch.
                executed = self._methods[block.runs[0]]
                name = self.method if executed is None else executed.name
                block.reference_output = _reference(record, name, index)  # type: ignore[assignment]

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
        filled = [frame for frame in frames if len(frame)] or frames[:1]
        return filled[0] if len(filled) == 1 else pandas().concat(filled, ignore_index=True)

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
            file: Output file; by default the cell of a notebook, or standard output.
            include_units: Show the unit of times in the headers.
            include_delegate_debug_data: Show the delegates' metadata, too.
        """
        from harness.report.terminal import open_console, show_table

        frame = self._shown(include_units, include_delegate_debug_data)
        if file is None and (display := notebook_display()) is not None:
            display(frame)
            return
        rows = [[str(number), *map(_cell, row)] for number, row in enumerate(frame.to_numpy())]
        show_table(open_console(file), ["", *map(str, frame.columns)], rows)

    def _repr_html_(self) -> str:
        """Return the table of ``print_data_tabular``, for notebooks."""
        return cast("str", self._shown(True, False).to_html())

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
        if not self._tables:
            return 0.0
        symbols = symbols_of_blocks(self.trace, self._tables, self._methods)
        total = 0.0
        for block in self.event_blocks:
            runs = replace(self.trace, blocks=tuple(self.trace.blocks[n] for n in block.runs))
            found = module_times(runs, symbols, self._times.durations)
            total += time_of_module(found, module_name) / len(block.runs)
        return total

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

    def get_vgf_neural_statistics(self) -> list[dict[str, Any]]:
        """Return the neural statistics that ExecuTorch's VGF backend logged, event by event.

        Blobs of a record have their bytes as ``raw_data``.

        Raises:
            ValueError: A record is damaged.
        """
        return [
            record
            for block in self.event_blocks
            for event in block.events_with_metadata()
            for record in parse_vgf_neural_statistics_delegate_metadata(
                event.raw_delegate_debug_metadatas
            )
        ]

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


def notebook_display() -> Callable[[Any], Any] | None:
    """Return the function that shows an object in a notebook's cell; None outside of IPython."""
    loaded = sys.modules.get("IPython")
    if loaded is None or loaded.get_ipython() is None:
        return None
    return cast("Callable[[Any], Any]", loaded.display.display)


def _reference(record: InspectorRecord, method: str, index: int) -> Callable[[], list[Any] | None]:
    def find() -> list[Any] | None:
        cases = record.reference_outputs(method)
        return None if cases is None or index >= len(cases) else cases[index]

    return find


def read_source(
    given: str | Path | Data | Source,
    debug_buffer: str | Path | None,
    source: TimeScale,
    clock_bits: int | None = None,
    *,
    salvage: bool = False,
) -> tuple[Trace, bytes | None, tuple[Damage, ...]]:
    """Read a path, the bytes of a file, or a loaded source.

    Returns:
        The trace with rates for all clocks, its debug buffer, and what was left out as damaged.

    Raises:
        MissingFileError: A file is missing.
        UsageError: A reading does not fit into ``clock_bits``.
        FormatError: A file is damaged.
    """
    if not isinstance(given, Source):
        given = load_source(
            bytes(given) if isinstance(given, Data) else Path(given),
            salvage=salvage,
            debug_buffer=None if debug_buffer is None else Path(debug_buffer),
        )
        if given.result is not None:
            given = on_scales(given, {})
    trace = given.trace if clock_bits is None else with_width(given.trace, clock_bits)
    return _with_rates(trace, source, clock_bits), given.debug_buffer, given.damage


def _with_rates(trace: Trace, source: TimeScale, bits: int | None) -> Trace:
    """Set the rate of clocks of unknown rate to that of the source time scale."""
    rate = Fraction(PER_SECOND[source])
    clock = trace.clocks[0] if len(trace.clocks) == 1 else None
    if clock is not None and clock.name == HOST_NANOSECONDS.name and (bits or 64) == clock.bits:
        return of_readings(trace, rate, bits)
    if clock is not None and clock.name == GIVEN and (bits or 64) == clock.bits:
        return of_readings(trace, clock.hz or rate, bits)
    clocks = tuple(replace(clock, hz=rate) if clock.hz is None else clock for clock in trace.clocks)
    return replace(trace, clocks=clocks).sealed()


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def time_of_module(times: Sequence[ModuleTime], name: str) -> float:
    """Return the total time in all modules with a name, each operator counted once.

    Args:
        times: From ``module_times``.
        name: A module's key, or its path or whole components of it: ``layers.1`` is in
            ``encoder.layers.1`` and not in ``encoder.layers.12``.
    """
    return sum(
        item.own for item in times if any(_is_called(module, name) for module in item.modules)
    )


def _is_called(module: Module, name: str) -> bool:
    return name in (module.key, module.path) or (name != "" and f".{name}." in f".{module.path}.")
