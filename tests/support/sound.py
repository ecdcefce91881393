"""Sound traces of any size, as lists of records that tests damage one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import strategies as st

from harness.check.subject import Subject
from harness.decode.device_log import read_log
from harness.records.clock_domain import ClockDomain
from harness.records.instruction import InstructionRecord
from tests.support.logs import CompactLog

CPU_HZ = 100_000_000
METHOD, PLANNED, TEMPORARY = 1, 2, 3
"""Ids of allocators."""


@dataclass
class Logged:
    """A record: a profile event, or an allocation when it has an allocator. Times are true ones."""

    name: str = ""
    start: int = 0
    end: int = 0
    instruction: int = -1
    delegate: int = -1
    clock: int = 0
    allocator: int = 0
    size: int = 0
    offset: int = 0

    @property
    def wraps(self) -> bool:
        return self.name in ("OPERATOR_CALL", "DELEGATE_CALL")


@dataclass
class Sound:
    """A trace, and what is known beside it; ``subject`` is what is checked."""

    runs: list[list[Logged]]
    loading: list[Logged]
    bits: int
    down: bool
    origin: int
    ratio: int
    planned: dict[str, int] = field(default_factory=dict)
    arena: int = 0
    requested: int = 0
    completed: int = 0
    chains: tuple[tuple[InstructionRecord, ...], ...] = ()
    stack: tuple[int, int] = (0, 0)

    @property
    def kernels(self) -> list[tuple[list[Logged], int]]:
        """Runs and places in them of kernels' events; each has its scope behind it."""
        return [
            (run, place)
            for run in self.runs
            for place, item in enumerate(run)
            if item.name.startswith("native_call")
        ]

    @property
    def wrappers(self) -> list[tuple[list[Logged], int]]:
        """Runs and places of instructions' scopes that have another one before them."""
        places = [(run, [n for n, item in enumerate(run) if item.wraps]) for run in self.runs]
        return [(run, place) for run, found in places for place in found[1:]]

    @property
    def subject(self) -> Subject:
        return self.read(self.image())

    def image(self, tracer: int = 0) -> bytes:
        """The device's log, of a tracer."""
        log = CompactLog()
        log.tracer, log.stack = tracer, self.stack
        log.block("Default")
        for name in ("method", "planned_1", "temporary"):
            log.allocator(name)
        for record in self.loading:
            self._write(log, record)
        for run in self.runs:
            log.block("Execute")
            for record in run:
                self._write(log, record)
        return log.image()

    def read(self, image: bytes) -> Subject:
        """What is checked of a log like this one."""
        clocks = [
            ClockDomain("cpu", Fraction(CPU_HZ), self.bits, self.down),
            ClockDomain("npu", Fraction(CPU_HZ, self.ratio), 24),
        ]
        return Subject(
            read_log(image, clocks),
            probe=Fraction(5),
            planned=self.planned,
            arena_capacity=self.arena,
            runs_requested=self.requested,
            runs_completed=self.completed,
            chains=self.chains,
        )

    def _write(self, log: CompactLog, record: Logged) -> None:
        start, end = self._reading(record.start), self._reading(record.end)
        if record.allocator:
            offset = record.offset
            log.allocation(record.allocator, record.size, tick=start, offset=offset)
            return
        if record.delegate >= 0:
            log.delegate(None, record.delegate)
            start, end = record.start % 2**24, record.end % 2**24
        chain = -1 if record.instruction < 0 else 0
        instruction = max(record.instruction, 0)
        log.profile(
            record.name, start, end, chain=chain, instruction=instruction, clock=record.clock
        )

    def _reading(self, time: int) -> int:
        now = self.origin - time if self.down else self.origin + time
        return now % (1 << self.bits)


GAPS = st.integers(2, 40)


@st.composite
def sound(draw: st.DrawFn, *, delegated: bool | None = None) -> Sound:
    """A sound trace; with instructions of a delegate, without, or either."""
    kinds = st.just(False) if delegated is False else st.booleans()
    instructions = draw(st.lists(kinds, min_size=2, max_size=4))
    if delegated:
        instructions[draw(st.integers(0, len(instructions) - 1))] = True
    ratio = draw(st.integers(1, 5))
    sizes = [draw(st.integers(8, 64)) for _ in instructions]
    now, runs = 100, []
    for _ in range(draw(st.integers(3, 5))):
        run: list[Logged] = []
        begin = now
        for number, (delegate, size) in enumerate(zip(instructions, sizes, strict=True)):
            now += draw(GAPS)
            make = _delegate if delegate else _kernel
            now = make(draw, run, number, now, ratio, size)
        now += draw(GAPS)
        run.append(Logged("Method::execute", begin, now))
        now += draw(st.integers(1, 10**6))
        runs.append(run)
    loading = [
        Logged(allocator=METHOD, size=64, offset=0, start=10, end=10),
        Logged(allocator=PLANNED, size=512, offset=0, start=11, end=11),
        Logged("Program::load_method", 0, 20),
    ]
    return Sound(
        runs,
        loading,
        bits=draw(st.sampled_from([31, 32])),
        down=draw(st.booleans()),
        origin=draw(st.integers(0, 2**32 - 1)),
        ratio=ratio,
        planned={"planned_1": 512},
        arena=64 + 512 + max(sizes),
        requested=len(runs),
        completed=len(runs),
        chains=(
            tuple(
                InstructionRecord("delegate", "Backend")
                if delegate
                else InstructionRecord("kernel", f"test::{number}")
                for number, delegate in enumerate(instructions)
            ),
        ),
        stack=(draw(st.integers(0, 4095)), 4096),
    )


def _kernel(
    draw: st.DrawFn, run: list[Logged], number: int, now: int, _ratio: int, _size: int
) -> int:
    inner = now + draw(GAPS)
    end = inner + draw(st.integers(10, 5000))
    behind = end + draw(GAPS)
    run.append(Logged(f"native_call_{number}", inner, end, number))
    run.append(Logged("OPERATOR_CALL", now, behind, number))
    return behind


def _delegate(
    draw: st.DrawFn, run: list[Logged], number: int, now: int, ratio: int, size: int
) -> int:
    begin = now
    now += draw(GAPS)
    run.append(Logged(allocator=TEMPORARY, size=size, start=now, end=now, instruction=number))
    for step in range(1 + size % 3):
        start = now + draw(GAPS)
        now = start + draw(st.integers(1, 500)) * ratio
        ticks = start // ratio, now // ratio
        run.append(Logged(f"step_{step}", *ticks, number, delegate=step, clock=1))
    run.append(Logged(allocator=TEMPORARY, size=-size, start=now, end=now, instruction=number))
    now += draw(GAPS)
    run.append(Logged("DELEGATE_CALL", begin, now, number))
    return now
