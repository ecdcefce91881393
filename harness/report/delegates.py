"""What delegates do, as a table of each call."""

from __future__ import annotations

from collections.abc import Sequence

from harness.printing import printable
from harness.records.result import DelegateCall, DelegateOperator, DelegateWork
from harness.report.words import ReportTable


def delegate_table(call: DelegateCall, *, detailed: bool = False) -> ReportTable:
    """Return the work of a call of a delegate; without rows where it is not known.

    Args:
        call: The call.
        detailed: List every operation with its operands, not those with one name together.
    """
    work = call.work or DelegateWork()
    facts = [f"{printable(call.backend)}, instruction {call.instruction}"]
    facts += [work.target] if work.target else []
    facts += [f"{work.scratch_bytes:,} bytes of scratch memory"] if work.scratch_bytes else []
    facts += [f"{work.constant_bytes:,} bytes of constants"] if work.constant_bytes else []
    names = [str(place) if detailed else each.name for place, each in enumerate(work.operators)]
    groups = {name: [n for n, other in enumerate(names) if other == name] for name in names}
    columns = _columns(work.operators)
    rows = []
    for places in groups.values():
        first = work.operators[places[0]]
        label = first.operands if detailed else f"{len(places):,}"
        sums = (sum(numbers[place] for place in places) for numbers in columns.values())
        rows.append((first.name, label, *(f"{total:,}" for total in sums)))
    notes = [f"{printable(call.backend)}: {printable(note)}" for note in work.notes]
    if work.estimated_by:
        notes.append(f"cycles are estimated by {work.estimated_by}")
    headers = ("operator", "operands" if detailed else "calls", *columns)
    title = ": ".join([facts[0], *filter(None, [", ".join(facts[1:])])])
    return ReportTable(title, headers, rows, range(1 + detailed, len(headers)), notes)


def _columns(operators: Sequence[DelegateOperator]) -> dict[str, list[int]]:
    """Return the numbers of the operations by heading, if any of them is not 0."""
    columns = {
        "MACs": [each.macs for each in operators],
        "weights [B]": [each.weight_bytes for each in operators],
        "DMA [B]": [each.dma_bytes for each in operators],
    }
    for memory in sorted({name for each in operators for name in (*each.read, *each.written)}):
        columns[f"{memory} read [B]"] = [each.read.get(memory, 0) for each in operators]
        columns[f"{memory} written [B]"] = [each.written.get(memory, 0) for each in operators]
    columns["cycles"] = [each.cycles or 0 for each in operators]
    return {heading: numbers for heading, numbers in columns.items() if any(numbers)}
