"""Kinds of damage that leave each record plausible alone: what the program and the board say of a
run, and what the trace has, contradict each other; or the log is no sequence that a runtime writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from harness import Kind
from tests.support.mutations import (
    Draft,
    Event,
    NotApplicableError,
    allocated,
    allocations,
    is_execution,
    is_kernel,
    is_scope,
    require,
    rows,
    spans,
)

RUN_KINDS: Final[dict[str, Callable[[Draft], None]]] = {}
"""Kinds by name."""

AS_WRAPS: Final = {
    "load_until_the_first_execution",
    "exchange_executions",
    "pause_between_executions",
    "execute_after_the_readings",
    "execute_before_the_clock_was_zero",
    "log_a_value_late",
}
"""What reads as a wrap of the counter, or as a pause, which only readings of the host rule out.

They say little of emulated time, and a trace alone has none (docs/clocks.md).
"""

_LOAD, _INIT = "Program::load_method", "Method::init"


def kind(mutate: Callable[[Draft], None]) -> Callable[[Draft], None]:
    RUN_KINDS[mutate.__name__] = mutate
    return mutate


# Memory: what is allocated, and what the program and the board say of it


@kind
def leave_out_a_method_allocation(draft: Draft) -> None:
    _only_run(draft)
    events, number = draft.random.choice(allocations(draft, "method"))
    del events[number]


@kind
def leave_out_all_method_allocations(draft: Draft) -> None:
    _only_run(draft)
    for events, number in reversed(allocations(draft, "method")):
        del events[number]


@kind
def leave_out_every_allocation(draft: Draft) -> None:
    _loaded_with_memory(draft)
    for _, events in draft.blocks:
        events[:] = [event for event in events if event["kind"] != Kind.ALLOCATION]


@kind
def leave_out_memory_and_allocators(draft: Draft) -> None:
    leave_out_every_allocation(draft)
    draft.blocks = [(replace(block, allocators=()), events) for block, events in draft.blocks]


@kind
def halve_a_method_allocation(draft: Draft) -> None:
    _only_run(draft)
    events, number = draft.random.choice(allocations(draft, "method"))
    if events[number]["size"] < 32:  # its piece of the arena would have the same size
        raise NotApplicableError
    events[number]["size"] //= 2


@kind
def double_a_method_allocation(draft: Draft) -> None:
    """The last one, so that it overlaps no other."""
    _only_run(draft)
    found = allocations(draft, "method")
    events, number = max(found, key=lambda item: item[0][item[1]]["offset"])
    events[number]["size"] *= 2


@kind
def allocate_more_of_the_method(draft: Draft) -> None:
    _only_run(draft)
    found = allocations(draft, "method")
    events, number = max(found, key=lambda item: item[0][item[1]]["offset"])
    last = events[number]
    events.insert(number + 1, {**last, "offset": last["offset"] + last["size"] + 15, "size": 64})


@kind
def log_method_allocations_without_offsets(draft: Draft) -> None:
    """Half of them, so that they add up no longer."""
    _only_run(draft)
    found = allocations(draft, "method")
    for events, number in found:
        events[number]["offset"] = -1
    events, number = max(found, key=lambda item: item[0][item[1]]["size"])
    del events[number]


@kind
def allocate_method_memory_from_the_plan(draft: Draft) -> None:
    _only_run(draft)
    pattern = allocated(draft, "planned_1")
    event = allocated(draft, "method")
    event["allocator"] = pattern["allocator"]


def _rename(draft: Draft, name: str) -> None:
    _only_run(draft)
    allocations(draft, name)
    draft.blocks = [
        (replace(block, allocators=tuple("heap" if n == name else n for n in block.allocators)), es)
        for block, es in draft.blocks
    ]


@kind
def rename_method_allocator(draft: Draft) -> None:
    _rename(draft, "method")


@kind
def rename_planned_allocator(draft: Draft) -> None:
    _rename(draft, "planned_1")


@kind
def rename_temporary_allocator(draft: Draft) -> None:
    _rename(draft, "temporary")


@kind
def rename_unplanned_allocator(draft: Draft) -> None:
    _rename(draft, "unplanned")


@kind
def rename_allocator_in_one_block(draft: Draft) -> None:
    """One that has nothing in this block, so that only its name says so."""
    _only_run(draft)
    at = draft.random.choice(
        require([n for n, (block, _) in enumerate(draft.blocks) if n and block.allocators])
    )
    block, events = draft.blocks[at]
    draft.blocks[at] = replace(block, allocators=("heap", *block.allocators[1:])), events


@kind
def exchange_allocator_names(draft: Draft) -> None:
    _only_run(draft)
    allocations(draft, "planned_1")
    names = {"method": "planned_1", "planned_1": "method"}
    draft.blocks = [
        (replace(block, allocators=tuple(names.get(n, n) for n in block.allocators)), events)
        for block, events in draft.blocks
    ]


@kind
def allocate_from_an_unknown_allocator(draft: Draft) -> None:
    _only_run(draft)
    block, events = draft.blocks[0]
    chosen = draft.random.choice(rows(events, lambda e: e["kind"] == Kind.ALLOCATION))
    events[chosen]["allocator"] = len(block.allocators) + draft.random.randrange(1, 9)


@kind
def allocate_temporary_memory_from_an_unknown_allocator(draft: Draft) -> None:
    _only_run(draft)
    for events, number in allocations(draft, "temporary") + allocations(draft, "temporary", -1):
        events[number]["allocator"] += 7


@kind
def plan_a_pool_that_is_never_allocated(draft: Draft) -> None:
    _only_run(draft)
    allocations(draft, "planned_1")
    planned = draft.subject.planned
    draft.facts["planned"] = {**planned, f"planned_{len(planned) + 1}": 4096}


@kind
def leave_out_a_second_pool(draft: Draft) -> None:
    """With its allocator, so that nothing of it is in the log."""
    _only_run(draft)
    for events, number in reversed(allocations(draft, "planned_2")):
        del events[number]
    _rename_missing(draft, "planned_2")


def _rename_missing(draft: Draft, name: str) -> None:
    for at, (block, events) in enumerate(draft.blocks):
        if name in block.allocators and block.allocators[-1] == name:
            draft.blocks[at] = replace(block, allocators=block.allocators[:-1]), events


@kind
def allocate_a_pool_that_is_not_planned(draft: Draft) -> None:
    _only_run(draft)
    pattern = allocated(draft, "planned_1")
    _, events = draft.blocks[0]
    number = max(rows(events, lambda e: e["kind"] == Kind.ALLOCATION))
    pools = draft.blocks[0][0].allocators
    events.insert(number + 1, {**pattern, "allocator": len(pools) + 1, "size": 256})
    draft.blocks = [
        (replace(block, allocators=(*block.allocators, "planned_9")), own)
        for block, own in draft.blocks
    ]


@kind
def use_less_of_the_arena_than_allocated(draft: Draft) -> None:
    _only_run(draft)
    allocations(draft, "method")
    _facts(draft, planned_bytes=(draft.subject.planned_bytes or 0) // 2)


@kind
def use_more_of_the_arena_than_allocated(draft: Draft) -> None:
    allocations(draft, "method")
    if any("temporary" in block.allocators for block, _ in draft.blocks):
        raise NotApplicableError  # delegates may reserve more than they take
    _facts(draft, planned_bytes=(draft.subject.planned_bytes or 0) + 4096)


@kind
def report_half_of_the_method_bytes(draft: Draft) -> None:
    allocations(draft, "method")
    _facts(draft, method_bytes=(draft.subject.method_bytes or 0) // 2)


@kind
def report_twice_the_method_bytes(draft: Draft) -> None:
    allocations(draft, "method")
    _facts(draft, method_bytes=(draft.subject.method_bytes or 0) * 2)


def _facts(draft: Draft, **facts: int) -> None:
    subject = draft.subject
    if subject.method_bytes is None or subject.planned_bytes is None:
        raise NotApplicableError
    draft.facts.update(facts)
    method = facts.get("method_bytes", subject.method_bytes)
    planned = facts.get("planned_bytes", subject.planned_bytes)
    draft.facts["arena_used"] = method + planned


@kind
def use_more_than_the_arena(draft: Draft) -> None:
    require([draft.subject.arena_used or 0])
    if draft.subject.arena_used is None:
        raise NotApplicableError
    draft.facts["arena_capacity"] = draft.subject.arena_used - 16


@kind
def take_more_temporary_memory_than_reserved(draft: Draft) -> None:
    _only_run(draft)
    big = max(draft.subject.arena_used or 0, 1)
    for events, number in allocations(draft, "temporary") + allocations(draft, "temporary", -1):
        event = events[number]
        event["size"] += big if event["size"] > 0 else -big
    draft.facts["arena_capacity"] = 1 << 31


def _copied_allocation(draft: Draft, name: str) -> Event:
    """A small piece that overlaps no other."""
    found = [events[number] for events, number in allocations(draft, name)]
    last = max(found, key=lambda event: event["offset"])
    return {**last, "offset": last["offset"] + last["size"] + 16, "size": 8}


@kind
def allocate_after_the_run(draft: Draft) -> None:
    _only_run(draft)
    events = draft.executions[-1]
    later = events[-1]["end"]
    events.append({**_copied_allocation(draft, "method"), "start": later, "end": later})


@kind
def allocate_and_free_after_the_run(draft: Draft) -> None:
    _only_run(draft)
    events = draft.executions[-1]
    later = events[-1]["end"]
    piece = {**_copied_allocation(draft, "method"), "start": later, "end": later}
    events += [piece, {**piece, "size": -piece["size"]}]


@kind
def allocate_in_a_block_after_the_run(draft: Draft) -> None:
    _only_run(draft)
    piece = _copied_allocation(draft, "method")
    block, events = draft.blocks[-1]
    later = events[-1]["end"]
    piece.update(start=later, end=later)
    draft.blocks.append((replace(block, name="Later"), [piece, {**piece, "size": -8}]))


@kind
def allocate_planned_memory_while_executing(draft: Draft) -> None:
    _only_run(draft)
    found = allocations(draft, "planned_1")
    events, number = found[0]
    event = events.pop(number)
    target = draft.executions[0]
    first = target[0]["start"]
    target.insert(0, {**event, "start": first, "end": first})


@kind
def allocate_outside_of_loading(draft: Draft) -> None:
    """Behind the scopes of loading, in the same block."""
    _only_run(draft)
    events, number = draft.random.choice(allocations(draft, "method"))
    event = events.pop(number)
    later = events[-1]["end"]
    events.append({**event, "start": later, "end": later})


@kind
def take_temporary_memory_outside_of_delegates(draft: Draft) -> None:
    """After the scope of the delegate's call."""
    _only_run(draft)
    events, number = draft.random.choice(allocations(draft, "temporary"))
    scope = next(n for n in range(number, len(events)) if is_scope(events[n]))
    moved = [e for e in events[number:scope] if e["kind"] == Kind.ALLOCATION]
    end = events[scope]["end"]
    for event in moved:
        event.update(start=end, end=end)
    kept = [e for e in events[number:scope] if e["kind"] != Kind.ALLOCATION]
    events[number : scope + 1] = [*kept, events[scope], *moved]


# Loading


def _loading(draft: Draft) -> list[Event]:
    found = [events for _, events in draft.blocks if any(e["name"] == _LOAD for e in events)]
    return require(found)[0]


def _loaded_with_memory(draft: Draft) -> None:
    _only_run(draft)
    allocations(draft, "method")


def _only_run(draft: Draft) -> None:
    """What follows is known of a run of the harness only: traces alone may be of anything."""
    if draft.subject.method_bytes is None:
        raise NotApplicableError


def _named(events: list[Event], name: str) -> int:
    return rows(events, lambda event: event["name"] == name)[0]


@kind
def leave_out_load_event(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    del events[_named(events, _LOAD)]


@kind
def leave_out_init_event(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    del events[_named(events, _INIT)]


@kind
def leave_out_both_events_of_loading(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    events[:] = [event for event in events if event["name"] not in (_LOAD, _INIT)]


@kind
def leave_out_the_loading_block(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    draft.blocks = [item for item in draft.blocks if item[1] is not events]


@kind
def repeat_load_event(draft: Draft) -> None:
    events = _loading(draft)
    number = _named(events, _LOAD)
    events.insert(number, dict(events[number]))


@kind
def repeat_init_event(draft: Draft) -> None:
    events = _loading(draft)
    number = _named(events, _INIT)
    events.insert(number, dict(events[number]))


@kind
def repeat_the_loading_block(draft: Draft) -> None:
    """Without its memory, so that only the sequence tells."""
    _only_run(draft)
    events = _loading(draft)
    at = next(n for n, item in enumerate(draft.blocks) if item[1] is events)
    again = [dict(event) for event in events if event["kind"] == Kind.PROFILE]
    draft.blocks.insert(at, (draft.blocks[at][0], again))


@kind
def load_between_executions(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    require(draft.executions[1:])
    at = next(n for n, item in enumerate(draft.blocks) if item[1] is draft.executions[1])
    now = draft.executions[0][-1]["end"]
    again = [
        {**event, "start": now, "end": now} for event in events if event["kind"] == Kind.PROFILE
    ]
    draft.blocks.insert(at, (draft.blocks[0][0], again))


@kind
def load_after_the_executions(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    at = next(n for n, item in enumerate(draft.blocks) if item[1] is events)
    draft.blocks.append(draft.blocks.pop(at))


@kind
def load_within_an_execution(draft: Draft) -> None:
    _only_run(draft)
    events = _loading(draft)
    pair = [dict(event) for event in events if event["name"] in (_LOAD, _INIT)]
    target = draft.execution()
    now = target[0]["start"]
    target[0:0] = [{**event, "start": now, "end": now} for event in pair]


@kind
def init_before_loading(draft: Draft) -> None:
    events = _loading(draft)
    event = events[_named(events, _INIT)]
    event["start"] = _ahead(draft, events[_named(events, _LOAD)]["start"], -50)


@kind
def init_after_loading(draft: Draft) -> None:
    events = _loading(draft)
    load, init = events[_named(events, _LOAD)], events[_named(events, _INIT)]
    later = load["end"]
    events.remove(init)
    events.append({**init, "start": later, "end": later})


@kind
def load_until_the_first_execution(draft: Draft) -> None:
    """Loading ends within the first execution."""
    events = _loading(draft)
    load = events[_named(events, _LOAD)]
    outer = next(filter(is_execution, require(draft.executions)[0]))
    load["end"] = outer["end"]


@kind
def load_a_method_in_an_instruction(draft: Draft) -> None:
    events = _loading(draft)
    events[_named(events, _LOAD)].update(chain=0, instruction=0)


# Blocks


@kind
def rename_a_block(draft: Draft) -> None:
    _only_run(draft)
    _rename_blocks(draft, [draft.execution()], "Other")


@kind
def rename_all_blocks(draft: Draft) -> None:
    _only_run(draft)
    _rename_blocks(draft, require(draft.executions), "Other")


@kind
def rename_the_loading_block(draft: Draft) -> None:
    _only_run(draft)
    _rename_blocks(draft, [_loading(draft)], "Other")


@kind
def give_loading_the_name_of_executions(draft: Draft) -> None:
    _only_run(draft)
    _rename_blocks(draft, [_loading(draft)], "Execute")


@kind
def take_a_blocks_name(draft: Draft) -> None:
    _only_run(draft)
    _rename_blocks(draft, [draft.execution()], "")


def _rename_blocks(draft: Draft, chosen: list[list[Event]], name: str) -> None:
    draft.blocks = [
        (replace(block, name=name), events) if any(events is c for c in chosen) else (block, events)
        for block, events in draft.blocks
    ]


def _insert_block(draft: Draft, at: int, name: str, events: list[Event]) -> None:
    pattern = draft.blocks[max(at - 1, 0)][0]
    draft.blocks.insert(at, (replace(pattern, name=name), events))


@kind
def insert_an_empty_block(draft: Draft) -> None:
    _only_run(draft)
    at = draft.random.randrange(1, len(draft.blocks))
    _insert_block(draft, at, "Execute", [])


@kind
def end_with_an_empty_block(draft: Draft) -> None:
    _only_run(draft)
    _insert_block(draft, len(draft.blocks), "Execute", [])


@kind
def begin_with_an_empty_block(draft: Draft) -> None:
    _only_run(draft)
    _insert_block(draft, 0, "Default", [])


@kind
def empty_the_loading_block(draft: Draft) -> None:
    _only_run(draft)
    _loading(draft).clear()


@kind
def insert_a_foreign_block(draft: Draft) -> None:
    _only_run(draft)
    at = draft.random.randrange(1, len(draft.blocks))
    before = next(e for e in reversed(draft.blocks[at - 1][1]) if e["kind"] == Kind.PROFILE)
    event = {**before, "name": "foreign", "start": before["end"], "chain": -1, "instruction": -1}
    _insert_block(draft, at, "Foreign", [event])


@kind
def execute_in_the_loading_block(draft: Draft) -> None:
    """The first execution follows loading in the same block."""
    _only_run(draft)
    events = _loading(draft)
    first = draft.executions[0]
    events += first
    draft.blocks = [item for item in draft.blocks if item[1] is not first]


@kind
def run_another_test_set(draft: Draft) -> None:
    _only_run(draft)
    chosen = draft.execution()
    draft.blocks = [
        (replace(block, bundled_input_index=7), events) if events is chosen else (block, events)
        for block, events in draft.blocks
    ]


@kind
def exchange_executions(draft: Draft) -> None:
    *_, first, second = require(draft.executions[1:]) and draft.executions
    at = {id(events): n for n, (_, events) in enumerate(draft.blocks)}
    a, b = at[id(first)], at[id(second)]
    draft.blocks[a], draft.blocks[b] = draft.blocks[b], draft.blocks[a]


@kind
def complete_more_than_requested(draft: Draft) -> None:
    """The log has as many as completed."""
    _only_run(draft)
    requested = draft.subject.runs_requested or 0
    if requested < 2 or (draft.subject.runs_completed or 0) < requested:
        raise NotApplicableError
    draft.facts["runs_requested"] = requested - 1


# Times: what the events of a run, and the readings of its clock, allow


def _ahead(draft: Draft, reading: int, ticks: int) -> int:
    clock = draft.subject.trace.clocks[0]
    return (reading - ticks if clock.down else reading + ticks) % clock.modulus


def _long(draft: Draft, seconds: float = 2.0) -> int:
    """Two seconds in ticks; a third of a wrap for clocks that wrap earlier.

    Nothing is known of the time between events if values are logged without theirs.
    """
    trace = draft.subject.trace
    if ((trace.kind == Kind.DEBUG) & (trace.clock != 0)).any():
        raise NotApplicableError
    if draft.subject.runs_requested is None:
        raise NotApplicableError
    clock = draft.subject.trace.clocks[0]
    if clock.hz is None:
        raise NotApplicableError
    return min(int(clock.hz * seconds), clock.modulus // 3)


def _on_cpu(events: list[Event]) -> list[Event]:
    return [event for event in events if event["clock"] == 0]


def _shift(draft: Draft, events: list[Event], ticks: int) -> None:
    for event in _on_cpu(events):
        for key in ("start", "end"):
            event[key] = _ahead(draft, event[key], ticks)


def _timed(draft: Draft) -> None:
    if not draft.subject.trace.clocks or (draft.subject.pings is None):
        raise NotApplicableError


@kind
def end_the_last_execution_late(draft: Draft) -> None:
    outer = next(filter(is_execution, require(draft.executions)[-1]))
    spans(draft.executions[-1])
    outer["end"] = _ahead(draft, outer["end"], _long(draft))


@kind
def begin_an_execution_early(draft: Draft) -> None:
    events = draft.execution(warm=True)
    spans(events)
    outer = events[rows(events, is_execution)[0]]
    outer["start"] = _ahead(draft, outer["start"], -_long(draft))


@kind
def begin_the_first_execution_early(draft: Draft) -> None:
    events = require(draft.executions)[0]
    spans(events)
    outer = events[rows(events, is_execution)[0]]
    outer["start"] = _ahead(draft, outer["start"], -_long(draft))


@kind
def begin_an_execution_within_the_one_before(draft: Draft) -> None:
    """A little, so that it begins among the last instructions of the one before."""
    number = draft.random.randrange(1, len(require(draft.executions[1:])) + 1)
    before, events = draft.executions[number - 1], draft.executions[number]
    ended = next(filter(is_execution, before))["end"]
    outer = events[rows(events, is_execution)[0]]
    outer["start"] = _ahead(draft, ended, -draft.random.randrange(1, 50))


@kind
def end_an_execution_late(draft: Draft) -> None:
    """It and all later events, so that they follow one another."""
    number = draft.random.randrange(len(require(draft.executions)))
    events = draft.executions[number]
    spans(events)
    ticks, at = _long(draft), rows(events, is_execution)[0]
    events[at]["end"] = _ahead(draft, events[at]["end"], ticks)
    later = events[at + 1 :]
    for other in draft.executions[number + 1 :]:
        later = later + other
    _shift(draft, later, ticks)


@kind
def end_every_execution_late(draft: Draft) -> None:
    ticks = _long(draft, 0.9)
    for number, events in enumerate(require(draft.executions)):
        spans(events)
        at = rows(events, is_execution)[0]
        _shift(draft, events, ticks * number)
        events[at]["end"] = _ahead(draft, events[at]["end"], ticks)
        _shift(draft, events[at + 1 :], ticks)


@kind
def wait_between_instructions(draft: Draft) -> None:
    number = draft.random.randrange(len(require(draft.executions)))
    events = draft.executions[number]
    _, behind = draft.random.choice(require(spans(events)[:-1]))
    ticks = _long(draft)
    outer = rows(events, is_execution)[0]
    _shift(draft, events[behind:], ticks)
    events[outer]["start"] = _ahead(draft, events[outer]["start"], -ticks)
    for other in draft.executions[number + 1 :]:
        _shift(draft, other, ticks)


@kind
def take_a_scope_longer_than_its_kernel(draft: Draft) -> None:
    """Two seconds between the kernel's end and that of its scope; all else moves."""
    number = draft.random.randrange(len(require(draft.executions)))
    events = draft.executions[number]
    at = draft.random.choice(rows(events, is_kernel))
    scope = require([n for n in range(at, len(events)) if is_scope(events[n])])[0]
    ticks = _long(draft)
    begun = [event["start"] for event in events]
    _shift(draft, events[scope:], ticks)
    outer = rows(events, is_execution)[0]
    events[scope]["start"], events[outer]["start"] = begun[scope], begun[outer]
    for other in draft.executions[number + 1 :]:
        _shift(draft, other, ticks)


@kind
def pause_between_executions(draft: Draft) -> None:
    """Longer than the whole run took."""
    _timed(draft)
    ticks = _long(draft, 100.0)
    for events in require(draft.executions[1:]):
        _shift(draft, events, ticks)


@kind
def execute_after_the_readings(draft: Draft) -> None:
    """The whole log is later than the readings that followed the run."""
    _timed(draft)
    ticks = _long(draft)
    for _, events in draft.blocks:
        _shift(draft, events, ticks)


@kind
def execute_before_the_clock_was_zero(draft: Draft) -> None:
    _timed(draft)
    if draft.subject.restart is None:
        raise NotApplicableError
    for _, events in draft.blocks:
        _shift(draft, events, -_long(draft))


@kind
def copy_an_execution_exactly(draft: Draft) -> None:
    """All executions have the readings of the first."""
    first, *others = require(draft.executions[1:]) and draft.executions
    if [e["name"] for e in first] != [e["name"] for e in others[-1]]:
        raise NotApplicableError
    for events in others:
        for event, source in zip(events, first, strict=False):
            event.update(start=source["start"], end=source["end"])


@kind
def repeat_the_durations_of_an_execution(draft: Draft) -> None:
    """All executions take what the first takes, one after the other, on a clock of a host."""
    _only_run(draft)
    if draft.subject.trace.clocks[0].name != "CLOCK_MONOTONIC":
        raise NotApplicableError
    first, *others = require(draft.executions[2:]) and draft.executions
    spans(first)
    if any([e["name"] for e in first] != [e["name"] for e in other] for other in others):
        raise NotApplicableError
    clock = draft.subject.trace.clocks[0]
    if sum((event["end"] - event["start"]) % clock.modulus > 10_000 for event in first) < 8:
        raise NotApplicableError  # short ones are equal by chance
    began = next(filter(is_execution, first))["start"]
    took = (first[-1]["end"] - began) % clock.modulus + 2000
    for number, events in enumerate(others, start=1):
        for event, source in zip(events, first, strict=True):
            event.update(start=source["start"], end=source["end"])
        _shift(draft, events, took * number)


@kind
def take_no_time_in_an_execution(draft: Draft) -> None:
    """The clock stands while one execution runs, and goes on for the others."""
    if len(draft.executions) < 3:
        raise NotApplicableError
    events = draft.execution(warm=True)
    spans(events)
    now = next(filter(is_execution, events))["start"]
    for event in _on_cpu(events):
        event.update(start=now, end=now)


@kind
def allocate_at_another_time(draft: Draft) -> None:
    """At its place in the log, but with a time after its scope."""
    _only_run(draft)
    events, number = draft.random.choice(allocations(draft, "method"))
    later = _ahead(draft, events[-1]["end"], 5)
    events[number].update(start=later, end=later)


@kind
def log_a_value_late(draft: Draft) -> None:
    """The value of an instruction is logged when the execution is long over."""
    events = draft.execution()
    values = rows(events, lambda e: e["kind"] == Kind.DEBUG and e["clock"] == 0)
    event = events[values[0]]
    late = _ahead(draft, event["end"], _long(draft))
    event.update(start=late, end=late)


@kind
def give_every_operator_the_same_time(draft: Draft) -> None:
    """All kernels of all executions take exactly as long, as if one measurement was kept."""
    if draft.subject.trace.clocks[0].hz is None:
        raise NotApplicableError
    for events in require(draft.executions):
        kernels = [events[n] for n in rows(events, is_kernel)]
        if len({event["name"] for event in kernels}) < 4 or len(kernels) < 8:
            raise NotApplicableError
        if min((e["end"] - e["start"]) % 2**32 for e in kernels) < 64:
            raise NotApplicableError
        for event in kernels:
            event["end"] = _ahead(draft, event["start"], 64)


@kind
def read_the_clock_in_another_order(draft: Draft) -> None:
    _only_run(draft)
    pings = require(list(draft.subject.pings or ())[1:]) and list(draft.subject.pings or ())
    draft.facts["pings"] = tuple(reversed(pings))


@kind
def end_a_reading_before_it_began(draft: Draft) -> None:
    _only_run(draft)
    pings = require(list(draft.subject.pings or ()))
    first = pings[0]
    swapped = replace(first, host_before_ns=first.host_after_ns, host_after_ns=first.host_before_ns)
    draft.facts["pings"] = (swapped, *pings[1:])


@kind
def read_more_than_the_counter_holds(draft: Draft) -> None:
    _only_run(draft)
    pings = require(list(draft.subject.pings or ()))
    modulus = draft.subject.trace.clocks[0].modulus
    draft.facts["pings"] = (*pings[:-1], replace(pings[-1], ticks=pings[-1].ticks + modulus))


@kind
def set_the_clock_to_zero_after_the_run(draft: Draft) -> None:
    """The restart that the host recorded is later than its reading after the run."""
    _only_run(draft)
    restart, pings = draft.subject.restart, require(list(draft.subject.pings or ()))
    if restart is None:
        raise NotApplicableError
    late = pings[-1].host_after_ns + 1000
    draft.facts["restart"] = replace(restart, host_before_ns=late, host_after_ns=late + 1000)


# What the run asked for


def _settings(draft: Draft) -> Any:
    _only_run(draft)
    if draft.subject.settings is None:
        raise NotApplicableError
    return draft.subject.settings


@kind
def filter_events_unasked(draft: Draft) -> None:
    if _settings(draft).profile != "all":
        raise NotApplicableError
    draft.filtered = 7


@kind
def log_values_unasked(draft: Draft) -> None:
    settings = _settings(draft)
    rows([e for _, es in draft.blocks for e in es], lambda e: e["kind"] == Kind.DEBUG)
    draft.facts["settings"] = structs.replace(settings, values="none")


@kind
def leave_out_all_values(draft: Draft) -> None:
    _settings(draft)
    values = 0
    for _, events in draft.blocks:
        values += sum(event["kind"] == Kind.DEBUG for event in events)
        events[:] = [event for event in events if event["kind"] != Kind.DEBUG]
    require([values] * bool(values))
    if draft.losses.values:
        raise NotApplicableError


@kind
def drop_old_blocks_unasked(draft: Draft) -> None:
    settings = _settings(draft)
    require([draft.losses.runs] * bool(draft.losses.runs))
    draft.facts["settings"] = structs.replace(settings, when_full="stop")


@kind
def stream_unasked(draft: Draft) -> None:
    settings = _settings(draft)
    rows([e for _, es in draft.blocks for e in es], lambda e: e["name"] == "Link::stream")
    draft.facts["settings"] = structs.replace(settings, stream=False)


@kind
def log_more_than_the_buffer_holds(draft: Draft) -> None:
    if _settings(draft).stream:
        raise NotApplicableError
    draft.facts["trace_capacity"] = (draft.subject.log_bytes or 0) - 65


@kind
def leave_out_a_counter(draft: Draft) -> None:
    settings = _settings(draft)
    require(list(draft.subject.trace.counters))
    draft.facts["settings"] = structs.replace(settings, counters=settings.counters + ",branches")


@kind
def run_a_test_set_that_was_not_asked_for(draft: Draft) -> None:
    _settings(draft)
    draft.blocks = [
        (replace(block, bundled_input_index=3), events) for block, events in draft.blocks
    ]


@kind
def move_a_method_allocation(draft: Draft) -> None:
    _only_run(draft)
    found = allocations(draft, "method")
    events, number = max(found, key=lambda item: item[0][item[1]]["offset"])
    events[number]["offset"] += 4096


@kind
def allocate_nothing(draft: Draft) -> None:
    _only_run(draft)
    event = allocated(draft, "method")
    event["size"] = 0


@kind
def flip_a_bit_of_a_time(draft: Draft) -> None:
    """A high one of the start or the end of a scope."""
    _only_run(draft)
    trace = draft.subject.trace
    clock = trace.clocks[0]
    ends = trace.end[trace.clock == 0]
    length = (int(ends[-1]) - int(ends[0])) % clock.modulus
    bits = [bit for bit in range(clock.bits) if 1 << bit > length]
    event = draft.random.choice([e for e in draft.execution() if is_scope(e) or is_execution(e)])
    event[draft.random.choice(["start", "end"])] ^= 1 << draft.random.choice(require(bits))


# Counters


@kind
def stop_a_counter(draft: Draft) -> None:
    """Cycles or instructions that count nothing."""
    counters = [counter.name for counter in draft.subject.trace.counters]
    column = counters.index(require([n for n in counters if n in ("cycles", "instret")])[0])
    for _, events in draft.blocks:
        for event in events:
            if event["counts"][column] > 0:
                event["counts"][column] = 0


@kind
def stop_a_counter_in_an_execution(draft: Draft) -> None:
    counters = [counter.name for counter in draft.subject.trace.counters]
    column = counters.index(require([n for n in counters if n in ("cycles", "instret")])[0])
    for event in draft.execution():
        if event["counts"][column] > 0:
            event["counts"][column] = 0


# Tracers


@kind
def give_an_execution_to_another_tracer(draft: Draft) -> None:
    _only_run(draft)
    for event in draft.execution():
        event["tracer"] = 3


@kind
def give_an_event_to_another_tracer(draft: Draft) -> None:
    events = draft.execution()
    events[draft.random.choice(rows(events, is_kernel))]["tracer"] = 3
