"""Operators followed by breakpoints: the cost of stops is taken off, and counters are known."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any, cast

import pytest

from harness import Call, FormatError, Instruction, Method, TargetError, Trace, UsageError
from harness.config.board import Timer
from harness.extensions.probes.executorch_code import CodeSet, ExecutorchCode, Role
from harness.extensions.probes.stops import (
    InstructionPlaces,
    MemoryCounter,
    StopFollower,
    describe_cost,
    instruction_begins,
    parse_counter,
    start_counter,
)

EXECUTE, INSTRUCTION = 0x100, 0x200
AFTER_EXECUTE, AFTER_INSTRUCTION = 0x80, 0x120
COUNTER, METHOD = 0x40000000, 0x20000000
PROLOGUE = bytes.fromhex("f0b5 84b0 0546 0000 0000 0000")  # push; sub; mov
BEHIND = INSTRUCTION + 6


class ScriptedBoard:
    """A board that executes operators of known ticks, with a counter that runs on at stops.

    Attributes:
        stop: Ticks that a stop takes; the n-th one takes ``jitter`` more if n is odd.
    """

    def __init__(self, works: Sequence[int], *, stop: int, jitter: int = 0, first: int = 0) -> None:
        self.stop, self.jitter, self._counter = stop, jitter, first
        self._watched: set[int] = set()
        self._stops = 0
        self._script: list[tuple[int, int, int]] = []
        self._place = (0, 0)
        for _ in range(3):
            self._script.append((50, EXECUTE, 0))
            for index, work in enumerate(works):
                self._script += [(7, INSTRUCTION, index), (1, BEHIND, index)]
                self._script.append((work - 1, AFTER_INSTRUCTION, index))
            self._script.append((9, AFTER_EXECUTE, 0))
        self._at = 0

    def watch(self, addresses: Collection[int]) -> None:
        self._watched = set(addresses)
        assert len(self._watched) <= 4

    def run_to_watched(self, timeout_s: float) -> int:
        for ticks, address, index in iter(lambda: self._script.pop(0), None):
            self._counter += ticks
            if address in self._watched:
                self._stops += 1
                self._counter += self.stop + self.jitter * (self._stops % 2)
                self._at, self._place = address, (0, index)
                return address
        raise AssertionError

    def return_address(self) -> int:
        return {EXECUTE: AFTER_EXECUTE, INSTRUCTION: AFTER_INSTRUCTION}[self._at]

    def argument(self) -> int:
        return METHOD

    def read(self, address: int, size: int) -> bytes:
        if address == METHOD:
            return struct.pack("<II", *self._place)
        if address == COUNTER:
            return struct.pack("<I", self._counter % 2**16)
        assert address == INSTRUCTION
        return PROLOGUE[:size]


def kernels(*names: str) -> Method:
    chain = tuple(Instruction(Call.KERNEL, f"aten::{name}.out", ()) for name in names)
    return Method("forward", (), (), (), (chain,), (), (0,))


def follow(board: ScriptedBoard, method: Method, runs: int = 2) -> StopFollower:
    probe = cast("Any", board)
    counter = MemoryCounter("timer", COUNTER, 16)
    follower = StopFollower(probe, counter, 1.0, execution=EXECUTE, thumb=True)
    names = {INSTRUCTION: "execute_instruction"}
    follower.follow(names, runs, InstructionPlaces(probe, method), lambda _: None)
    return follower


def ticks_of(trace: Trace, name: str) -> list[int]:
    rows = trace.named(name)
    return (trace.end[rows].astype(int) - trace.start[rows].astype(int)).tolist()


def test_the_cost_of_stops_is_taken_off_and_wraps_are_joined() -> None:
    board = ScriptedBoard([1000, 40_000, 500], stop=700, first=65_000)
    stopped = follow(board, kernels("add", "mul", "relu")).trace()
    assert stopped.cost.ticks == 701  # with an instruction of the empty interval
    assert stopped.cost.empty == [701] * 6
    assert ticks_of(stopped.trace, "OPERATOR_CALL") == pytest.approx([1000, 40_000, 500] * 2, abs=2)
    assert ticks_of(stopped.trace, "native_call_mul.out") == pytest.approx([40_000] * 2, abs=2)
    assert [block.name for block in stopped.trace.blocks] == ["Execute", "Execute"]
    rows = stopped.trace.named("OPERATOR_CALL")
    assert stopped.trace.instruction[rows].tolist() == [0, 1, 2] * 2


def test_what_stops_vary_by_is_said() -> None:
    board = ScriptedBoard([10, 5000], stop=300, jitter=90)
    counter = MemoryCounter("timer", COUNTER, 16)
    stopped = follow(board, kernels("add", "mul")).trace()
    assert stopped.cost.bound >= 3
    measured = ticks_of(stopped.trace, "OPERATOR_CALL")
    assert measured[1] == pytest.approx(5000, abs=2 * 90 + 5)
    assert min(measured) >= 0
    text = describe_cost(stopped.cost, counter)
    assert f"it varied by {stopped.cost.bound} ticks" in text
    assert "may run on while the core is halted" in text


def test_an_instruction_that_the_model_does_not_have_is_another_model() -> None:
    board = ScriptedBoard([100, 100, 100], stop=10)
    with pytest.raises(TargetError, match="another model: it executes instruction 2 of chain 0"):
        follow(board, kernels("add", "mul"))


DWT = Timer("DWT cycle counter", 32, 480_000_000)
OTHER = Timer("TIM2", 32, 1_000_000)


def test_counters_are_named_by_the_board_file_or_an_option() -> None:
    cycles = parse_counter(None, None, DWT)
    assert (cycles.name, cycles.address, cycles.halted) == ("cyccnt", 0xE0001004, "stops")
    assert cycles.clock.hz == Fraction(480_000_000)
    assert parse_counter("cyccnt", None, OTHER).hz is None
    assert parse_counter("cyccnt", 64_000_000, OTHER).hz == 64_000_000
    systick = parse_counter("systick", None, OTHER)
    assert (systick.bits, systick.down) == (24, True)
    timer = parse_counter("0x40000024:16:down", 25_000_000, OTHER)
    assert (timer.address, timer.bits, timer.down, timer.halted) == (
        0x40000024,
        16,
        True,
        "unknown",
    )
    with pytest.raises(UsageError, match=r"the board's timer \(TIM2\) is not known"):
        parse_counter(None, None, OTHER)


@pytest.mark.parametrize("text", ["0x41", "0x40:7", "0x40:33", "0x40:16:8", "tim2", "0x40:up"])
def test_counters_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a counter"):
        parse_counter(text, None, OTHER)


class Registers:
    """Registers of a core."""

    def __init__(self, **values: int) -> None:
        self.words = {int(name[1:], 16): value for name, value in values.items()}

    def read(self, address: int, size: int) -> bytes:
        return self.words.get(address, 0).to_bytes(size, "little")

    def write(self, address: int, data: bytes) -> None:
        self.words[address] = int.from_bytes(data, "little")


def test_counters_of_the_core_are_started_or_refused() -> None:
    cycles, systick = (parse_counter(name, None, OTHER) for name in ("cyccnt", "systick"))
    core = Registers()
    start_counter(cast("Any", core), cycles)
    assert core.words == {0xE000EDFC: 1 << 24, 0xE0001000: 1}
    with pytest.raises(TargetError, match="no cycle counter"):
        start_counter(cast("Any", Registers(xE0001000=1 << 25)), cycles)
    with pytest.raises(TargetError, match="SysTick does not run"):
        start_counter(cast("Any", Registers()), systick)
    with pytest.raises(TargetError, match="wraps every 32,000 ticks"):
        start_counter(cast("Any", Registers(xE000E010=1, xE000E014=31_999)), systick)
    start_counter(cast("Any", Registers(xE000E010=1, xE000E014=0xFFFFFF)), systick)


def test_an_inlined_instruction_cannot_be_stopped_at() -> None:
    code = ExecutorchCode((CodeSet(Role.EXECUTE, "execute", 4, ((4, 8),)),), {}, {})
    with pytest.raises(FormatError, match="which breakpoints need: the compiler has inlined it"):
        instruction_begins(code, "app.elf")
