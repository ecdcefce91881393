"""A postmortem on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.analyze.memory import allocator_totals
from harness.analyze.postmortem import (
    EventDocument,
    PostmortemDocument,
)
from harness.decode.postmortem import Postmortem
from harness.formatting import stack_use
from harness.report.description import describe_allocators
from harness.report.facts import trace_losses
from harness.report.run import print_allocators, print_losses
from harness.report.terminal import print_header, show_table

if TYPE_CHECKING:
    from rich.console import Console


def print_postmortem(console: Console, found: Postmortem, document: PostmortemDocument) -> None:
    """Print a postmortem: what happened, registers, open and last events, allocators, losses."""
    print_header(console, _header(document))
    if document.registers:
        rows = [
            [name, f"0x{value:08x}", document.places.get(name, "")]
            for name, value in document.registers.items()
        ]
        show_table(console, ["register", "value", "place"], rows, title="Registers")
    _print_events(console, document.open, "Open, outermost first")
    _print_events(console, document.last_events, "Last events")
    if found.trace is not None:
        print_allocators(console, describe_allocators(allocator_totals(found.trace)))
        print_losses(console, trace_losses(found.trace))


def _header(document: PostmortemDocument) -> dict[str, object]:
    header: dict[str, object] = {"crash": document.message, "firmware": document.build_id}
    if document.running:
        header["run"] = (
            f"{document.run_id}, execution {document.execution} of {document.executions}"
        )
    if document.stack_size:
        header["stack"] = stack_use(document.stack_used, document.stack_size)
    if document.resets > 1 or document.later_faults:
        header["since"] = f"{document.resets} resets, {document.later_faults} other faults"
    for number, damage in enumerate(document.damage):
        header["damage" if not number else " " * number] = damage
    return header


def _print_events(console: Console, events: tuple[EventDocument, ...], title: str) -> None:
    if not events:
        return
    rows = [
        [
            event.name or "",
            "" if event.delegate == -1 else str(event.delegate),
            "" if event.chain == -1 else str(event.instruction),
            f"{event.start:,}",
            "" if event.end is None else f"{event.end:,}",
        ]
        for event in events
    ]
    headers = ["event", "delegate id", "instruction", "start [ticks]", "end [ticks]"]
    show_table(console, headers, rows, title=title, numbers=range(1, 5))
