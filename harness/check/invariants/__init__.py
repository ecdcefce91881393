"""Invariants: what holds for every sound trace, whatever ran; one module per theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from harness.check.checks import Check
from harness.check.invariants.completion import completion_checks
from harness.check.subject import Subject

INVARIANTS: Final[tuple[Callable[[Subject], Iterator[Check]], ...]] = (completion_checks,)
"""All of them, in the order of their codes. Each yields nothing where there is nothing to judge."""


def invariant_checks(subject: Subject) -> Iterator[Check]:
    """Apply every invariant to ``subject``."""
    for checks in INVARIANTS:
        yield from checks(subject)
