"""Hardware counters of a device: which it offers, and which of them a run reads at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from construct import GreedyBytes, GreedyRange, Int8ul, Padding, Prefixed, Struct, Terminated

from harness.errors import UsageError, did_you_mean
from harness.link.messages import build_body, parse_body, printable
from harness.link.wire import MAX_COUNTERS

_REQUEST: Final = Struct("first" / Int8ul)
_COUNTER: Final = Struct(
    "bits" / Int8ul, "selectable" / Int8ul, "name" / Prefixed(Int8ul, GreedyBytes)
)
_ANSWER: Final = Struct(
    Int8ul,
    "count" / Int8ul,
    "at_once" / Int8ul,
    Padding(1),
    "counters" / GreedyRange(_COUNTER),
    Terminated,
)


@dataclass(frozen=True, slots=True)
class OfferedCounter:
    """A hardware counter that a run can read.

    Attributes:
        name: Name, such as ``instret``.
        bits: Width.
        selectable: Whether it takes one of the device's selectable counters.
    """

    name: str
    bits: int
    selectable: bool = False


@dataclass(frozen=True, slots=True)
class CounterList:
    """The hardware counters of a device, or a part of them.

    Attributes:
        count: Number of all counters.
        at_once: Number of selectable counters that count at once.
        counters: The counters; their places are the numbers that RUN selects them by.
    """

    count: int = 0
    at_once: int = 0
    counters: tuple[OfferedCounter, ...] = ()

    def numbers(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of counters."""
        places = {counter.name: number for number, counter in enumerate(self.counters)}
        return tuple(places[name] for name in names)

    def check(self, names: Sequence[str], board: str) -> None:
        """Check that the device has these counters.

        Raises:
            UsageError: There is no such counter, or one is named twice.
        """
        known = [counter.name for counter in self.counters]
        for name in names:
            if name not in known:
                offered = f"it has {', '.join(known)}" if known else "its firmware offers none"
                raise UsageError(
                    f"{board} has no hardware counter {name!r}",
                    hint=f"{did_you_mean(name, known)}{offered}",
                )
            if names.count(name) > 1:
                raise UsageError(f"counter {name} is named {names.count(name)} times")

    def passes(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the counters in groups that count at once.

        The first counter that is not selectable is in every group, so that groups can be compared.
        Later groups are filled up with counters of earlier ones, so that reading costs the same.
        """
        selectable = {counter.name for counter in self.counters if counter.selectable}
        common = [name for name in names if name not in selectable][:1]
        left = [name for name in names if name not in common]
        groups: list[tuple[str, ...]] = []
        while left or not groups:
            group = [*common]
            for name in (*left, *names):
                if name not in group and self._has_room(group, name, selectable):
                    group.append(name)
                if groups and len(group) == len(groups[0]):
                    break
            known = len(left)
            left = [name for name in left if name not in group]
            groups.append(tuple(name for name in names if name in group))
            if len(left) == known:
                break  # there is no room for any
        return [group for group in groups if group]

    def _has_room(self, group: Sequence[str], name: str, selectable: set[str]) -> bool:
        taken = sum(each in selectable for each in group)
        return len(group) < MAX_COUNTERS and (name not in selectable or taken < self.at_once)

    def check_at_once(self, names: Sequence[str], board: str) -> None:
        """Check that these counters count at once.

        Raises:
            UsageError: They do not.
        """
        if len(self.passes(names)) > 1:
            raise UsageError(
                f"{board} cannot count {', '.join(names)} in one run: at most "
                f"{MAX_COUNTERS} counters, {self.at_once} of them selectable",
                hint="--counter-passes measures them in several runs",
            )


def counters_request(first: int) -> bytes:
    """Return the body of a COUNTERS, which lists the counters from number ``first`` on."""
    return build_body(_REQUEST, first=first)


def parse_counters(body: bytes) -> CounterList:
    """Parse the response to COUNTERS.

    Raises:
        MalformedBodyError: The body does not have its layout.
    """
    answer = parse_body(_ANSWER, body)
    counters = (
        OfferedCounter(printable(each.name), each.bits, bool(each.selectable))
        for each in answer.counters
    )
    return CounterList(answer.count, answer.at_once, tuple(counters))
