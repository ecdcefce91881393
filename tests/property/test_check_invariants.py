"""Invariants: quiet about any sound trace, and each tells exactly the damage that is its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    ClockDomain,
    InstructionRecord,
    Losses,
    Subject,
    Trace,
    evaluate,
    evaluate_run,
    read_log,
    render_report,
)
from harness.strategies import Execution, arbitrary_traces, executions, traces
from tests.support.examples import examples
from tests.support.logs import CompactLog, profile_trace

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
        if tracer:
            log.clock(0)  # as everyone else
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


Damage = Callable[[st.DataObject, Sound], None]


def errors(subject: Subject) -> set[str]:
    return {check.code for check in evaluate(subject).failures}


@given(made=sound())
@settings(max_examples=examples(60))
def test_a_sound_trace_passes_every_check(made: Sound) -> None:
    assert [item for item in evaluate(made.subject).checks if not item.passed] == []


@given(made=sound())
@settings(max_examples=examples(20))
def test_two_cores_that_do_the_same_at_a_time_are_as_sound_as_one(made: Sound) -> None:
    subject = made.read(made.image() + made.image(tracer=1))
    assert set(subject.trace.tracer.tolist()) == {0, 1}
    assert [item for item in evaluate(subject).checks if not item.passed] == []


def begin_before_the_scope(data: st.DataObject, made: Sound) -> None:
    run, place = data.draw(st.sampled_from(made.kernels))
    run[place].start = run[place + 1].start - 1


def execute_after_the_first_instruction(data: st.DataObject, made: Sound) -> None:
    run = data.draw(st.sampled_from(made.runs))
    run[-1].start = next(item for item in run if item.wraps).start + 1


def begin_before_the_last_one_ends(data: st.DataObject, made: Sound) -> None:
    run, place = data.draw(st.sampled_from(made.wrappers))
    before = next(item for item in reversed(run[:place]) if item.wraps)
    run[place].start = before.end - 1


def take_longer_than_the_call(data: st.DataObject, made: Sound) -> None:
    run, place = data.draw(
        st.sampled_from([(run, n) for run in made.runs for n, e in enumerate(run) if e.clock])
    )
    call = next(item for item in run[place:] if item.wraps)
    took = (call.end - call.start) // made.ratio
    run[place].end = run[place].start + took + took // 50 + 8


def freeze(data: st.DataObject, made: Sound) -> None:
    for item in [*made.loading, *(item for run in made.runs for item in run)]:
        item.start = item.end = 7


def never_take_a_tick(data: st.DataObject, made: Sound) -> None:
    for run in [made.loading, *made.runs]:
        for item in run:
            item.start = item.end = run[-1].end


def log_after_a_later_one(data: st.DataObject, made: Sound) -> None:
    for run in made.runs:
        end = run[-1].end - data.draw(st.integers(1, 4))
        run.append(Logged("application", start=run[-1].start, end=end))


def end_before_it_begins(data: st.DataObject, made: Sound) -> None:
    run, place = data.draw(st.sampled_from(made.kernels))
    run[place].start = run[place].end + 1


def allocate_beyond_the_plan(data: st.DataObject, made: Sound) -> None:
    item = next(item for item in made.loading if item.allocator == PLANNED)
    item.offset = data.draw(st.integers(1, 10**6))


def allocate_beyond_the_arena(data: st.DataObject, made: Sound) -> None:
    used = 64 + 512 + max(i.size for run in made.runs for i in run if i.allocator == TEMPORARY)
    made.arena = data.draw(st.integers(513, used - 1))


def allocate_what_is_live(data: st.DataObject, made: Sound) -> None:
    run, place = data.draw(st.sampled_from(taken(made)))
    first = run[place]
    offset = data.draw(st.integers(0, first.size - 1))
    one = Logged(allocator=TEMPORARY, size=4, offset=offset, start=first.start, end=first.start)
    given_back = Logged(
        allocator=TEMPORARY, size=-4, offset=offset, start=first.start, end=first.start
    )
    run[place + 1 : place + 1] = one, given_back
    made.arena += 4 + offset


def free_what_is_not_live(data: st.DataObject, made: Sound) -> None:
    size = data.draw(st.integers(1, 63))
    made.loading.insert(1, Logged(allocator=METHOD, size=-size, start=10, end=10))


def keep_it(data: st.DataObject, made: Sound) -> None:
    run, place = taken(made)[-1]
    freed = next(n for n, item in enumerate(run) if n > place and item.size < 0)
    del run[freed]


def do_something_else(data: st.DataObject, made: Sound) -> None:
    run = data.draw(st.sampled_from(made.runs[1:]))
    end = run[-1].end
    run.insert(-1, Logged("application", start=end - 1, end=end))


def end_fewer_runs(data: st.DataObject, made: Sound) -> None:
    made.completed = data.draw(st.integers(0, len(made.runs) - 1))


def never_give_back(data: st.DataObject, made: Sound) -> None:
    """Not even a free tells that frees are logged."""
    end = 0
    for run in made.runs:
        run[:] = [item for item in run if item.allocator != TEMPORARY or item.size > 0]
        for item in run:
            if item.allocator == TEMPORARY:
                item.offset, end = end, end + item.size
    made.arena += end


def in_every_run(change: Callable[[list[Logged], int], None]) -> Damage:
    """A damage done to the same kernel of every execution, so that they are all alike."""

    def damage(data: st.DataObject, made: Sound) -> None:
        _, place = data.draw(st.sampled_from(made.kernels))
        for run in made.runs:
            change(run, place)

    damage.__name__ = change.__name__
    return damage


@in_every_run
def leave_out_an_instruction(run: list[Logged], place: int) -> None:
    del run[place : place + 2]


@in_every_run
def repeat_an_instruction(run: list[Logged], place: int) -> None:
    event, scope = run[place : place + 2]
    after = replace(event, start=scope.end, end=scope.end), replace(scope, start=scope.end)
    run[place + 2 : place + 2] = after


@in_every_run
def rename_a_kernel(run: list[Logged], place: int) -> None:
    run[place].name += "_other"


@in_every_run
def call_a_kernel_a_delegate(run: list[Logged], place: int) -> None:
    run[place + 1].name = "DELEGATE_CALL"


@in_every_run
def run_what_the_program_does_not_have(run: list[Logged], place: int) -> None:
    run[place].instruction = run[place + 1].instruction = 99


@in_every_run
def run_behind_the_execution(run: list[Logged], place: int) -> None:
    event, scope = run[place : place + 2]
    for item in (event, scope):
        item.start = item.end = run[-1].end + 1
    run[:] = [*run[:place], *run[place + 2 :], event, scope]


def exchange_two_instructions(data: st.DataObject, made: Sound) -> None:
    one, other = data.draw(st.permutations(range(len(made.chains[0]))))[:2]
    for run in made.runs:
        for item in run:
            numbers = {one: other, other: one}
            item.instruction = numbers.get(item.instruction, item.instruction)


def leave_out_a_kernels_event(data: st.DataObject, made: Sound) -> None:
    """In the cold execution, which need not be like the others."""
    run = made.runs[0]
    del run[next(place for it, place in made.kernels if it is run)]


def execute_twice_in_a_block(data: st.DataObject, made: Sound) -> None:
    for run in made.runs:
        run.append(replace(run[-1], start=run[-1].end))


def lose_a_run(data: st.DataObject, made: Sound) -> None:
    del made.runs[data.draw(st.integers(1, len(made.runs) - 1))]


def plan_otherwise(data: st.DataObject, made: Sound) -> None:
    item = next(item for item in made.loading if item.allocator == PLANNED)
    item.size -= data.draw(st.integers(1, 500))


def grow(data: st.DataObject, made: Sound) -> None:
    size, end = data.draw(st.integers(1, 64)), 64
    for run in made.runs:
        now = run[-1].end - 1
        run.insert(-1, Logged(allocator=METHOD, size=size, offset=end, start=now, end=now))
        end += size
    made.arena += end


def overflow(data: st.DataObject, made: Sound) -> None:
    made.stack = (4096 + data.draw(st.integers(0, 100)), 4096)


def taken(made: Sound) -> list[tuple[list[Logged], int]]:
    return [
        (run, place)
        for run in made.runs
        for place, item in enumerate(run)
        if item.allocator == TEMPORARY and item.size > 0
    ]


DAMAGES: list[tuple[str, Damage, bool | None]] = [
    ("I01", begin_before_the_scope, None),
    ("I01", execute_after_the_first_instruction, None),
    ("I02", begin_before_the_last_one_ends, None),
    ("I02", take_longer_than_the_call, True),
    ("I03", freeze, None),
    ("I03", never_take_a_tick, False),
    ("I04", log_after_a_later_one, None),
    ("I04", end_before_it_begins, None),
    ("I06", allocate_beyond_the_plan, None),
    ("I06", allocate_beyond_the_arena, True),
    ("I07", allocate_what_is_live, True),
    ("I08", free_what_is_not_live, None),
    ("I09", keep_it, True),
    ("I09", never_give_back, True),
    ("I10", do_something_else, None),
    ("I12", end_fewer_runs, None),
    ("I14", leave_out_an_instruction, None),
    ("I14", repeat_an_instruction, None),
    ("I14", rename_a_kernel, None),
    ("I14", call_a_kernel_a_delegate, None),
    ("I14", run_what_the_program_does_not_have, None),
    ("I14", run_behind_the_execution, None),
    ("I14", exchange_two_instructions, None),
    ("I14", leave_out_a_kernels_event, None),
    ("I14", execute_twice_in_a_block, None),
    ("I15", lose_a_run, None),
    ("I16", plan_otherwise, None),
    ("I17", grow, None),
    ("I18", overflow, None),
]


@pytest.mark.parametrize(
    ("code", "damage", "delegated"), DAMAGES, ids=[item[1].__name__ for item in DAMAGES]
)
@given(data=st.data())
@settings(max_examples=examples(12))
def test_damage_is_told_by_its_own_check_alone(
    code: str, damage: Damage, delegated: bool | None, data: st.DataObject
) -> None:
    made = data.draw(sound(delegated=delegated).filter(lambda item: bool(item.kernels)))
    damage(data, made)
    subject = made.subject
    assert errors(subject) == {code}
    assert not evaluate(subject).passed


OTHERS = [rename_a_kernel, call_a_kernel_a_delegate, run_what_the_program_does_not_have]


@pytest.mark.parametrize("damage", OTHERS, ids=[item.__name__ for item in OTHERS])
@given(data=st.data())
@settings(max_examples=examples(12))
def test_what_a_filter_left_is_of_the_program(damage: Damage, data: st.DataObject) -> None:
    made = data.draw(sound().filter(lambda item: bool(item.kernels)))
    damage(data, made)
    filtered = replace(made.subject.trace, filtered_events=1)
    assert "I14" in errors(replace(made.subject, trace=filtered))


@given(made=sound(), chunks=st.integers(0, 3), records=st.integers(1, 99))
@settings(max_examples=examples(10))
def test_missing_records_fail_and_a_missing_number_alone_hides_nothing(
    made: Sound, chunks: int, records: int
) -> None:
    subject = made.subject
    lost = replace(subject.trace, losses=Losses(chunks=chunks, records=records))
    assert errors(replace(subject, trace=lost)) == {"B05"}
    numbered = replace(subject, trace=replace(subject.trace, losses=Losses(chunks=1)))
    assert "I14" in {check.code for check in evaluate(numbered).checks}


@given(trace=st.one_of(arbitrary_traces(), traces()))
@settings(max_examples=examples(80))
def test_any_trace_can_be_judged_and_reported(trace: Trace) -> None:
    run = evaluate_run("any trace", trace)
    assert "B05" in {check.code for check in run.verdict.checks}
    assert all(check.reason and check.rule and check.subject for check in run.verdict.checks)
    assert evaluate(Subject(trace, probe=Fraction(3), arena_capacity=100)).checks
    for document in (
        render_report("report.xml", [run]),
        render_report("report.md", [run]),
        render_report("report.json", [run]),
    ):
        assert document.decode()


def test_a_log_that_spans_more_than_can_be_fails_by_its_order() -> None:
    long = ClockDomain("long", None, 64)
    made = profile_trace([0, 2**63, 1], [2**62, 2**63 + 1, 2**62], long)
    failures = evaluate(Subject(made)).failures
    assert [check.code for check in failures] == ["I04"]
    assert "width or direction" in failures[0].reason


@given(execution=executions())
@settings(max_examples=examples(60))
def test_executions_that_others_test_with_are_sound(execution: Execution) -> None:
    bad = [check for check in evaluate(Subject(execution.trace)).checks if not check.passed]
    assert bad == []
