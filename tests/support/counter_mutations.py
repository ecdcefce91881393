"""Kinds of damage to the hardware counters of a run; each breaks an invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness import NO_COUNT
from tests.support.mutations import Draft, Event, is_execution, require

COUNTER_KINDS: Final[dict[str, Callable[[Draft], None]]] = {}
"""Kinds by name."""


def counter_kind(change: Callable[[Draft], None]) -> Callable[[Draft], None]:
    COUNTER_KINDS[change.__name__] = change
    return change


def column(draft: Draft, name: str | None = None) -> int:
    """The column of a counter, any one without a name."""
    names = [counter.name for counter in draft.subject.trace.counters]
    found = [place for place, other in enumerate(names) if name in (None, other)]
    return int(draft.random.choice(require(found)))


def whole(events: list[Event]) -> Event:
    """The scope of an execution."""
    found: Event = next(filter(is_execution, events))
    return found


def within(draft: Draft, events: list[Event], place: int) -> Event:
    """Any event of an instruction with a count of this counter."""
    inside = [e for e in events if e["chain"] != -1 and e["counts"][place] > 0]
    found: Event = draft.random.choice(require(inside))
    return found


@counter_kind
def count_more_than_the_execution(draft: Draft) -> None:
    events, place = draft.execution(), column(draft)
    event = within(draft, events, place)
    event["counts"][place] = whole(events)["counts"][place] + 1


@counter_kind
def count_less_in_an_execution_than_in_its_events(draft: Draft) -> None:
    events, place = draft.execution(), column(draft)
    least = within(draft, events, place)["counts"][place]
    whole(events)["counts"][place] = draft.random.randrange(least)


@counter_kind
def count_more_than_the_counter_holds(draft: Draft) -> None:
    place = column(draft)
    event = within(draft, draft.execution(), place)
    event["counts"][place] += 2 ** draft.subject.trace.counters[place].bits


@counter_kind
def count_less_than_nothing(draft: Draft) -> None:
    place = column(draft)
    event = within(draft, draft.execution(), place)
    event["counts"][place] = NO_COUNT - draft.random.randrange(1, 100)


KINDS_OF_ANY_COUNTER: Final = tuple(COUNTER_KINDS)
"""Those of them that need no counter of a certain name."""


@counter_kind
def retire_more_instructions_than_cycles(draft: Draft) -> None:
    require([draft.subject] if draft.subject.single_issue else [])
    cycles, instructions = column(draft, "cycles"), column(draft, "instret")
    event = within(draft, draft.execution(), instructions)
    event["counts"][cycles] = event["counts"][instructions] - 1


@counter_kind
def take_more_branches_than_there_are(draft: Draft) -> None:
    taken, branches = column(draft, "branches_taken"), column(draft, "branches")
    event = within(draft, draft.execution(), branches)
    event["counts"][taken] = event["counts"][branches] + 1
    # Scopes around it count it, too, so that only the branches tell.
    for other in draft.executions:
        if event in other:
            whole(other)["counts"][taken] += event["counts"][branches] + 1


def count_more_than_instructions(name: str) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        part, instructions = column(draft, name), column(draft, "instret")
        event = whole(draft.execution())
        event["counts"][part] = event["counts"][instructions] + draft.random.randrange(1, 9)

    change.__name__ = f"count_more_{name}_than_instructions"
    return change


for part in ("branches", "jumps", "compressed"):
    counter_kind(count_more_than_instructions(part))
