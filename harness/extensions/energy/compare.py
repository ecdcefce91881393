"""Energy of two runs, operator by operator: what changed, and what the bounds explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.analyze.counterparts import Counterparts, ProgramOutline
from harness.formatting import printable
from harness.records.energy import EnergyChange, EnergyRecord
from harness.report.operators import energy_unit
from harness.report.terminal import show_table
from harness.report.words import with_delegate

if TYPE_CHECKING:
    from rich.console import Console


def compare_energy(
    before: EnergyRecord | None,
    after: EnergyRecord | None,
    outlines: tuple[ProgramOutline | None, ProgramOutline | None] | None = None,
) -> tuple[EnergyChange, ...]:
    """Return the operators that both runs measured, the largest difference first.

    Args:
        before: Energy of the first run.
        after: Energy of the second run.
        outlines: What is known of both programs, if they are not the same; None for one program.
    """
    if before is None or after is None:
        return ()
    old = {operator.signature: operator for operator in before.operators}
    if outlines is not None:
        joined = Counterparts.between(before.operators, after.operators, outlines)
        places = ((operator, joined.of(operator)) for operator in before.operators)
        old = {
            (operator.block, operator.name, operator.chain, *place): operator
            for operator, place in places
            if place is not None
        }
    found = []
    for new in after.operators:
        first = old.get(new.signature)
        if first is None or first.joules is None or new.joules is None:
            continue
        bound = (first.bound or 0.0) + (new.bound or 0.0)
        name = printable(new.name)
        facts = (printable(new.block), name, *new.signature[2:5])
        delegate = None if new.delegate_str is None else printable(new.delegate_str)
        found.append(EnergyChange(*facts, delegate, first.joules, new.joules, bound))
    return tuple(sorted(found, key=lambda change: -abs(change.after - change.before)))


def print_energy_changes(console: Console, changes: Sequence[EnergyChange]) -> None:
    """Print a table of all changes; nothing without any."""
    if not changes:
        return
    unit = energy_unit([joules for change in changes for joules in (change.before, change.after)])
    several = len({change.block for change in changes}) > 1
    rows = []
    for change in changes:
        name = with_delegate(change)
        difference = change.after - change.before
        rows.append(
            [
                f"{change.block}: {name}" if several else name,
                str(change.instruction),
                unit.text(change.before),
                unit.text(change.after),
                ("+" if difference > 0 else "") + unit.text(difference),
                unit.text(change.bound),
                "yes" if change.beyond_bound else "no",
            ]
        )
    headers = ["event", "instruction", f"before [{unit.name}]", f"after [{unit.name}]"]
    headers += [f"difference [{unit.name}]", f"+- [{unit.name}]", "beyond it"]
    show_table(console, headers, rows, title="Energy of an event", numbers=range(1, 7))
