"""Follows the operators of unmodified firmware by breakpoints, through a debug probe.

The board stops where an execution and an instruction begin and end, and a counter is read at each
stop. A stop costs time; what it costs of the counter is measured on intervals of three
instructions, and subtracted. At most four breakpoints are set at once, as cores have four to eight.
"""

from __future__ import annotations

import statistics
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from harness.config.board import Timer
from harness.decode.program import Call, Method
from harness.errors import FormatError, TargetError, UsageError
from harness.extensions.probes.debug_probe import DebugProbe
from harness.extensions.probes.executorch_code import ExecutorchCode, Role
from harness.extensions.probes.follow_executorch import (
    NO_PLACE,
    EventTable,
    Place,
    kernel_event,
    successors,
)
from harness.records.trace import DELEGATE_CALL, EXECUTION, OPERATOR_CALL, ClockDomain, Trace

MOST_BREAKPOINTS: Final = 4
"""Breakpoints that every core has."""
_MEASURED: Final = 8
"""Empty intervals that are measured."""
_EMPTY: Final = 3
"""Instructions in an empty interval."""
_STATE: Final = struct.Struct("<II")
"""``Method::step_state_``, its first member: chain and instruction, of a 32-bit CPU."""

_PRIMITIVE: Final = "executorch_prim::"
"""Operators that are registered by hand, without a scope of their own."""

_DEMCR, _TRACE_ENABLE = 0xE000EDFC, 1 << 24
_DWT_CONTROL, _COUNT_CYCLES, _NO_CYCLES = 0xE0001000, 1 << 0, 1 << 25
_SYSTICK_CONTROL, _SYSTICK_RELOAD = 0xE000E010, 0xE000E014

STOPS, RUNS_ON, UNKNOWN = "stops", "runs on", "unknown"
"""Whether a counter counts while a debugger halts the core."""


@dataclass(frozen=True, slots=True)
class MemoryCounter:
    """A counter that a debug probe reads from memory.

    Attributes:
        name: Its name in the trace.
        address: Address of its 32-bit register.
        bits: Width.
        down: It counts down.
        hz: Ticks per second; None if it is unknown.
        halted: What it does while the core is halted: `STOPS`, `RUNS_ON` or `UNKNOWN`.
    """

    name: str
    address: int
    bits: int = 32
    down: bool = False
    hz: Fraction | None = None
    halted: str = UNKNOWN

    @property
    def clock(self) -> ClockDomain:
        """The clock of a trace, whose times are joined over wraps."""
        return ClockDomain(self.name, self.hz, 64)


def parse_counter(text: str | None, hz: int | None, timer: Timer) -> MemoryCounter:
    """Return the counter that an option or a board file names.

    Args:
        text: ``cyccnt``, ``systick``, or ``ADDRESS[:BITS][:down]``; None for the board file's.
        hz: Its rate; None for that of the board file, if it has the same counter.
        timer: The board file's.

    Raises:
        UsageError: It is none of these, or the board file names none that is known.
    """
    source = timer.source.lower()
    known = next(
        (
            name
            for name, words in (("cyccnt", ("cyccnt", "dwt")), ("systick", ("systick",)))
            if any(word in source for word in words)
        ),
        None,
    )
    name = text or known
    if name is None:
        raise UsageError(
            f"the address of the board's timer ({timer.source}) is not known",
            hint="name a counter with --counter: cyccnt, systick, or ADDRESS[:BITS][:down]",
        )
    rate = Fraction(hz if hz is not None else timer.hz) if hz or name in (None, known) else None
    if name == "cyccnt":
        return MemoryCounter(name, 0xE0001004, 32, False, rate, STOPS)
    if name == "systick":
        return MemoryCounter(name, 0xE000E018, 24, True, rate, STOPS)
    address, *rest = name.split(":")
    down = "down" in rest
    widths = [word for word in rest if word != "down"]
    try:
        at, bits = int(address, 0), int(widths[0]) if widths else 32
    except ValueError:
        at = bits = -1
    if at < 0 or at % 4 or not 8 <= bits <= 32 or len(widths) > 1:
        raise UsageError(
            f"--counter {name}: not a counter",
            hint="use cyccnt, systick, or ADDRESS[:BITS][:down], such as 0x40000024:32:down",
        )
    return MemoryCounter(f"counter at {at:#x}", at, bits, down, rate)


@dataclass(slots=True)
class StopCost:
    """What stops cost of the counter.

    Attributes:
        empty: Ticks of intervals of three instructions, each with one stop.
        stops: Number of stops until now.
    """

    empty: list[int] = field(default_factory=list)
    stops: int = 0

    @property
    def ticks(self) -> int:
        """Ticks of a stop, subtracted from each interval."""
        return round(statistics.median(self.empty)) if self.empty else 0

    @property
    def bound(self) -> int:
        """How far the cost varied among the empty intervals, with their own instructions."""
        return max(self.empty, default=0) - min(self.empty, default=0) + _EMPTY


class _Reading:
    """Reads the counter at each stop, joined over wraps."""

    def __init__(self, probe: DebugProbe, counter: MemoryCounter) -> None:
        self._probe, self._counter = probe, counter
        self._total = 0
        self._last = self._raw()

    def now(self) -> int:
        """Return the ticks since the first reading, stops included."""
        raw = self._raw()
        passed = self._last - raw if self._counter.down else raw - self._last
        self._total += passed % (1 << self._counter.bits)
        self._last = raw
        return self._total

    def _raw(self) -> int:
        word = int.from_bytes(self._probe.read(self._counter.address, 4), "little")
        return word % (1 << self._counter.bits)


def start_counter(probe: DebugProbe, counter: MemoryCounter) -> None:
    """Have a counter of the core count; the board is halted.

    Raises:
        TargetError: The core does not have it, or it wraps too early.
    """

    def word(address: int) -> int:
        return int.from_bytes(probe.read(address, 4), "little")

    def write(address: int, value: int) -> None:
        probe.write(address, value.to_bytes(4, "little"))

    if counter.name == "cyccnt":
        write(_DEMCR, word(_DEMCR) | _TRACE_ENABLE)
        if word(_DWT_CONTROL) & _NO_CYCLES:
            raise TargetError(
                "the core has no cycle counter (DWT_CTRL.NOCYCCNT)",
                hint="name another one with --counter",
            )
        write(_DWT_CONTROL, word(_DWT_CONTROL) | _COUNT_CYCLES)
        if not word(_DWT_CONTROL) & _COUNT_CYCLES:
            raise TargetError(
                "the core's cycle counter cannot be started",
                hint="name another counter with --counter: emulated cores often lack it",
            )
    elif counter.name == "systick":
        if not word(_SYSTICK_CONTROL) & 1:
            raise TargetError("SysTick does not run", hint="name another counter with --counter")
        if (reload := word(_SYSTICK_RELOAD)) != 0xFFFFFF:
            raise TargetError(
                f"SysTick wraps every {reload + 1:,} ticks, so that longer intervals are ambiguous",
                hint="name another counter with --counter",
            )


@dataclass(frozen=True, slots=True)
class Stopped:
    """What was traced by stops.

    Attributes:
        trace: The events.
        cost: What stops cost.
    """

    trace: Trace
    cost: StopCost


@dataclass(slots=True)
class _Interval:
    """Readings at the begin and the end of something, and the numbers of stops before them."""

    names: tuple[str, ...]
    place: Place
    begin: tuple[int, int]
    end: tuple[int, int] = (0, 0)


Described = tuple[tuple[str, ...], Place]
"""Names of the events of an operator, the inner one first, and its place."""

PlaceOf = Callable[[int, int], Described]
"""Describes an operator, given the address of its function and its number in the execution."""


class StopFollower:
    """Lets a board run from one begin or end to the next.

    Attributes:
        this: The first argument of the last execution, of ExecuTorch its ``Method``.
    """

    def __init__(
        self,
        probe: DebugProbe,
        counter: MemoryCounter,
        timeout_s: float,
        *,
        execution: int,
        thumb: bool,
    ) -> None:
        """Prepare.

        Args:
            probe: The probe; the board is halted.
            counter: The counter.
            timeout_s: Longest time to the next stop, seconds.
            execution: Address of the function that is an execution.
            thumb: Whether its CPU is an Arm of profile M; otherwise it is RISC-V.
        """
        self._probe, self._counter, self._timeout_s = probe, counter, timeout_s
        self._execution, self.this = execution, 0
        self._cost = StopCost()
        self._intervals: list[list[_Interval]] = []
        self._whole: list[_Interval] = []
        self._thumb = thumb
        self._behind_begin: dict[int, int] = {}

    def follow(
        self,
        begins: Mapping[int, str],
        runs: int,
        place: PlaceOf,
        progress: Callable[[int], None],
    ) -> None:
        """Follow executions.

        Args:
            begins: Functions that are called once per instruction, by the address of their begin.
            runs: Number of executions.
            place: Returns name and place of an instruction, given its address and number; None for
                one without an event.
            progress: Called with the number of executions so far.

        Raises:
            TargetError: The board did not get to the next stop in time.
            ProbeError: The probe failed.
        """
        self._probe.watch((self._execution,))
        for number in range(runs):
            progress(number)
            self._go()
            if number == 0:
                start_counter(self._probe, self._counter)
                self._reading = _Reading(self._probe, self._counter)
            self._follow_one(begins, place)
        self._probe.watch(())

    def _follow_one(
        self,
        begins: Mapping[int, str],
        place: PlaceOf,
    ) -> None:
        leaves, self.this = self._probe.return_address(), self._probe.argument()
        whole = _Interval((EXECUTION,), NO_PLACE, self._mark())
        self._probe.watch((*begins, leaves))
        done: list[_Interval] = []
        at = self._go()
        while at != leaves:
            number = len(done)
            back = self._probe.return_address()
            described = place(at, number)
            interval = _Interval(*described, self._mark())
            # The counter was read after ``place``, so that what this reads is in no interval.
            if len(self._cost.empty) < _MEASURED:
                self._measure(at, leaves, interval.begin[0])
            self._probe.watch((back, leaves))
            at = self._go()
            interval.end = self._mark()
            done.append(interval)
            if at == leaves:
                raise TargetError("an execution ended within one of its operators")
            # Between two operators nothing else is of interest.
            self._probe.watch((*begins, leaves))
            at = self._go()
        whole.end = self._mark()
        self._whole.append(whole)
        self._intervals.append(done)
        self._probe.watch((self._execution,))

    def _measure(self, at: int, leaves: int, before: int) -> None:
        """Measure a stop on an empty interval: the first instructions of an operator.

        Args:
            at: The first instruction, at which the board is.
            leaves: Where the execution ends.
            before: The reading at this stop.
        """
        behind = self._behind(at)
        if behind == at:
            return
        self._probe.watch((behind, leaves))
        if self._go() == behind:
            self._cost.empty.append(self._mark()[0] - before)

    def _behind(self, address: int) -> int:
        """Return the address behind the first instructions of a function, up to one that jumps."""
        if address not in self._behind_begin:
            code = self._probe.read(address, 4 * _EMPTY)
            at = 0
            for _ in range(_EMPTY):
                size, jumps = (_thumb if self._thumb else _riscv)(code[at : at + 4])
                if jumps:
                    break
                at += size
            self._behind_begin[address] = address + at
        return self._behind_begin[address]

    def _go(self) -> int:
        self._cost.stops += 1
        return self._probe.run_to_watched(self._timeout_s)

    def _mark(self) -> tuple[int, int]:
        """Return the ticks until now, and the number of stops in them."""
        return self._reading.now(), self._cost.stops

    def trace(self) -> Stopped:
        """Return what was followed, without what the stops cost."""
        events = EventTable()
        cost, clock, last = self._cost.ticks, 0, (0, 0)

        def pass_until(mark: tuple[int, int]) -> int:
            """Return the time at a mark: what passed since the last one, without its stops."""
            nonlocal clock, last
            ticks, stops = (now - before for now, before in zip(mark, last, strict=True))
            # Less than nothing is the stops' share of the error; it must not reach neighbours.
            clock, last = clock + max(0, ticks - cost * stops), mark
            return clock

        for whole, intervals in zip(self._whole, self._intervals, strict=True):
            began = pass_until(whole.begin)
            for each in intervals:
                begin, end = pass_until(each.begin), pass_until(each.end)
                for name in each.names:
                    events.add(name, begin, end, each.place)
            events.add(EXECUTION, began, pass_until(whole.end))
            events.finish_block("Execute")
        return Stopped(events.trace(self._counter.clock), self._cost)


def _thumb(code: bytes) -> tuple[int, bool]:
    """Return the bytes of a Thumb instruction, and whether it may go elsewhere than behind it."""
    first, second = struct.unpack("<HH", code)
    if first >> 11 >= 0b11101:
        branch = first >> 11 == 0b11110 and second & 0x8000 != 0
        load = first & 0xFE50 == 0xE810 or first & 0xFE70 == 0xF850  # may load pc
        return 4, branch or load
    return 2, (
        first >> 12 == 0xD  # conditional branch
        or first >> 11 == 0b11100  # branch
        or first & 0xFF00 in (0x4700, 0xBD00)  # bx, blx; pop {..., pc}
        or first & 0xF500 == 0xB100  # cbz, cbnz
        or first & 0xFF00 == 0xBF00  # it: what follows is conditional
    )


def _riscv(code: bytes) -> tuple[int, bool]:
    """Return the same of a RISC-V instruction."""
    (word,) = struct.unpack("<I", code)
    if word & 3 == 3:
        return 4, word & 0x7F in (0x63, 0x67, 0x6F)  # branches, jalr, jal
    kind = word & 0xE003
    jumps = kind in (0x2001, 0xA001, 0xC001, 0xE001)  # c.jal, c.j, c.beqz, c.bnez
    return 2, jumps or (kind == 0x8002 and word & 0x7C == 0)  # c.jr, c.jalr


class InstructionPlaces:
    """Tells which instruction of a method is about to be executed, from the board's memory."""

    def __init__(self, probe: DebugProbe, method: Method | None) -> None:
        """Prepare.

        Args:
            probe: The probe.
            method: The method from the model's file; None if it is not known.
        """
        self._probe, self._method = probe, method
        self._readable = True
        self._last: Place | None = None

    def __call__(self, _: int, number: int) -> Described:
        """Return the events of an instruction and its place.

        A stop at ``execute_instruction`` does not tell the scope ``OPERATOR_CALL`` from the one of
        the kernel within it: both have its time.

        Raises:
            TargetError: It is none of the method's.
        """
        chain, index = _STATE.unpack(self._probe.read(self._probe.argument(), _STATE.size))
        if number == 0:
            self._last = None
            # A release that has another member first tells nothing here.
            self._readable = (chain, index) == self._first()
        place = (chain, index) if self._readable else None
        if self._method is None:
            return ("Method::execute_instruction",), place or NO_PLACE
        if place is None:
            raise TargetError(
                "the state of Method is not where releases 0.4 to 1.5 have it, so that nothing "
                "tells its instructions",
                hint="leave out --model to number nothing",
            )
        instruction = self._method.instruction(*place)
        if instruction is None or not self._follows(place):
            raise TargetError(
                f"the firmware runs another model: it executes instruction {index} of chain "
                f"{chain} after {self._last}, which {self._method.name} of the model does not",
            )
        self._last = place
        if instruction.call == Call.KERNEL:
            kernel = () if instruction.name.startswith(_PRIMITIVE) else (kernel_event(instruction),)
            return (*kernel, OPERATOR_CALL), place
        return (DELEGATE_CALL,) if instruction.call == Call.DELEGATE else (), place

    def _first(self) -> Place:
        chains = self._method.chains if self._method is not None else ((None,),)
        return next(((number, 0) for number, chain in enumerate(chains) if chain), (0, 0))

    def _follows(self, place: Place) -> bool:
        assert self._method is not None
        return self._last is None or place in successors(self._method, self._last, separate=True)


def instruction_begins(code: ExecutorchCode, image: object) -> dict[int, str]:
    """Return the function that is called once per instruction, by its address.

    Raises:
        FormatError: The compiler has inlined it.
    """
    instruction = code.of(Role.INSTRUCTION)
    if instruction is None:
        raise FormatError(
            f"{image} has no function Method::execute_instruction, which breakpoints need: the "
            "compiler has inlined it",
            hint="trace the image under QEMU, which counts at kernels, or build the runtime "
            "without link-time optimization",
        )
    return {instruction.begin: instruction.name}


def describe_cost(cost: StopCost, counter: MemoryCounter) -> str:
    """Return a sentence about what stops cost, and how far times may be off."""
    halted = {
        STOPS: "which stops while the core is halted",
        RUNS_ON: "which runs on while the core is halted",
        UNKNOWN: "which may run on while the core is halted",
    }[counter.halted]
    return (
        f"stops: {cost.stops:,}; each costs {cost.ticks:,} ticks of {counter.name}, {halted}, "
        f"measured on {len(cost.empty)} empty intervals and subtracted; it varied by "
        f"{cost.bound:,} ticks among them, and so may the time of an operator"
    )
