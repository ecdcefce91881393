"""Keywords of ``harness.run`` and ``harness.load``, for type checkers.

Generated from ``harness/records/run_settings.py`` by ``schema/generate.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TypedDict

from harness.config.unit import MeterRequest
from harness.flash.plan import HowToFlash, Stages

PathLike = str | os.PathLike[str]


class RunKeywords(TypedDict, total=False):
    """Options of ``harness.run``, with the defaults of ``etharness run``.

    Attributes:
        runs: Number of executions; of a bundled program, of each test set; with --steps, of the
            whole sequence.
        output: Run directory to create; None for a new folder below ``out/``.
        name: Name of the model in results, budgets and histories, where its file name tells too
            little. Default: its file name.
        method: Method of the model to execute. Default: forward; of a bundled program every method
            with test sets.
        data: ``.ptd`` files with external data of the model.
        placed: Build the firmware with the model in flash instead of uploading it; a board on a
            port also needs --flash.
        inputs: One ``.npy`` file per input; random values by default, or those of the test sets.
        steps: Folder with a folder for each step of a sequence: its inputs/, and reference/ with
            its expected outputs. The model keeps its state from step to step.
        state: What the model's own buffers contain when an execution begins: keep (what the one
            before left), reset (their initial contents), or auto (reset where what is compared with
            references is repeated).
        seed: Seed of the random inputs.
        dataset: Samples (.npz with inputs, and labels or references), or the name of a file of this
            package: all run, for accuracy; the log is of the first (`etharness explain accuracy`).
        baud: Switch the serial line to this rate, bits per second. Default: the best rate of the
            unit or board file.
        profile: Events to log: the scopes around the method, or all.
        values: Values to log: none, outputs (of the method), or intermediate (of every instruction
            too).
        stream: Send the log while the model runs; its length is then unlimited.
        live: With ``stream``, append the events to this Perfetto trace while the model runs.
        when_full: Action when the log is full: stop (logging), or drop-oldest (executions).
        counters: Hardware counters to read at each event, such as ``("cycles", "instret")``.
        counter_passes: Measure more counters than the board counts at once, in several runs, and
            join them.
        trace_limit: Maximum size of the log on the device, bytes; 0 for all its log memory.
        time_scales: Tick rates of delegates' events by pattern: ``{"npu*": "100 MHz"}``.
        budget: Budget file to check. Default: the project's, or the board file's.
        references: One ``.npy`` file per output with the expected values.
        rtol: Relative tolerance of outputs. Default: by data type.
        atol: Absolute tolerance of outputs, added to --rtol. Default: by data type; integers must
            match exactly.
        repeat: Number of runs in one session, each with all executions; they are compared together.
        detect: Repeat the run until the comparison would notice a change of this size, such as 3%,
            or the time is up (--repeat-time).
        look_again: Number of times that a suspect change is measured again, at most; 0 for never.
        repeat_time: Longest time for repeats that were not asked for with --repeat. Default: five
            times that of the run, or of a pair with the baseline.
        baseline_model: Model of the baseline, to measure a suspect change in pairs with it.
            Default: that of the newest baseline result, if a run on this computer has kept it.
        session: Label for results recorded together. Default: $ETHARNESS_SESSION, or this run
            alone.
        commit: Commit under test. Default: $ETHARNESS_COMMIT, or the model's checkout.
        unit: Lab unit (see `etharness lab units`); sets board and port. With --board it only labels
            results. Default: the port.
        units: Unit file of the lab. Default: $ETHARNESS_UNITS, ./units.toml, or ~/.config/etdump-
            harness/units.toml.
        port: Port of the board: a serial device, a URL (`etharness explain remote`) or a debug
            probe (`etharness explain probes`). Default: the unit's.
        flash: Flash the board before the run: True builds the firmware, a path is the image.
        image: Image to flash: ELF, Intel HEX, UF2 or .bin. Default: the board's firmware, built
            here.
        tool: Flashing tool. Default: the first installed one that the board file lists.
        probe: Debug probe to flash with, as VID:PID:Serial, hexadecimal; by default the unit's, or
            the only one.
        elf: Firmware on the board, as linked, with its symbols; needed for gdb:// and pyocd://.
        symbol: Variable that is, contains or points to the tracer. Default: search all.
        until: Let the board run until it enters this function, and read the trace there. Default:
            read when no event is open.
        reset: Reset the board first by this command of the gdbserver: 'reset halt' (OpenOCD,
            pyOCD), 'reset' (J-Link) or 'system_reset' (QEMU). Default: no reset.
        energy: Meter that records the current beside the run, such as ``ppk2`` (docs/energy.md);
            None or ``none`` for none. By default the unit's.
        volts: Voltage of the supply, for a meter that does not measure it.
        marker_pin: Digital input of the meter that is wired to the board's marker pin. Default: 0.
        supply: Let a PPK2 supply the board with --volts.
        history: Add the result to this history: an SQLite file or postgresql:// URL. Default:
            $ETHARNESS_HISTORY, or none.
        baseline: Compare with this baseline from the history: last:20, name:NAME or commit:PREFIX
            (`etharness explain verdicts`).
        progress: Called with (stage, done, total) as the run goes on; total 0 means unknown.
    """

    runs: int
    output: PathLike | None
    name: str | None
    method: str | None
    data: Sequence[PathLike]
    placed: bool
    inputs: Sequence[PathLike]
    steps: PathLike | None
    state: str
    seed: int
    dataset: PathLike | None
    baud: int | None
    profile: str
    values: str
    stream: bool
    live: PathLike | None
    when_full: str
    counters: Sequence[str]
    counter_passes: bool
    trace_limit: int
    time_scales: Mapping[str, str]
    budget: PathLike | None
    references: Sequence[PathLike]
    rtol: float | None
    atol: float | None
    repeat: int
    detect: str | None
    look_again: int
    repeat_time: float | None
    baseline_model: PathLike | None
    session: str | None
    commit: str | None
    unit: str | None
    units: PathLike | None
    port: str | None
    flash: bool | PathLike | HowToFlash
    image: PathLike | None
    tool: str | None
    probe: str
    elf: PathLike | None
    symbol: str | None
    until: str | None
    reset: str | None
    energy: str | MeterRequest | None
    volts: float | None
    marker_pin: int | None
    supply: bool
    history: str | None
    baseline: str | None
    progress: Stages | None


class LoadKeywords(TypedDict, total=False):
    """Options of ``harness.load``, for files that do not say these things themselves.

    Attributes:
        clock_hz: Ticks per second of a file that records no rate. Default: nanoseconds for ED00
            files.
        clock_bits: Width of the counter, 8 to 64 bits; ticks wrap at 2**N. Default: the recorded
            width; 64 for ED00 files.
        salvage: Read the intact parts of a damaged file and report the rest.
        debug_buffer: File with the bytes of the tensors that an ETDump logged.
        dump: Read only the Nth dump of a file with several; a device that was reset puts the newest
            first. Default: all, as one trace.
        time_scales: Tick rates of delegates' events by pattern: ``{"npu*": "100 MHz"}``.
        metadata: Counters in the metadata of delegates' events by pattern: ``{"npu*":
            "npu_macs:u32"}``.
        etrecord: ETRecord of the model; limits on modules need it.
        day: Day on which waivers with an end are evaluated. Default: that of the run, or today.
        board: Board whose rules apply to a trace without a result.
        model: Model whose rules apply, likewise.
    """

    clock_hz: float | None
    clock_bits: int | None
    salvage: bool
    debug_buffer: PathLike | None
    dump: int | None
    time_scales: Mapping[str, str]
    metadata: Mapping[str, str]
    etrecord: PathLike | None
    day: date | None
    board: str
    model: str
