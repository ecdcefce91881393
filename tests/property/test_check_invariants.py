"""Invariants: quiet about any sound trace, and each tells exactly the damage that is its own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.check.evaluate import evaluate
from harness.check.subject import Subject
from harness.records.clock_domain import ClockDomain
from harness.records.trace import Trace
from harness.report.junit import junit_report
from harness.report.markdown import markdown_report
from harness.report.results import report_document
from harness.runs.evaluation import evaluate_run
from harness.strategies import Execution, arbitrary_traces, executions, traces
from tests.support.logs import profile_trace
from tests.support.sound import METHOD, PLANNED, TEMPORARY, Logged, Sound, sound

Damage = Callable[[st.DataObject, Sound], None]


def errors(subject: Subject) -> set[str]:
    return {check.code for check in evaluate(subject).failures}


@given(made=sound())
@settings(max_examples=60)
def test_a_sound_trace_passes_every_check(made: Sound) -> None:
    assert [item for item in evaluate(made.subject).checks if not item.passed] == []


@given(made=sound())
@settings(max_examples=20)
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


def log_after_the_scope(data: st.DataObject, made: Sound) -> None:
    _, place = data.draw(st.sampled_from(made.kernels))
    for run in made.runs:
        run[place : place + 2] = run[place + 1], run[place]


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
    place = data.draw(st.integers(0, len(made.runs[0]) - 1))
    run = data.draw(st.sampled_from(made.runs[1:]))
    names = [item for item in run if item.name and item.name != "Method::execute"]
    names[place % len(names)].name += "_other"


def end_fewer_runs(data: st.DataObject, made: Sound) -> None:
    made.completed = data.draw(st.integers(0, len(made.runs) - 1))


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
    ("I04", log_after_the_scope, None),
    ("I04", end_before_it_begins, None),
    ("I06", allocate_beyond_the_plan, None),
    ("I06", allocate_beyond_the_arena, True),
    ("I07", allocate_what_is_live, True),
    ("I08", free_what_is_not_live, None),
    ("I09", keep_it, True),
    ("I10", do_something_else, None),
    ("I12", end_fewer_runs, None),
]


@pytest.mark.parametrize(
    ("code", "damage", "delegated"), DAMAGES, ids=[item[1].__name__ for item in DAMAGES]
)
@given(data=st.data())
@settings(max_examples=12)
def test_damage_is_told_by_its_own_check_alone(
    code: str, damage: Damage, delegated: bool | None, data: st.DataObject
) -> None:
    made = data.draw(sound(delegated=delegated).filter(lambda item: bool(item.kernels)))
    damage(data, made)
    subject = made.subject
    assert errors(subject) == {code}
    assert not evaluate(subject).passed


@given(trace=st.one_of(arbitrary_traces(), traces()))
@settings(max_examples=80)
def test_any_trace_can_be_judged_and_reported(trace: Trace) -> None:
    run = evaluate_run("any trace", trace)
    assert "B05" in {check.code for check in run.verdict.checks}
    assert all(check.reason and check.rule and check.subject for check in run.verdict.checks)
    assert evaluate(Subject(trace, probe=Fraction(3), arena_capacity=100)).checks
    for document in (junit_report([run]), markdown_report([run]), report_document([run])):
        assert document.decode()


def test_a_log_that_spans_more_than_can_be_fails_by_its_order() -> None:
    long = ClockDomain("long", None, 64)
    made = profile_trace([0, 2**63, 1], [2**62, 2**63 + 1, 2**62], long)
    failures = evaluate(Subject(made)).failures
    assert [check.code for check in failures] == ["I04"]
    assert "width or direction" in failures[0].reason


@given(execution=executions())
@settings(max_examples=60)
def test_executions_that_others_test_with_are_sound(execution: Execution) -> None:
    bad = [check for check in evaluate(Subject(execution.trace)).checks if not check.passed]
    assert bad == []
