"""Rules of a budget as a table, and as ``budget --json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from harness.check.budget import Budget

_WIDEST: Final = 60
"""Characters of a value that a table shows."""


class BudgetField(msgspec.Struct, frozen=True):
    """What ``etharness budget --json`` prints of each field.

    Attributes:
        rule: The kind of rule, with its number from 1 where there may be several.
        field: The field.
        value: Its value.
        source: File and line.
    """

    rule: str
    field: str
    value: Any
    source: str


FIELDS = list[BudgetField]
"""The document of ``budget --json``."""


def fields(budget: Budget) -> Iterator[BudgetField]:
    """Return every field that a file sets, in the order of the rules."""
    data = msgspec.to_builtins(budget)
    for keys, source in budget.lines.items():
        kind, *rest = keys
        if not rest or (len(rest) == 1 and isinstance(rest[0], int)):
            continue  # a table as a whole
        value = data
        for key in keys:
            value = value[key]
        rule = f"{kind} {int(rest[0]) + 1}" if isinstance(rest[0], int) else str(kind)
        yield BudgetField(rule, str(rest[-1]), value, source)


def show_budget(console: Console, budget: Budget) -> None:
    """Print all fields and their files."""
    shown, rows = "", []
    for item in fields(budget):
        rule, shown = ("" if item.rule == shown else item.rule), item.rule
        value = str(item.value)
        cut = value if len(value) <= _WIDEST else f"{value[:_WIDEST]}..."
        rows.append([rule, item.field, cut, item.source])
    show_table(console, ["rule", "field", "value", "from"], rows)
    show_line(console, f"read, the last one wins: {', '.join(budget.files)}")
