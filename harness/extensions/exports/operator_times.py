"""Statistics of operators with unique names, for formats that hold one series per name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.analyze.statistics import Operator, Summary, operator_statistics
from harness.errors import UsageError
from harness.export.values import escaped
from harness.formatting import short_operator_name
from harness.records.trace import OPERATOR_CALL, Trace


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator of known duration, or a scope such as ``Method::execute``.

    Attributes:
        title: Short name with its instruction, such as ``conv2d #5``; unique in its block.
        operator: All else.
        ns: Its durations in nanoseconds.
    """

    title: str
    operator: Operator
    ns: Summary


def operator_times(trace: Trace) -> tuple[list[NamedOperator], tuple[str, ...]]:
    """Return the operators with a known duration, and a line for each kind of events without.

    The scopes around operators (``OPERATOR_CALL``) are left out: they would list every operator
    twice.

    Raises:
        UsageError: No operator has a known duration.
    """
    everything = operator_statistics(trace)
    operators = [item for item in everything if item.name != OPERATOR_CALL]
    known = [(item, item.ns) for item in operators if item.ns is not None]
    if operators and not known:
        raise UsageError(
            "no event has a duration in nanoseconds: the rate of its clock is unknown",
            hint="give the rate with --clock-hz",
        )
    names = unique_titles((item.block, _title(item)) for item, _ in known)
    found = [NamedOperator(name, item, ns) for name, (item, ns) in zip(names, known, strict=True)]
    left_out = {
        "scopes around operators": len(everything) - len(operators),
        "operators of unknown duration": len(operators) - len(known),
        "events of unknown duration": sum(item.unknown for item, _ in known),
    }
    return found, tuple(f"{count} {what}" for what, count in left_out.items() if count)


def _title(item: Operator) -> str:
    """Return the short name of an operator, and where it is: instruction, chain, delegate."""
    name = escaped(short_operator_name(item.name))
    if item.delegate_str is not None:
        name = f"{name} [{escaped(item.delegate_str)}]".strip()
    elif item.delegate_int != -1:
        name = f"{name} [{item.delegate_int}]".strip()
    if item.chain == -1:
        return name or "unnamed"
    place = f"#{item.instruction}" + (f" of chain {item.chain}" if item.chain else "")
    return f"{name or 'unnamed'} {place}"


def unique_titles(keys: Iterable[tuple[str, str]]) -> list[str]:
    """Return titles by block and title; equal ones of a block are numbered from the second on."""
    given = [*keys]
    taken, seen = {*given}, set[tuple[str, str]]()
    titles = []
    for key in given:
        block, title = key
        number, found = 2, key
        while key in seen and found in taken:
            found = (block, f"{title} ({number})")
            number += 1
        seen.add(key)
        taken.add(found)
        titles.append(found[1])
    return titles
