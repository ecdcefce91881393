"""Limits on the energy of operators."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from harness.check.limits.times import (
    Cite,
    at_most,
    failed_limit,
    subject_of_operator,
    unmatched_limit,
)
from harness.check.rules import EnergyLimit
from harness.check.subject import Subject
from harness.records.energy import OperatorEnergy
from harness.records.verdict import Check

_CODE: Final = "B14"
_MICRO: Final = 1e6
_MILLI: Final = 1e3


def energy_checks(rule: EnergyLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    """Yield a check for each limit of a rule on each matching operator.

    What is compared with ``limit_uj`` is the most that an event may have drawn on average: the
    middle of its bounds and the bound.
    """
    event, block = rule.event or "", rule.block
    found, missing = _matching(rule, subject)
    for field, limit, unit, what in (
        ("limit_uj", rule.limit_uj, "uJ", "energy"),
        ("limit_average_ma", rule.limit_average_ma, "mA", "average current"),
        ("limit_peak_ma", rule.limit_peak_ma, "mA", "peak current"),
    ):
        if limit is None:
            continue
        text, cited = f"{what} of {event} in {block}", cite(field)
        if missing and not rule.optional:
            yield unmatched_limit(_CODE, text, event, limit, unit, missing, cited)
        for operator in found:
            name = subject_of_operator(operator)
            measured = _measured(operator, field)
            if measured is None:
                reason = f"none of its {operator.events:,} events could be measured"
                yield failed_limit(_CODE, text, name, None, limit, unit, reason, cited)
            else:
                yield at_most(_CODE, text, name, measured, limit, unit, cited)


def _matching(rule: EnergyLimit, subject: Subject) -> tuple[list[OperatorEnergy], str]:
    """Return the operators that a rule selects, or why there are none."""
    energy = subject.energy
    if energy is None:
        return [], "no meter recorded the run (--energy)"
    if energy.unknown:
        return [], f"the energy is unknown: {energy.unknown}"
    found = [
        operator
        for operator in energy.operators
        if fnmatchcase(operator.name, rule.event or "")
        and fnmatchcase(operator.block, rule.block)
        and rule.instruction in (None, operator.instruction)
    ]
    return found, "" if found else f"no event matches {rule.event!r} in block {rule.block!r}"


def _measured(operator: OperatorEnergy, field: str) -> float | None:
    if operator.joules is None or operator.bound is None:
        return None
    if field == "limit_uj":
        return (operator.joules + operator.bound) * _MICRO
    current = operator.average_amperes if "average" in field else operator.peak_amperes
    return (current or 0.0) * _MILLI
