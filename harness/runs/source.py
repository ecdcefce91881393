"""Runs as they are read: the traces of a path, and a run with its result, subject and verdict.

A path is a run directory, a device log, ED00 files or a console capture. An ``EvaluatedRun`` is
what reports, the API and the history read of a run.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.analyze.counterparts import ProgramOutline, outline_of
from harness.analyze.ticks import suspected_widths, with_width
from harness.check.subject import ModelOutput, Subject, model_name
from harness.decode.dumps import Dump, read_dumps
from harness.errors import (
    DamagedError,
    FormatError,
    HarnessError,
    InfrastructureError,
    MissingFileError,
    NotComparableError,
    TargetError,
    UsageError,
)
from harness.files import MOST_MODEL, Content, find_model, map_or_read, read_limited, read_model
from harness.plugins import INSPECTORS, load_extension
from harness.printing import counted
from harness.records.result import Failure, Model, Result, RunIdentity, VerdictRecord, moment
from harness.records.run_settings import ReadSettings
from harness.records.trace import EXECUTION, ClockDomain, Damage, Kind, Trace, concatenate
from harness.records.verdict import Verdict
from harness.runs.directory import (
    DEBUG_BUFFER,
    ETDUMP,
    LOG,
    RESULT,
    PostmortemDocument,
    RunDirectory,
    recorded_clocks,
)

if TYPE_CHECKING:
    from harness.analyze.workload import Arguments
    from harness.check.history.comparison import HistoryComparison
    from harness.check.history.samples import History
    from harness.decode.program import Method
    from harness.export.formats import Exported
    from harness.records.symbols import EventSymbols


def interpret_delegates(
    trace: Trace, scales: Mapping[str, str], metadata: Mapping[str, str], model: Model | None
) -> Trace:
    """Put delegate events on the clocks of time scales, and read the counts in their metadata.

    Args:
        trace: The trace.
        scales: Time scales by pattern; see ``harness.analyze.converters``.
        metadata: Layouts by pattern; see ``harness.analyze.converters``.
        model: The model that ran, for the names of its delegates; None if unknown.

    Raises:
        UsageError: A time scale or a layout is invalid, or does not fit the trace.
    """
    if not scales and not metadata:
        return trace
    from harness.analyze.converters import (
        parse_layouts,
        parse_time_scales,
        rescale,
        with_metadata_counts,
    )

    calls = model.delegates if model is not None else ()
    backends = {(call.chain, call.instruction): call.backend for call in calls}
    counted = with_metadata_counts(trace, parse_layouts(metadata), backends)
    return rescale(counted, parse_time_scales(scales), backends)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(ReadSettings):
    """Options for reading and evaluating a trace, in addition to its run directory.

    Attributes:
        clock: Clock of a file that does not record one; by default one of ``clock_hz``.
    """

    clock: ClockDomain | None = None

    def __post_init__(self) -> None:
        if self.clock is None and self.clock_hz:
            clock = ClockDomain("given", Fraction(self.clock_hz))
            object.__setattr__(self, "clock", clock)

    def load(self, path: Path, run: RunDirectory | None = None, *, warn: bool = True) -> Source:
        """Read the traces of a path with the clock, width, dump and time scales of these options.

        Args:
            path: The path.
            run: The run directory at this path, if its result has been read.
            warn: Log a warning for each counter that looks narrower than recorded.

        Raises:
            UsageError: The path or the dump does not exist, or a time scale or the width does not
                fit.
            FormatError: The file is invalid.
        """
        source = load_source(
            path, self.clock, salvage=self.salvage, debug_buffer=self.debug_buffer, run=run
        )
        source = _chosen(source, path, self.dump)
        if (bits := self.clock_bits) is not None:
            dumps = (replace(dump, trace=with_width(dump.trace, bits)) for dump in source.dumps)
            source = replace(source, dumps=tuple(dumps))
        source = on_scales(source, self.time_scales, self.metadata)
        for suspicion in suspected_widths(source.trace, source.later_dumps) if warn else ():
            _log.warning("%s: %s", path, suspicion.advice)
        return source


DEFAULT_OPTIONS: Final = ReadOptions()

_NONE: Final[Mapping[str, Any]] = {}

HOST_CPU: Final = "host"
"""The CPU of firmware that runs as a process of a host."""


_ZIP: Final = b"PK\x03\x04"
"""Beginning of a ``.npz`` file."""

_HEADERS: Final = {1: np.lib.format.read_array_header_1_0}
"""Readers of headers by version of the format; later versions have the layout of version 2."""


@dataclass(frozen=True)
class Source:
    """The traces of a path.

    Attributes:
        dumps: Traces in the order of the file, each with its debug buffer.
        result: The result of the run directory; None for a file outside a run directory.
        damage: Damaged parts that were left out.
        damaged: The error for a damaged file of the run directory, which rules out a verdict on
            these traces; None if all files are intact. Only set with ``salvage``.
        padding: Bytes behind the last dump that only fill the file.
    """

    dumps: tuple[Dump, ...]
    result: Result | None = None
    damage: tuple[Damage, ...] = ()
    damaged: DamagedError | None = None
    padding: int = 0

    def require_sound(self) -> Source:
        """Return self unless a file of the run directory is damaged.

        Raises:
            DamagedError: The traces were salvaged from a damaged run directory.
        """
        if self.damaged is not None:
            raise self.damaged
        return self

    @cached_property
    def trace(self) -> Trace:
        """The events of all dumps, concatenated."""
        return _joined([dump.trace for dump in self.dumps])

    @property
    def later_dumps(self) -> tuple[int, ...]:
        """Rows of ``trace`` at which the second and later dumps begin."""
        return tuple(accumulate(len(dump.trace) for dump in self.dumps[:-1]))

    @property
    def debug_buffer(self) -> bytes | None:
        """The bytes of logged tensors; None without a debug buffer.

        Raises:
            UsageError: There are several dumps, each with a debug buffer of its own.
        """
        buffers = [dump.debug_buffer for dump in self.dumps if dump.debug_buffer is not None]
        if buffers and len(self.dumps) > 1:
            raise UsageError(
                f"the source has {len(self.dumps)} dumps, each with a debug buffer of its own",
                hint="choose one in Source.dumps, which has the trace and the buffer of each",
            )
        return buffers[0] if buffers else None


def differing_outlines(
    before: Result | None, after: Result | None
) -> tuple[ProgramOutline | None, ProgramOutline | None] | None:
    """Return what is known of the programs of two runs; None unless they are known to differ."""
    models = [None if result is None else result.model for result in (before, after)]
    old, new = models
    if old is None or new is None or old.sha256 == new.sha256:
        return None
    return outline_of(old.chains), outline_of(new.chains)


def load_source(
    source: Path | bytes,
    clock: ClockDomain | None = None,
    *,
    salvage: bool = False,
    debug_buffer: Path | None = None,
    run: RunDirectory | None = None,
) -> Source:
    """Read all traces of a run directory, a file or bytes; the content determines the format.

    A run directory is read from its device log, which has more than its ED00 copy; without a log
    the ED00 file is what the device sent. Of several dumps in it only the first is of this run: a
    static ETDumpGen that was reset leaves those of earlier runs behind the newest one. For a file
    inside a run directory the clocks come from the result beside it. ``clock`` overrides them; an
    ED00 file does not record its clock and is taken as nanoseconds, as ExecuTorch does.

    Every load of a run passes here, so its files are verified here by ``result.json``: length and
    digest of each (for a single file: its own and its debug buffer's), and the counts of the log.

    Args:
        source: A run directory, a file, or the content of a file.
        clock: Clock of the ticks.
        salvage: Read the intact part and report the damage, instead of failing.
        debug_buffer: File with the bytes of logged tensors; by default those of the run directory
            or the console capture.
        run: The run directory at this path, if its result has been read.

    Raises:
        UsageError: The path does not exist, or is a directory that is not a run directory.
        DamagedError: A file of a run is damaged.
        FormatError: The file is invalid.
    """
    result: Result | None = None
    file: Path | None = None
    damaged: DamagedError | None = None
    data: Content
    if isinstance(source, bytes):
        data = source
    else:
        file, result, damaged = _file(source, run)
        if damaged is not None and not salvage:
            raise damaged
        data = map_or_read(file)
    try:
        read = read_dumps(data, [clock] if clock else recorded_clocks(result), salvage=salvage)
    except FormatError as error:
        raise damaged or error.of_file(file) from error  # the damage explains why it cannot be read
    dumps = _with_hidden_wraps(read.dumps, result)
    if debug_buffer is not None:
        dumps = (_with_buffer(dumps, debug_buffer),)
        damaged = damaged or _examined_alone(debug_buffer)[1]
    elif (beside := _buffer_of(file, result)) is not None:
        dumps = tuple(
            replace(dump, debug_buffer=read_limited(beside, MOST_MODEL)) for dump in dumps
        )
    loaded = Source(dumps, result, read.damage, padding=read.padding)
    if result is not None and file is not None and file == RunDirectory(file.parent).trace_file:
        damaged = damaged or _miscounted(file, result, loaded)
        loaded = replace(loaded, dumps=dumps[:1])  # as read_trace does
    if damaged is None:
        return loaded
    if not salvage:
        raise damaged
    damage = (Damage(None, "", damaged.message, None), *read.damage)
    return replace(loaded, damage=damage, damaged=damaged)


def _chosen(source: Source, path: Path, dump: int | None) -> Source:
    """Return the source with this dump, from 1; with None for all, warn of several."""
    count = len(source.dumps)
    if dump is not None and not 0 < dump <= count:
        raise UsageError(f"{path}: dump {dump} not found: there are {count}")
    if dump is not None:
        return replace(source, dumps=source.dumps[dump - 1 : dump])
    if count > 1:
        text = "%s: %d dumps read as one trace; if a reset left the older ones, use --dump 1"
        logging.getLogger(__name__).warning(text, path, count)
    return source


def on_scales(
    source: Source, scales: Mapping[str, str], metadata: Mapping[str, str] = _NONE
) -> Source:
    """Put a source on these time scales, and on those its run recorded for other patterns.

    Likewise it gets the counters that these layouts, or those of its run, name in the metadata of
    delegates' events.

    Raises:
        UsageError: A time scale or a layout is invalid, or does not fit the trace.
    """
    result = source.result
    scales = _with_others(scales, result.time_scales if result is not None else {})
    metadata = _with_others(metadata, result.metadata if result is not None else {})
    if not (scales or metadata):
        return source
    model = result.model if result is not None else None
    whole = interpret_delegates(source.trace, scales, metadata, model)
    dumps, end = [], 0
    for dump in source.dumps:
        rows = slice(end, end := end + len(dump.trace))
        names = ("clock", "start", "end", "counts")
        columns = {name: getattr(whole, name)[rows] for name in names}
        trace = replace(dump.trace, clocks=whole.clocks, counters=whole.counters, **columns)
        dumps.append(replace(dump, trace=trace))
    return replace(source, dumps=tuple(dumps))


def _with_hidden_wraps(dumps: tuple[Dump, ...], result: Result | None) -> tuple[Dump, ...]:
    """Return dumps with the wraps of the clock that the readings of their run show."""
    hidden = result.hidden_wraps if result is not None else 0
    return tuple(replace(dump, trace=replace(dump.trace, hidden_wraps=hidden)) for dump in dumps)


def _with_others(given: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str]:
    """Return what was given, first, and what was recorded for other patterns."""
    return {**given, **{key: text for key, text in recorded.items() if key not in given}}


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Metadata for every event of a trace; each list has one item per event.

    Attributes:
        symbols: From the ETRecord; None without one.
        arguments: From the model; None without it.
        methods: The methods that ran; empty without the model.
        trace: The trace. If several methods ran, its blocks are named after them, too, so that no
            statistics are of operators of two methods.
    """

    trace: Trace

    symbols: list[EventSymbols | None] | None = None
    arguments: list[Arguments | None] | None = None
    methods: tuple[Method, ...] = ()


def load_metadata(
    source: Source,
    *,
    etrecord: Path | None = None,
    model: Path | None = None,
    method: str | None = None,
) -> ModelMetadata:
    """Return the metadata of the events of ``source``.

    Args:
        source: The trace.
        etrecord: Path of an ETRecord.
        model: Path of the model's ``.pte``.
        method: A method that ran, which decides where several have the operators of an execution.
            None for that of the run's result.

    Raises:
        UsageError: A file is missing, or the method of an execution is ambiguous.
        FormatError: A file is damaged.
        NotComparableError: An execution of the trace is of no method of the model.
    """
    trace = source.trace
    if model is None and etrecord is None:
        return ModelMetadata(trace)
    from harness.analyze.blocks import executed_methods, name_blocks

    if method is None and source.result is not None and source.result.model is not None:
        method = source.result.model.method
    arguments = symbols = None
    methods: Sequence[Method | None] = ()
    executed: dict[str, Method] = {}
    if model is not None:
        model = find_model(model)
        if not model.exists():
            raise UsageError(
                f"model {model} not found",
                hint="give a .pte file, or the name of a model that comes with the package",
            )
        from harness.analyze.workload import event_arguments
        from harness.decode.pte import read_program

        methods = executed_methods(trace, read_program(read_model(model)), method)
        arguments = event_arguments(trace, methods)
        executed = {found.name: found for found in methods if found is not None}
    if etrecord is not None:
        inspector = load_extension(INSPECTORS, "etrecord", "--etrecord is", "inspector")
        symbols = inspector.read_symbols(etrecord, tuple(executed) or (method,), trace, methods)
    named = name_blocks(trace, methods)
    return ModelMetadata(named, symbols, arguments, tuple(executed.values()))


def export_source(
    source: Source,
    name: str,
    flavour: str | None = None,
    *,
    directory: Path | None,
    model: Path | None = None,
    etrecord: Path | None = None,
    method: str | None = None,
) -> Exported:
    """Return the trace of ``source`` in the format ``name``, with what is known of its run.

    Args:
        source: The trace.
        name: Name of the format.
        flavour: A variant of the format.
        directory: The run directory, which has samples of the energy; None without one.
        model: Path of the model's ``.pte``.
        etrecord: Path of an ETRecord.
        method: The method that ran; None for the one that fits the trace.

    Raises:
        UsageError: There is no such format, or a file is missing.
        NotComparableError: The trace is not of this model.
    """
    from harness.analyze.blocks import find_method
    from harness.decode.pte import read_program
    from harness.export.formats import export_trace
    from harness.runs.meter import energy_of_run

    executed = None
    if model is not None:
        executed = find_method(read_program(read_model(model)), source.trace, method)
        method = executed.name
    symbols = load_metadata(source, etrecord=etrecord, method=method).symbols
    energy = energy_of_run(source.trace, source.result, directory)
    identity = RunIdentity.of(source.result)
    return export_trace(source.trace, name, flavour, executed, identity, energy, symbols)


def counts_of(trace: Trace) -> dict[str, int]:
    """Return the counts of a log that a result records, by field of ``TraceSummary``."""
    losses, executions = trace.losses, 0
    if EXECUTION in trace.names:
        named = trace.name == trace.names.index(EXECUTION)
        executions = int(np.count_nonzero(named & (trace.kind == Kind.PROFILE)))
    return {
        "events": len(trace),
        "blocks": len(trace.blocks),
        "executions": executions,
        "values": int(np.count_nonzero(trace.kind == Kind.DEBUG)),
        "dropped_events": losses.events,
        "dropped_blocks": losses.blocks,
        "dropped_values": losses.values,
        "dropped_runs": losses.runs,
        "missing_chunks": losses.chunks,
        "missing_records": losses.records,
    }


def read_trace(data: bytes, clocks: Sequence[ClockDomain]) -> Trace:
    """Decode the device log or ED00 file of a run.

    A static ETDumpGen that was reset leaves the dumps of earlier runs behind the newest one. They
    are ignored.

    Raises:
        FormatError: The data is neither, or is inconsistent.
    """
    return read_dumps(data, clocks).dumps[0].trace


def read_npy(path: Path) -> np.ndarray:
    """Read an array from a ``.npy`` file, in the byte order of this machine.

    Raises:
        UsageError: The file is missing, too large, or not an array.
    """
    try:
        data = read_limited(path, MOST_MODEL)
        if data.startswith(_ZIP):
            hint = "give a .npy file with one array"
            raise UsageError(f"{path}: contains several arrays", hint=hint)
        return npy_array(data)
    except (OSError, ValueError, EOFError, TokenError, SyntaxError, OverflowError) as error:
        raise UsageError(f"{path}: not a readable .npy file: {error}") from error


def npy_array(data: bytes) -> np.ndarray:
    """Return the array of a ``.npy`` file, in the byte order of this machine.

    Raises:
        ValueError, EOFError, TokenError, SyntaxError, OverflowError: It is not an array.
    """
    with io.BytesIO(data) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers as Python 2 wrote them
        major, _ = np.lib.format.read_magic(file)
        read_header = _HEADERS.get(major, np.lib.format.read_array_header_2_0)
        shape, _, dtype = read_header(file)
        # Before memory is taken for what the header says.
        if prod(shape) * dtype.itemsize > len(data) - file.tell():
            raise ValueError(f"truncated: shape {shape} of {dtype}")
        file.seek(0)
        array = np.lib.format.read_array(file, allow_pickle=False)
        return array.astype(array.dtype.newbyteorder("="), copy=False)


_RESET: Final = (
    "; each execution began with the initial contents of the model's own buffers (--state keep "
    "runs test sets as one sequence)"
)
_KEPT: Final = (
    "; the model changes its own buffers, and the last of {} executions began with what the others "
    "had left (--state reset begins each with their initial contents)"
)


def _compared_outputs(
    result: Result, directory: Path | None, tensors: Mapping[str, np.ndarray]
) -> tuple[ModelOutput, ...]:
    """Return the outputs of a run with their references; () without references.

    Raises:
        UsageError: A file that the result names is missing, or is not an array.
    """
    reference, model = result.reference, result.model
    if reference is None or model is None or directory is None or not model.outputs:
        return ()
    steps = [(step.outputs, step.reference) for step in result.steps or ()]
    pairs, note = [], ""
    for number, (outputs, files) in enumerate(steps or [(model.outputs, reference.files)], 1):
        if len(files) != len(outputs):
            raise UsageError(
                f"{directory}: the result records {counted(len(outputs), 'output')}, but "
                f"{counted(len(files), 'reference')}",
                hint="run again",
            )
        words = f"step {number} of {len(steps)}: " if steps else ""
        pairs += [(words, *pair) for pair in zip(outputs, files, strict=True)]
    runs = result.runs_requested
    if (runs > 1 or result.test_set) and not steps and model.changes_state:
        is_reset = runs == 1 or (result.settings and result.settings.state == "reset")
        note = _RESET if is_reset else _KEPT.format(runs)
    missing = {name for _, output, file in pairs for name in (output.file, file)} - {*tensors}
    arrays = {**tensors, **{file: read_npy(directory / file) for file in missing}}
    tolerance = (reference.rtol, reference.atol)
    return tuple(
        ModelOutput(words + output.file, arrays[output.file], arrays[file], tolerance, note)
        for words, output, file in pairs
    )


def _miscounted(file: Path, result: Result, source: Source) -> DamagedError | None:
    """Return an error if the counts of a run's log differ from its result."""
    if result.trace is None or source.damage:
        return None
    newest = counts_of(source.dumps[0].trace)
    # Results of earlier versions count the dumps of earlier runs, too.
    whole = counts_of(source.trace) if len(source.dumps) > 1 else newest
    for name, found in newest.items():
        recorded = getattr(result.trace, name)
        if recorded not in (found, whole[name], None):
            count = name.replace("_", " ")
            return DamagedError(
                f"{file}: damaged: it has {found:,} {count}, {RESULT} records {recorded:,}",
                hint="one of them may be from another run: restore both, or run again",
            )
    return None


def _file(path: Path, run: RunDirectory | None) -> tuple[Path, Result | None, DamagedError | None]:
    """Return the trace file of a path, the result of its run, and the error for damaged files."""
    if path.is_dir():
        run = run or RunDirectory(path)
        result, damaged = run.examine()
        if (file := run.trace_file) is not None:
            return file, result, damaged
        if damaged is not None:
            raise damaged
        if result.test_sets:
            first = run.path / result.test_sets[0].directory
            raise UsageError(
                f"{path} is the run of a bundled program: each of its {len(result.test_sets)} test "
                "sets has a trace of its own",
                hint=f"name one of them, such as {first}",
            )
        ended = f": {result.failure.message}" if result.failure else ""
        raise UsageError(f"{path} has no trace: its run ended before that{ended}")
    around, damaged = _examined_alone(path)
    if path.exists():
        return path, around, damaged
    if damaged is not None:
        raise damaged
    raise MissingFileError(f"{path}: no such file or directory")


def _buffer_of(file: Path | None, result: Result | None) -> Path | None:
    """Return the debug buffer beside a run's trace; None without one."""
    if file is None or result is None or file.name not in (LOG, ETDUMP):
        return None
    beside = file.parent / DEBUG_BUFFER
    return beside if beside.is_file() else None


def _examined_alone(path: Path) -> tuple[Result | None, DamagedError | None]:
    """Return the result beside a file, and the error if the file or its debug buffer is damaged."""
    run = RunDirectory(path.parent)
    if not run.is_one:
        return None, None
    return run.examine((path.name, DEBUG_BUFFER) if path.name in (LOG, ETDUMP) else (path.name,))


def _with_buffer(dumps: Sequence[Dump], path: Path) -> Dump:
    if not path.exists():
        raise MissingFileError(
            f"debug buffer {path} not found", hint="name a file with --debug-buffer"
        )
    if len(dumps) != 1:
        raise UsageError(
            f"{path} cannot be the debug buffer of {len(dumps)} dumps",
            hint="give a file with only the dump that it belongs to",
        )
    return replace(dumps[0], debug_buffer=read_limited(path, MOST_MODEL))


def _joined(traces: Sequence[Trace]) -> Trace:
    """Concatenate the traces of several dumps, with consecutive record numbers."""
    if len(traces) == 1:
        return traces[0]
    ends = np.cumsum([len(trace) for trace in traces]).tolist()
    return concatenate(
        [
            replace(trace, record=trace.record + end - len(trace))
            for trace, end in zip(traces, ends, strict=True)
        ]
    ).sealed()


def test_set_name(method: str, index: int) -> str:
    """Return the name of a test set in messages and verdicts."""
    return f"{method}, test set {index}"


_OWNERS: Final = {
    error.exit_code: error
    for error in (UsageError, NotComparableError, TargetError, InfrastructureError)
}


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedRun:
    """A run, or a trace alone, with its verdict.

    A failed run has a ``failure``; without a trace it has no subject and no checks.

    Attributes:
        title: Its path, for people.
        subject: The evaluated trace; None for a run without a trace.
        verdict: The verdict; it has no checks without a subject.
        result: The result of the run; None for a trace alone.
        history: The history that it was compared with; None without one.
        comparison: The comparison with the history, metric by metric.
        console: The end of the board's console output.
        postmortem: The postmortem of a crash during the run.
        budget: The budget file; "" for none.
        budget_copy: The copy of it in the run directory; "" for none.
        directory: The run directory; None for a trace alone.
        given: The options that it was read and evaluated with.
        program: The model that it ran; empty unless it has run just now.
        test_sets: The runs of the test sets of a bundled program, which itself has no subject.
        repeats: Further runs that the verdict rests on.
        asked_repeats: Number of the first of them that were asked for, which are results of their
            own; the others looked again at a suspect change.
    """

    title: str
    subject: Subject | None
    verdict: Verdict
    result: Result | None = None
    history: History | None = None
    comparison: HistoryComparison | None = None
    console: str = ""
    postmortem: PostmortemDocument | None = None
    budget: str = ""
    budget_copy: str = ""
    directory: Path | None = None
    given: ReadOptions = DEFAULT_OPTIONS
    program: bytes = b""
    test_sets: tuple[EvaluatedRun, ...] = ()
    repeats: tuple[EvaluatedRun, ...] = ()
    asked_repeats: int = 0

    @property
    def parts(self) -> tuple[EvaluatedRun, ...]:
        """The runs with traces: those of the test sets, or else this run itself."""
        return self.test_sets or (self,)

    @property
    def trace(self) -> Trace | None:
        """The trace, on its time scales; None without one, and of a bundled program."""
        return None if self.subject is None else self.subject.trace

    @property
    def traced(self) -> bool:
        """Whether it has a trace, or test sets with traces."""
        return self.subject is not None or bool(self.test_sets)

    @property
    def failure(self) -> Failure | None:
        """The failure of the run; None if it completed."""
        return None if self.result is None else self.result.failure

    @property
    def error(self) -> HarnessError | None:
        """The recorded failure as an exception of its owner; None when the run ended."""
        if self.result is None or self.failure is None:
            return None
        kind = _OWNERS.get(self.result.exit_code, InfrastructureError)
        return kind(self.failure.message, hint=self.failure.hint)

    @property
    def passed(self) -> bool:
        """Whether the run completed and no check of severity error failed."""
        return self.failure is None and self.verdict.passed

    @property
    def exit_code(self) -> int:
        """Exit code of the run if it failed, else of its verdict."""
        if self.result is not None and self.failure is not None:
            return self.result.exit_code
        return self.verdict.exit_code


def all_passed(runs: Sequence[EvaluatedRun]) -> bool:
    """Whether every run passed."""
    return all(run.passed for run in runs)


def verdict_record(run: EvaluatedRun) -> VerdictRecord:
    """Return the verdict as a result records it.

    Of a run that is read again, the number of further runs is the recorded one.
    """
    verdict = run.verdict
    known = run.result.verdict if run.result is not None and not run.repeats else None
    seconds = [one.result.duration_s for one in run.repeats if one.result is not None]
    took_s = round(sum(seconds), 3) if seconds else None
    return VerdictRecord(
        passed=verdict.passed,
        budget=run.budget,
        checks=verdict.checks,
        budget_copy=run.budget_copy,
        repeats=len(run.repeats) if known is None else known.repeats,
        repeats_s=took_s if known is None else known.repeats_s,
        disturbed=run.comparison is not None and run.comparison.disturbed,
    )


def subject_of(
    trace: Trace,
    result: Result | None = None,
    given: ReadOptions = DEFAULT_OPTIONS,
    directory: Path | None = None,
    tensors: Mapping[str, np.ndarray] = _NONE,
) -> Subject:
    """Return the subject of an evaluation: a trace with the facts of its result and directory.

    Args:
        trace: The trace.
        result: The result of its run; None for a trace alone.
        given: The options that the trace was read with.
        directory: The run directory.
        tensors: Tensors of the run directory by name; others are read.

    Raises:
        UsageError: The ETRecord does not exist.
        NotComparableError: The ETRecord is of another model.
    """
    symbols = None
    if given.etrecord is not None:
        symbols = load_metadata(Source((Dump(trace),), result), etrecord=given.etrecord).symbols
    if result is None:
        return Subject(
            trace,
            board=given.board,
            model=model_name(given.model),
            symbols=symbols,
            day=given.day or date.today(),
        )
    target, model, summary, image = result.target, result.model, result.trace, result.image
    probe = None
    if target and target.probe_pairs:
        probe = Fraction(target.probe_ticks, target.probe_pairs)
    # A debug probe reads no answer of the board: its result has sums of what the log says.
    counted = model if target is not None and target.link_version else None
    if summary is not None and summary.etdp_left_out_allocations:
        # The ETDump of a run leaves allocations out; its log has them.
        counted = counted if (trace.kind == Kind.ALLOCATION).any() else None
    if counted is not None and not counted.method_bytes:
        counted = None
    return Subject(
        trace,
        board=result.board,
        unit=result.unit,
        model=model.known_as if model else "",
        log_bytes=summary.log_bytes if summary else None,
        trace_capacity=target.trace_capacity if target else None,
        arena_capacity=(target.arena_capacity or None) if target else None,
        arena_used=model.arena_bytes if model else None,
        method_bytes=counted.method_bytes if counted else None,
        planned_bytes=counted.planned_bytes if counted else None,
        probe=probe,
        qualities=result.clock_quality,
        pings=result.pings,
        restart=result.restart,
        emulated_time=result.emulated_time,
        runtime=target.runtime if target else "",
        settings=result.settings,
        test_set=result.test_set,
        host_clock=target is not None and target.cpu == HOST_CPU and not result.emulated_time,
        core=result.core,
        energy=result.energy,
        accuracy=result.accuracy,
        planned=model.planned if model else {},
        image={"text": image.text, "data": image.data, "bss": image.bss} if image else {},
        outputs=_compared_outputs(result, directory, tensors),
        runs_requested=result.runs_requested,
        runs_completed=result.runs_completed,
        method=model.method if model else "",
        chains=model.chains if model else None,
        backends={(call.chain, call.instruction): call.backend for call in model.delegates}
        if model
        else {},
        day=given.day or moment(result.started_utc).date(),
        symbols=symbols,
    )
