"""Energy of two measured runs, compared by operator, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.formatting import printable
from harness.records.energy import EnergyRecord
from harness.records.signature import Signature
from harness.report.energy import energy_unit
from harness.report.terminal import show_table
from harness.report.text import with_delegate

if TYPE_CHECKING:
    from rich.console import Console


class EnergyChange(Signature, frozen=True):
    """Mean energy of an event of one operator in two runs, which both measured it.

    Attributes:
        before: Joules in the first run.
        after: Joules in the second.
        bound: Largest error of their difference, without the errors of the meters.
    """

    before: float
    after: float
    bound: float

    @property
    def beyond_bound(self) -> bool:
        """Whether alignment and sampling cannot explain the difference."""
        return abs(self.after - self.before) > self.bound


def compare_energy(
    before: EnergyRecord | None, after: EnergyRecord | None
) -> tuple[EnergyChange, ...]:
    """Return the operators that both runs measured, the largest difference first."""
    if before is None or after is None:
        return ()
    old = {operator.signature: operator for operator in before.operators}
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
