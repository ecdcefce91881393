"""Kinds of damage to the trace of a run, or to what its result says; each breaks an invariant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

import numpy as np

from harness import EXECUTION, NO_NAME, Block, Kind, Losses, Subject, Trace

Event = dict[str, Any]
"""Columns of an event; names as text."""

_NAMES: Final = ("name", "delegate_str")
_SCOPES: Final = ("OPERATOR_CALL", "DELEGATE_CALL", "MOVE_CALL", "JF_CALL", "FREE_CALL")


@dataclass
class Draft:
    """A trace as lists of events, and what is changed beside it.

    Attributes:
        subject: The sound run.
        blocks: Its blocks, each with its events.
        facts: Fields of the subject to replace.
        losses: Losses of the trace.
        stacks: Stacks of the trace.
        filtered: Number of events that the trace says were filtered.
        random: Chooses where.
    """

    subject: Subject
    random: Random
    blocks: list[tuple[Block, list[Event]]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        trace = self.subject.trace
        self.losses, self.stacks = trace.losses, trace.stacks
        self.filtered = trace.filtered_events
        columns = {
            item.name: column.tolist()
            for item in dataclasses.fields(trace)
            if isinstance(column := getattr(trace, item.name), np.ndarray)
        }
        for name in _NAMES:
            columns[name] = [trace.text(index) for index in columns[name]]
        for block in trace.blocks:
            rows = range(block.first, block.first + block.count)
            events = [{name: column[row] for name, column in columns.items()} for row in rows]
            self.blocks.append((block, events))

    @property
    def changed(self) -> Subject:
        """The subject with the changed trace."""
        trace, blocks = self.subject.trace, []
        events: list[Event] = []
        for block, own in self.blocks:
            blocks.append(replace(block, first=len(events), count=len(own)))
            events += own
        texts = [event[name] for event in events for name in _NAMES if event[name] is not None]
        names = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        columns: dict[str, Any] = {}
        for item in dataclasses.fields(trace):
            column = getattr(trace, item.name)
            if not isinstance(column, np.ndarray):
                continue
            values = [event[item.name] for event in events]
            if item.name in _NAMES:
                values = [names.get(value, NO_NAME) for value in values]
            shape = (len(events), *column.shape[1:])
            columns[item.name] = np.array(values, column.dtype).reshape(shape)
        made: Trace = replace(
            trace,
            **columns,
            names=tuple(names),
            blocks=tuple(blocks),
            losses=self.losses,
            stacks=self.stacks,
            filtered_events=self.filtered,
        )
        return replace(self.subject, trace=made.sealed(), **self.facts)

    @property
    def executions(self) -> list[list[Event]]:
        """Events of the blocks with an execution."""
        return [events for _, events in self.blocks if any(is_execution(e) for e in events)]

    def execution(self, *, warm: bool = False) -> list[Event]:
        """Any execution; a warm one is not the first."""
        found = self.executions[1:] if warm else self.executions
        return self.random.choice(require(found))


class NotApplicableError(Exception):
    """The run has nothing that this kind of damage could change."""


def require(found: list[Any]) -> list[Any]:
    """Return the list unless it is empty."""
    if not found:
        raise NotApplicableError
    return found


def is_execution(event: Event) -> bool:
    return bool(event["name"] == EXECUTION and event["kind"] == Kind.PROFILE)


def is_scope(event: Event) -> bool:
    return event["name"] in _SCOPES and event["kind"] == Kind.PROFILE


def is_kernel(event: Event) -> bool:
    return (event["name"] or "").startswith("native_call_")


def is_delegates(event: Event) -> bool:
    return event["delegate_int"] != -1 or event["delegate_str"] is not None


def place(event: Event) -> tuple[int, int]:
    return event["chain"], event["instruction"]


def spans(events: list[Event]) -> list[tuple[int, int]]:
    """Where the events of each instruction are: the first, and behind its scope."""
    found, first = [], 0
    for number, event in enumerate(events):
        if is_scope(event):
            found.append((first, number + 1))
            first = number + 1
    return require(found)


def rows(events: list[Event], wanted: Callable[[Event], bool]) -> list[int]:
    return require([number for number, event in enumerate(events) if wanted(event)])


Mutate = Callable[[Draft], None]
KINDS: Final[dict[str, Mutate]] = {}
"""All kinds by name."""


def kind(mutate: Mutate) -> Mutate:
    KINDS[mutate.__name__] = mutate
    return mutate


def in_executions(change: Callable[[list[Event], Random], None]) -> None:
    """Add two kinds: of one execution, and of all of them alike."""

    def one(draft: Draft) -> None:
        change(draft.execution(), draft.random)

    def every(draft: Draft) -> None:
        seed = draft.random.random()
        for events in require(draft.executions):
            change(events, Random(seed))

    KINDS[f"{change.__name__}_once"] = one
    KINDS[f"{change.__name__}_always"] = every


# Instructions


@in_executions
def leave_out_instruction(events: list[Event], random: Random) -> None:
    first, behind = random.choice(spans(events))
    del events[first:behind]


@in_executions
def leave_out_scope(events: list[Event], random: Random) -> None:
    del events[random.choice(rows(events, is_scope))]


@in_executions
def repeat_instruction(events: list[Event], random: Random) -> None:
    first, behind = random.choice(spans(events))
    events[behind:behind] = [dict(event) for event in events[first:behind]]


@in_executions
def repeat_scope(events: list[Event], random: Random) -> None:
    number = random.choice(rows(events, is_scope))
    events.insert(number, dict(events[number]))


@in_executions
def repeat_kernel(events: list[Event], random: Random) -> None:
    number = random.choice(rows(events, is_kernel))
    events.insert(number, dict(events[number]))


@in_executions
def rename_kernel(events: list[Event], random: Random) -> None:
    events[random.choice(rows(events, is_kernel))]["name"] = "native_call_other.out"


@in_executions
def exchange_kernels_names(events: list[Event], random: Random) -> None:
    numbers = rows(events, is_kernel)
    first = events[random.choice(numbers)]
    others = [events[n] for n in numbers if events[n]["name"] != first["name"]]
    second = random.choice(require(others))
    first["name"], second["name"] = second["name"], first["name"]


@in_executions
def call_scope_other(events: list[Event], random: Random) -> None:
    event = events[random.choice(rows(events, is_scope))]
    event["name"] = "OPERATOR_CALL" if event["name"] == "DELEGATE_CALL" else "DELEGATE_CALL"


@in_executions
def exchange_instructions_ids(events: list[Event], random: Random) -> None:
    found = spans(events)
    number = random.randrange(len(found))
    pair = [found[number], found[number - 1]]
    places = [place(events[behind - 1]) for _, behind in pair]
    if places[0] == places[1]:
        raise NotApplicableError
    for (first, behind), (chain, instruction) in zip(pair, reversed(places), strict=True):
        for event in events[first:behind]:
            if event["chain"] != -1:
                event["chain"], event["instruction"] = chain, instruction


@in_executions
def exchange_neighbors(events: list[Event], random: Random) -> None:
    found = spans(events)
    number = random.randrange(1, len(require(found[1:])) + 1)
    (first, middle), (middle, behind) = found[number - 1], found[number]
    events[first:behind] = [*events[middle:behind], *events[first:middle]]


@in_executions
def give_another_instruction(events: list[Event], random: Random) -> None:
    events[random.choice(rows(events, is_scope))]["instruction"] += random.choice([1, -1, 50])


@in_executions
def give_another_chain(events: list[Event], random: Random) -> None:
    events[random.choice(rows(events, is_scope))]["chain"] += random.choice([1, 3])


@in_executions
def take_out_of_chain(events: list[Event], random: Random) -> None:
    events[random.choice(rows(events, is_scope))].update(chain=-1, instruction=0)


@in_executions
def give_kernel_another_instruction(events: list[Event], random: Random) -> None:
    events[random.choice(rows(events, is_kernel))]["instruction"] += random.choice([1, -1])


@in_executions
def move_behind_execution(events: list[Event], random: Random) -> None:
    first, behind = random.choice(spans(events))
    moved = events[first:behind]
    del events[first:behind]
    events.extend(moved)


@in_executions
def end_early(events: list[Event], random: Random) -> None:
    found = spans(events)
    first, _ = random.choice(require(found[1:]))  # without any there would be no evidence
    del events[first : found[-1][1]]


@in_executions
def give_delegates_event_a_kernels_instruction(events: list[Event], random: Random) -> None:
    event = events[random.choice(rows(events, is_delegates))]
    kernels = [events[number] for number in rows(events, is_kernel)]
    event["instruction"] = random.choice(kernels)["instruction"]


@in_executions
def log_foreign_event(events: list[Event], random: Random) -> None:
    number = random.choice(rows(events, is_scope))
    foreign = {**events[number], "name": "foreign", "instruction": 77}
    events.insert(number, foreign)


@kind
def leave_out_kernel(draft: Draft) -> None:
    events = draft.execution(warm=True)
    del events[draft.random.choice(rows(events, is_kernel))]


@kind
def leave_out_delegates_event(draft: Draft) -> None:
    events = draft.execution(warm=True)
    del events[draft.random.choice(rows(events, is_delegates))]


@kind
def leave_out_value(draft: Draft) -> None:
    events = draft.execution(warm=True)
    del events[draft.random.choice(rows(events, lambda event: event["kind"] == Kind.DEBUG))]


@kind
def repeat_value(draft: Draft) -> None:
    events = draft.execution(warm=True)
    number = draft.random.choice(rows(events, lambda event: event["kind"] == Kind.DEBUG))
    events.insert(number, dict(events[number]))


@kind
def move_to_loading(draft: Draft) -> None:
    events = draft.execution()
    first, behind = draft.random.choice(spans(events))
    draft.blocks[0][1].extend(events[first:behind])
    del events[first:behind]


# Executions


@in_executions
def leave_out_execution_scope(events: list[Event], _: Random) -> None:
    spans(events)
    events[:] = [event for event in events if not is_execution(event)]


@in_executions
def rename_execution(events: list[Event], _: Random) -> None:
    spans(events)
    for number in rows(events, is_execution):
        events[number]["name"] = "Method::other"


@in_executions
def repeat_execution_scope(events: list[Event], _: Random) -> None:
    spans(events)
    events.append(dict(events[rows(events, is_execution)[0]]))


@in_executions
def begin_with_execution_scope(events: list[Event], _: Random) -> None:
    spans(events)
    events.insert(0, events.pop(rows(events, is_execution)[0]))


@kind
def leave_out_execution(draft: Draft) -> None:
    lost = draft.execution()
    draft.blocks = [item for item in draft.blocks if item[1] is not lost]


@kind
def leave_out_half_of_the_executions(draft: Draft) -> None:
    lost = require(draft.executions[::2])
    draft.blocks = [item for item in draft.blocks if not any(item[1] is one for one in lost)]


@kind
def repeat_an_execution(draft: Draft) -> None:
    chosen = draft.execution()
    at = next(n for n, (_, events) in enumerate(draft.blocks) if events is chosen)
    copied = [dict(event) for event in chosen]
    draft.blocks.insert(at, (draft.blocks[at][0], copied))


@kind
def merge_executions(draft: Draft) -> None:
    *_, first, second = require(draft.executions[1:]) and draft.executions
    first += second
    second.clear()


@kind
def split_an_execution(draft: Draft) -> None:
    chosen = draft.execution()
    _, middle = draft.random.choice(require(spans(chosen)[:-1]))
    at = next(n for n, (_, events) in enumerate(draft.blocks) if events is chosen)
    draft.blocks.insert(at, (draft.blocks[at][0], chosen[:middle]))
    del chosen[:middle]


@kind
def leave_out_everything(draft: Draft) -> None:
    draft.blocks = []


# Times


def _ahead(draft: Draft, start: int, ticks: int) -> int:
    clock = draft.subject.trace.clocks[0]
    return (start - ticks if clock.down else start + ticks) % clock.modulus


@kind
def begin_before_execution(draft: Draft) -> None:
    events = draft.execution()
    outer = events[rows(events, is_execution)[0]]
    event = events[rows(events, is_scope)[0]]
    event["start"] = _ahead(draft, outer["start"], -draft.random.randrange(1, 1000))


@kind
def end_after_execution(draft: Draft) -> None:
    events = draft.execution()
    outer = events[rows(events, is_execution)[0]]
    event = events[rows(events, is_scope)[-1]]
    event["end"] = _ahead(draft, outer["end"], draft.random.randrange(1, 1000))


@kind
def begin_before_scope(draft: Draft) -> None:
    events = draft.execution()
    number = draft.random.choice(rows(events, is_kernel))
    scope = next(event for event in events[number:] if is_scope(event))
    events[number]["start"] = _ahead(draft, scope["start"], -draft.random.randrange(1, 1000))


@kind
def overlap(draft: Draft) -> None:
    events = draft.execution()
    numbers = rows(events, is_scope)
    at = draft.random.randrange(1, len(require(numbers[1:])) + 1)
    before, event = events[numbers[at - 1]], events[numbers[at]]
    event["start"] = _ahead(draft, before["end"], -1)


@kind
def end_before_it_starts(draft: Draft) -> None:
    event = draft.random.choice([e for e in draft.execution() if is_scope(e) or is_execution(e)])
    event["end"] = _ahead(draft, event["start"], -draft.random.randrange(1, 100))


@kind
def step_back(draft: Draft) -> None:
    """More than an interrupt would explain, within an execution."""
    events = draft.execution()
    own = [e for e in events if e["clock"] == 0]
    for event in own[draft.random.randrange(len(require(own[1:]))) : -1]:
        for key in ("start", "end"):
            event[key] = _ahead(draft, event[key], -(10**6))
    spans(events)


@kind
def stop_the_clock(draft: Draft) -> None:
    trace = draft.subject.trace
    if np.count_nonzero((trace.kind == Kind.PROFILE) & (trace.clock == 0)) < 8:
        raise NotApplicableError
    for _, events in draft.blocks:
        for event in events:
            event.update(start=7, end=7)


@kind
def take_no_time(draft: Draft) -> None:
    trace = draft.subject.trace
    if np.count_nonzero((trace.kind == Kind.PROFILE) & (trace.clock == 0)) < 8:
        raise NotApplicableError
    for _, events in draft.blocks:
        for event in events:
            event["start"] = event["end"]


# Memory


def allocations(draft: Draft, name: str, sign: int = 1) -> list[tuple[list[Event], int]]:
    """Where an allocator's allocations or frees are: the events of the block, and the number."""
    return require(
        [
            (events, number)
            for block, events in draft.blocks
            for number, event in enumerate(events)
            if event["kind"] == Kind.ALLOCATION
            and event["size"] * sign > 0
            and block.allocators[event["allocator"] - 1 : event["allocator"]] == (name,)
        ]
    )


def allocated(draft: Draft, name: str, sign: int = 1) -> Event:
    events, number = draft.random.choice(allocations(draft, name, sign))
    return events[number]


def instant(draft: Draft, events: list[Event], name: str, size: int, offset: int) -> None:
    """Add an allocation at the end of an execution."""
    pattern = allocated(draft, name)
    number = rows(events, is_execution)[0]
    now = _ahead(draft, events[number]["end"], -1)
    changed = {"size": size, "offset": offset, "start": now, "end": now}
    events.insert(number, {**pattern, **changed})


def _reach(draft: Draft, name: str) -> int:
    found = (events[number] for events, number in allocations(draft, name))
    return max(int(event["offset"] + event["size"]) for event in found)


@kind
def allocate_less_than_planned(draft: Draft) -> None:
    allocated(draft, "planned_1")["size"] //= 2


@kind
def allocate_more_than_planned(draft: Draft) -> None:
    allocated(draft, "planned_1")["size"] += 16


@kind
def allocate_beyond_plan(draft: Draft) -> None:
    allocated(draft, "planned_1")["offset"] += 16


@kind
def leave_out_planned_memory(draft: Draft) -> None:
    events, number = allocations(draft, "planned_1")[0]
    del events[number]


@kind
def plan_other_sizes(draft: Draft) -> None:
    allocations(draft, "planned_1")
    planned = draft.subject.planned
    draft.facts["planned"] = {**planned, "planned_1": planned["planned_1"] + 8}


@kind
def allocate_twice(draft: Draft) -> None:
    events, number = draft.random.choice(allocations(draft, "method"))
    events.insert(number, dict(events[number]))


@kind
def free_unknown(draft: Draft) -> None:
    instant(draft, draft.execution(), "method", -12345, 0)


@kind
def free_method_memory(draft: Draft) -> None:
    pattern = allocated(draft, "method")
    instant(draft, draft.execution(warm=True), "method", -pattern["size"], pattern["offset"])


@kind
def free_planned_memory(draft: Draft) -> None:
    pattern = allocated(draft, "planned_1")
    instant(draft, draft.execution(warm=True), "planned_1", -pattern["size"], pattern["offset"])


@kind
def grow_with_every_execution(draft: Draft) -> None:
    end, size = _reach(draft, "method"), draft.random.randrange(1, 100)
    for number, events in enumerate(draft.executions):
        instant(draft, events, "method", size, end + number * size)


@kind
def grow_once(draft: Draft) -> None:
    end, size = _reach(draft, "method"), draft.random.randrange(1, 100)
    instant(draft, draft.execution(warm=True), "method", size, end)


@kind
def allocate_beyond_arena(draft: Draft) -> None:
    allocated(draft, "method")["offset"] = draft.subject.arena_capacity


@kind
def keep_temporary_memory_once(draft: Draft) -> None:
    events, number = draft.random.choice(allocations(draft, "temporary", -1))
    del events[number]


@kind
def keep_temporary_memory(draft: Draft) -> None:
    allocations(draft, "temporary", -1)
    taken = 0
    for events, number in reversed(allocations(draft, "temporary", -1)):
        del events[number]
    for events, number in allocations(draft, "temporary"):
        events[number]["offset"], taken = taken, taken + events[number]["size"]


@kind
def free_less_temporary_memory(draft: Draft) -> None:
    allocated(draft, "temporary", -1)["size"] += 1


@kind
def free_temporary_memory_twice(draft: Draft) -> None:
    events, number = draft.random.choice(allocations(draft, "temporary", -1))
    events.insert(number, dict(events[number]))


@kind
def allocate_temporary_memory_of_the_method(draft: Draft) -> None:
    event = allocated(draft, "temporary")
    event["allocator"] = allocated(draft, "method")["allocator"]


# What is known beside the events


@kind
def use_more_than_the_stack(draft: Draft) -> None:
    stack = draft.random.choice(require(list(draft.stacks)))
    draft.stacks = (replace(stack, used=stack.size + draft.random.randrange(1000)),)


@kind
def lose_events(draft: Draft) -> None:
    draft.losses = draft.losses + Losses(events=draft.random.randrange(1, 99))


@kind
def lose_chunks(draft: Draft) -> None:
    draft.losses = draft.losses + Losses(chunks=1, records=draft.random.randrange(1, 99))


@kind
def lose_declarations(draft: Draft) -> None:
    draft.losses = draft.losses + Losses(blocks=1)


@kind
def claim_more_executions(draft: Draft) -> None:
    claimed = (draft.subject.runs_completed or 0) + 1
    draft.facts.update(runs_requested=claimed, runs_completed=claimed)


@kind
def claim_fewer_executions(draft: Draft) -> None:
    claimed = require(draft.executions[1:]) and len(draft.executions) - 1
    draft.facts.update(runs_requested=claimed, runs_completed=claimed)


@kind
def complete_fewer_executions(draft: Draft) -> None:
    draft.facts["runs_completed"] = (draft.subject.runs_completed or 1) - 1


@kind
def run_another_program(draft: Draft) -> None:
    spans(draft.execution())
    chains = draft.subject.chains or ()
    draft.facts["chains"] = (chains[0][:-1], *chains[1:])


@kind
def run_a_longer_program(draft: Draft) -> None:
    spans(draft.execution())
    chains = draft.subject.chains or ()
    draft.facts["chains"] = ((*chains[0], *chains[0][-1:]), *chains[1:])
