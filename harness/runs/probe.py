"""Reads a trace from the memory of a board through a debug probe; the firmware has no link."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.config.board import Board
from harness.decode.device_log import join_debug_buffers
from harness.decode.device_log_format import TracerField
from harness.decode.firmware_elf import FirmwareElf
from harness.decode.method_memory import find_methods, has_readable_outputs, read_outputs
from harness.decode.tracer_memory import (
    MemoryLog,
    TracerState,
    check_firmware,
    find_tracers,
    have_settled,
    read_memory_log,
    read_state,
)
from harness.errors import TargetError, UsageError
from harness.flash.image import read_image
from harness.lab.units import Chosen, hold_if
from harness.link.ports import is_probe
from harness.link.probe import DebugProbe, halted, open_probe
from harness.records.clock_domain import ClockDomain
from harness.records.result import TargetRecord, TraceSummary
from harness.records.trace import NO_CLOCK
from harness.runs.device_data import save_trace
from harness.runs.directory import RunDirectory, from_clock_domain
from harness.runs.source import read_trace
from harness.target.lease.holding import hold_keys
from harness.target.lease.records import port_key

if TYPE_CHECKING:
    from harness.decode.program import Method
    from harness.link.values import TensorInfo
    from harness.records.trace import Trace

_log = logging.getLogger(__name__)

PROBE_OPTIONS: Final = ("elf", "symbol", "until", "reset")
"""Options that a run through a debug probe has beside those of other runs."""

_BETWEEN_S: Final = 0.05
"""Time between two looks at a tracer: longer than it takes to move the records of a log."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What a debug probe reads, and when.

    Attributes:
        elf: The firmware on the board.
        symbol: Variable with the tracer; None to find all tracers.
        until: Function at which to read; None for any moment at which no event is open.
        reset: Command to the gdbserver that resets the board first; None to leave it running.
    """

    elf: Path
    symbol: str | None = None
    until: str | None = None
    reset: str | None = None


def probe_request(
    port: object,
    elf: Path | None,
    symbol: str | None,
    until: str | None = None,
    reset: str | None = None,
    baud: int | None = None,
) -> ProbeRequest | None:
    """Return the request for a debug probe; None if ``port`` is not one.

    Raises:
        UsageError: An option is missing, or given for another kind of port.
    """
    if not is_probe(port):
        if elf or symbol or until or reset:
            raise UsageError(
                "--elf, --symbol, --until and --reset need a debug probe as --port",
                hint="use --port gdb://host:port or pyocd://",
            )
        return None
    if baud is not None:
        raise UsageError(f"{port} is a debug probe, which has no baud rate", hint="omit --baud")
    if elf is None:
        raise UsageError(
            f"{port} is a debug probe, which needs the firmware's symbols",
            hint="give the ELF file of the firmware with --elf",
        )
    return ProbeRequest(elf, symbol, until, reset)


class MemoryTracers:
    """The tracers of a board, read through a debug probe."""

    def __init__(self, probe: DebugProbe, wanted: ProbeRequest, elf: FirmwareElf) -> None:
        self._probe, self._wanted, self._elf = probe, wanted, elf
        self._addresses: Sequence[int] = ()
        self._states: list[TracerState] = []

    def find(self) -> None:
        """Compare the firmware, and find the tracers; the board is halted.

        Raises:
            UsageError: The firmware has no tracer, or no such variable.
            TargetError: The board runs other firmware, or has not initialized a tracer.
        """
        check_firmware(self._elf, self._probe.read)
        self._addresses = find_tracers(self._elf, self._probe.read, self._wanted.symbol)

    def states(self) -> list[TracerState]:
        """Return the fields of all tracers; the board is halted."""
        if not self._addresses:
            self.find()
        self._states = [read_state(at, self._probe.read) for at in self._addresses]
        return self._states

    def capacity(self, field: TracerField) -> int:
        """Return the sum of a size over all tracers, bytes, as read last."""
        return sum(state.fields[field] for state in self._states)

    def read(self, states: Sequence[TracerState]) -> MemoryLog:
        """Read the logs of all tracers as one; the board is halted."""
        logs = [read_memory_log(state, self._probe.read) for state in states]
        image = b"".join(log.image for log in logs)
        return MemoryLog(image, join_debug_buffers([log.debug for log in logs]))

    def read_settled(self, timeout_s: float) -> MemoryLog:
        """Read the logs once no event is open and they do not change; the board runs between looks.

        Raises:
            UnsettledError: That did not happen in time.
        """
        deadline = time.monotonic() + timeout_s
        before: list[TracerState] = []
        while True:
            with halted(self._probe):
                states = self.states()
                if have_settled(before, states):
                    return self.read(states)
                if time.monotonic() > deadline:
                    raise UnsettledError(self.read(states), timeout_s)
            before = states
            time.sleep(_BETWEEN_S)

    def read_outputs(self, method: Method) -> list[tuple[TensorInfo, bytes]]:
        """Read the outputs of a method's last execution; the board is halted.

        Raises:
            UnreadOutputsError: The bundled runtime did not execute it, not in a variable, or an
                output is not a tensor.
            TargetError: Memory of an output was overwritten.
        """
        if not has_readable_outputs(method):
            raise UnreadOutputsError(f"an output of {method.name} is not a tensor")
        found = find_methods(self._elf, self._probe.read, self._addresses, method)
        if len(found) != 1:
            raise UnreadOutputsError(
                f"{method.name} of this model is loaded in {len(found)} variables of the firmware",
                hint="keep its etd_method in a static variable; outputs of other runtimes than "
                "the bundled one cannot be read",
            )
        return read_outputs(found[0], self._probe.read, method)

    def read_at(self, function: str, count: int, timeout_s: float) -> MemoryLog:
        """Let the board run until it has entered a function ``count`` times, and read the logs.

        Args:
            function: Name of the function.
            count: Number of times.
            timeout_s: Longest wait for each time, seconds.

        Raises:
            TargetError: It was not reached in time, or while an event was open.
        """
        address = self._elf.function(function).address
        for number in range(count):
            _log.info("running to %s at %#x, %d of %d", function, address, number + 1, count)
            self._probe.run_to(address, timeout_s)
        states = self.states()
        if not all(state.is_idle for state in states):
            raise TargetError(
                f"{function} was reached while an execution was under way",
                hint="name a function with --until that is called after the execution",
            )
        return self.read(states)


class UnreadOutputsError(TargetError):
    """The outputs of a model are not found in the memory of a board."""


class UnsettledError(TargetError):
    """The log of a board kept changing, or an event stayed open.

    Attributes:
        log: The log at the last look; its last records may be incomplete.
    """

    def __init__(self, log: MemoryLog, timeout_s: float) -> None:
        super().__init__(
            f"the log did not settle within {timeout_s:g} s: an execution is under way, or one "
            "follows the other",
            hint="name a function with --until at which the log is complete; if the board hangs, "
            "`etharness postmortem` shows where",
        )
        self.log = log


@contextmanager
def probe_of(chosen: Chosen, board: Board, purpose: str) -> Iterator[tuple[Chosen, DebugProbe]]:
    """Lease the unit and the probe, and connect; the board runs on at the end.

    Raises:
        BusyError: Another process holds one of them.
        ProbeError: There is no connection.
    """
    timeout_s = board.deadlines.unit_s
    with hold_if(chosen.leased, reason=purpose, timeout_s=timeout_s) as held:
        chosen = chosen.at(held)
        port = str(chosen.port)
        with hold_keys([port_key(port)], timeout_s, reason=purpose), open_probe(port) as probe:
            yield chosen, probe


def decode_log(log: MemoryLog, board: Board, directory: RunDirectory) -> tuple[Trace, TraceSummary]:
    """Decode and save a log. Only the first of its clocks has a known rate, from the board file.

    The description of the others is in HELLO, which a firmware without a link does not have.
    """
    timer = board.timer
    first = ClockDomain(timer.source, Fraction(timer.hz), timer.bits, monotonic=timer.monotonic)
    numbers = read_trace(log.image, ()).clock
    count = int(numbers[numbers != NO_CLOCK].max(initial=0)) + 1
    others = (ClockDomain(f"clock {number}", None, 32) for number in range(1, count))
    return save_trace(log.image, log.debug, (first, *others), directory)


def target_in_memory(
    board: Board, elf: FirmwareElf, trace: Trace, tracers: MemoryTracers
) -> TargetRecord:
    """Return the record of a board that describes itself by its file and its firmware only."""
    return TargetRecord(
        board=board.name,
        cpu=board.cpu,
        build_id=read_image(elf.path).build_id() or elf.build_id,
        link_version=0,
        mtu=0,
        clocks=tuple(from_clock_domain(clock) for clock in trace.clocks),
        model_capacity=0,
        arena_capacity=0,
        input_capacity=0,
        trace_capacity=tracers.capacity(TracerField.CAPACITY),
        debug_capacity=tracers.capacity(TracerField.DEBUG_CAPACITY),
        probe_ticks=0,
        probe_pairs=0,
        operators=0,
    )


def disturbance(probe: DebugProbe) -> dict[str, int]:
    """Return what the probe did to the board, for the result: counts, bytes and microseconds."""
    done = probe.statistics
    return {
        "probe_requests": done.requests,
        "probe_bytes": done.bytes_read,
        "halts": done.halts,
        "halted_us": round(done.halted_s * 1e6),
        "longest_halt_us": round(done.longest_halt_s * 1e6),
    }
