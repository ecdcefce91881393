"""Options of ``harness.run`` and ``harness.load``, and the requests that they stand for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from harness.config.board import Board
from harness.config.meter import MeterRequest
from harness.config.project import find_project
from harness.errors import UsageError, did_you_mean
from harness.files import absolute
from harness.history import configured_history
from harness.lab.flash_plan import HowToFlash, Stages
from harness.lab.units import choose
from harness.records.clock_domain import ClockDomain
from harness.runs.baseline import history_of
from harness.runs.probe import PROBE_OPTIONS, ProbeRequest, probe_request
from harness.runs.request import RunRequest, meter_of, request_fields
from harness.runs.source import ReadOptions

PathLike = str | os.PathLike[str]


class RunKeywords(TypedDict, total=False):
    """Options of ``harness.run``, with the defaults of ``etharness run``.

    Attributes:
        runs: Number of executions, of every test set of a bundled program.
        unit: Unit of the lab; sets board and port.
        port: Serial port or address of the board.
        output: Run directory to make; None for a new folder below ``out/``.
        budget: Budget file; None for the project's, or else the board's own.
        history: History to add the result to: SQLite file or postgresql:// URL.
        baseline: Compare with these results of the history: ``last:20``, ``name:NAME`` or
            ``commit:PREFIX``.
        flash: Flash the board first: True builds the firmware, a path is the image to flash.
        placed: Build the firmware with the model in flash, instead of uploading it.
        progress: Called with (stage, done, total) as the run goes on; total 0 means unknown.
        method: Method of the model; of a bundled program by default every one with test sets.
        inputs: One ``.npy`` file per input; random inputs by default.
        seed: Seed of random inputs.
        references: One ``.npy`` file per output with the expected values.
        rtol: Relative tolerance of outputs.
        atol: Absolute tolerance of outputs.
        trace_limit: Bytes of log the device may use.
        stream: Send the log while the model runs.
        baud: Rate of the line, bits per second.
        values: Values to log: ``none``, ``outputs`` or ``intermediate``.
        profile: Events to log: ``method`` or ``all``.
        when_full: What a full log does: ``stop`` or ``drop-oldest``.
        counters: Hardware counters to read at each event, such as ``("cycles", "instret")``.
        counter_passes: Measure counters that do not count at once in several runs.
        time_scales: What ticks of delegates' events mean, by pattern.
        energy: Meter that records the current beside the run (docs/energy.md); None for none. By
            default the unit's.
        commit: The commit that is tested.
        session: Label for results recorded together.
        elf: Firmware on the board, as linked; for a debug probe as port (docs/probes.md).
        until: Function that the firmware calls after each execution; a probe needs it.
        symbol: Variable with the tracer, for a probe; by default it is searched.
        reset: Command to the gdbserver that resets the board before the run.
    """

    runs: int
    unit: str | None
    port: str | None
    output: PathLike | None
    budget: PathLike | None
    history: str | None
    baseline: str | None
    flash: bool | PathLike | HowToFlash
    placed: bool
    progress: Stages | None
    method: str | None
    inputs: Sequence[PathLike]
    seed: int
    references: Sequence[PathLike]
    rtol: float | None
    atol: float | None
    trace_limit: int
    stream: bool
    baud: int | None
    values: str
    profile: str
    when_full: str
    counters: Sequence[str]
    counter_passes: bool
    time_scales: Mapping[str, str]
    energy: MeterRequest | None
    commit: str | None
    session: str | None
    elf: PathLike | None
    until: str | None
    symbol: str | None
    reset: str | None


class RequestedRun(NamedTuple):
    """A run to execute, and who hears of it.

    Attributes:
        request: The request.
        probe: What a debug probe reads; None for a board with a link.
        history: History to add the result to; None for none.
        progress: Called as the run goes on.
    """

    request: RunRequest
    probe: ProbeRequest | None
    history: str | None
    progress: Stages


class LoadKeywords(TypedDict, total=False):
    """Options of ``harness.load``, for files that do not say these things themselves.

    Attributes:
        clock_hz: Ticks per second; ED00 files count nanoseconds by default.
        clock_bits: Width of the counter, 8 to 64 bits.
        dump: The only dump to read of a file with several, from 1.
        salvage: Read the intact parts of a damaged file.
        debug_buffer: File with the bytes of logged tensors.
        time_scales: What ticks of delegates' events mean, by pattern.
        metadata: What counters the metadata of delegates' events contains, by pattern.
        etrecord: ETRecord of the model; limits on modules need it.
        day: Day on which waivers with an end are evaluated.
        board: Board whose rules apply to a trace without a result.
        model: Model whose rules apply, likewise.
    """

    clock_hz: float | None
    clock_bits: int | None
    dump: int | None
    salvage: bool
    debug_buffer: PathLike | None
    time_scales: Mapping[str, str]
    metadata: Mapping[str, str]
    etrecord: PathLike | None
    day: date | None
    board: str
    model: str


def request_of(
    model: PathLike, board: PathLike | Board | None, options: RunKeywords
) -> RequestedRun:
    """Return the request for a run, and who hears of it.

    Raises:
        UsageError: An option is unknown or wrong.
    """
    values: dict[str, Any] = {**options}
    for name in values:
        if name not in RunKeywords.__annotations__:
            hint = did_you_mean(name, RunKeywords.__annotations__)
            hint += f"options: {', '.join(RunKeywords.__annotations__)}"
            raise UsageError(f"a run has no option {name}", hint=hint)
    project = find_project()
    named = str(board.file) if isinstance(board, Board) else None
    if board is not None and not isinstance(board, Board):
        named = os.fspath(board)
    chosen = choose(named, values.pop("unit", None), values.pop("port", None))
    file = absolute(project.find_model(Path(model)))
    history = values.pop("history", None) or configured_history()
    baseline, budget = values.pop("baseline", None), values.pop("budget", None)
    progress = values.pop("progress", None)
    output = values.pop("output", None)
    flash = values.pop("flash", False)
    of_probe = {name: values.pop(name, None) for name in PROBE_OPTIONS}
    if of_probe["elf"] is not None:
        of_probe["elf"] = absolute(of_probe["elf"])
    probe = probe_request(chosen.port, **of_probe, baud=values.get("baud"))
    for name in ("inputs", "references"):
        values[name] = tuple(absolute(item) for item in values.get(name, ()))
    if "energy" not in values:
        values["energy"] = meter_of(chosen.leased, through_probe=probe is not None)
    fields = request_fields({"runs": 1, **values})
    request = RunRequest(
        board=chosen.board,
        model=file,
        port=chosen.port,
        unit=chosen.unit,
        leased=chosen.leased,
        flash=_how(flash, chosen.probe),
        budget=absolute(budget) if budget else project.budget,
        against=history_of(history, baseline) if baseline is not None else None,
        output=absolute(output) if output else _new_folder(chosen.board, file),
        **fields,
    )
    return RequestedRun(request, probe, history, progress or (lambda *_: None))


def read_options(options: LoadKeywords) -> ReadOptions:
    """Return how a path is read.

    Raises:
        UsageError: An option is unknown.
    """
    values: dict[str, Any] = {**options}
    hz = values.pop("clock_hz", None)
    clock = ClockDomain("given", Fraction(hz)) if hz else None
    for name in ("debug_buffer", "etrecord"):
        if values.get(name) is not None:
            values[name] = absolute(values[name])
    try:
        return ReadOptions(clock=clock, **values)
    except TypeError as error:
        known = ", ".join(LoadKeywords.__annotations__)
        raise UsageError(f"wrong option: {error}", hint=f"options: {known}") from None


def _how(flash: bool | PathLike | HowToFlash, probe: str) -> HowToFlash | None:
    if isinstance(flash, HowToFlash):
        return flash
    if isinstance(flash, bool):
        return HowToFlash(probe=probe) if flash else None
    return HowToFlash(absolute(flash), probe=probe)


def _new_folder(board: str, model: Path) -> Path:
    """Make a run directory whose name is not in use."""
    name, number = f"{model.stem}-{Path(board).stem}", 1
    while True:
        folder = absolute(Path("out", f"{name}-{number}"))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise UsageError(f"cannot make {folder}: {error.strerror}") from error
        else:
            return folder
