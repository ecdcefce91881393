"""A postmortem for people's eyes, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from harness.etdump.postmortem import Postmortem
from harness.report.terminal import print_allocators, print_header, print_losses, show_table
from harness.report.text import printable, stack_use
from harness.trace import Kind, Losses, Trace
from harness.view.allocators import AllocatorTotals, allocator_totals
from harness.view.crash import cause, describe, reset_reasons

if TYPE_CHECKING:
    from rich.console import Console

LAST_EVENTS: Final = 10
"""Events before the crash that are shown."""


class EventDocument(msgspec.Struct, frozen=True):
    """A profile event; ``end`` is null while it is open. Ticks are raw."""

    name: str | None
    delegate: int
    chain: int
    instruction: int
    start: int
    end: int | None


class PostmortemDocument(msgspec.Struct, frozen=True):
    """What ``etharness postmortem --json`` prints, and ``postmortem.json`` in a run directory.

    ``stack_used`` and ``stack_size`` are bytes, 0 when unknown. Registers are those of the core, by
    name; ``places`` names functions and lines of some. ``losses`` is null when the log cannot be
    read; ``damage`` says what could not be believed.
    """

    message: str
    cause: str
    running: bool
    run_id: int
    execution: int
    executions: int
    build_id: str
    registers: dict[str, int]
    places: dict[str, str]
    open: tuple[EventDocument, ...]
    last_events: tuple[EventDocument, ...]
    allocators: list[AllocatorTotals]
    losses: Losses | None
    stack_used: int
    stack_size: int
    reset_reasons: tuple[str, ...]
    resets: int
    later_faults: int
    damage: tuple[str, ...]


def postmortem_document(found: Postmortem, places: Mapping[str, str]) -> PostmortemDocument:
    """Return what is to be said of a postmortem; ``places`` as from ``view.crash.places``."""
    trace = found.trace
    return PostmortemDocument(
        message=printable(describe(found)),
        cause=cause(found),
        running=found.running,
        run_id=found.run_id,
        execution=found.completed + 1 if found.running else found.completed,
        executions=found.count,
        build_id=printable(found.build_id),
        registers=found.registers,
        places=dict(places),
        open=tuple(
            EventDocument(
                scope.name and printable(scope.name),
                scope.delegate,
                scope.chain,
                scope.instruction,
                scope.start,
                None,
            )
            for scope in found.scopes
        ),
        last_events=() if trace is None else _last_events(trace),
        allocators=[] if trace is None else allocator_totals(trace),
        losses=None if trace is None else trace.losses,
        stack_used=found.stack_used,
        stack_size=found.stack_size,
        reset_reasons=reset_reasons(found),
        resets=found.resets,
        later_faults=found.later_faults,
        damage=found.damage,
    )


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
        print_allocators(console, found.trace)
        print_losses(console, found.trace)


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


def _last_events(trace: Trace) -> tuple[EventDocument, ...]:
    rows = np.flatnonzero(trace.kind == Kind.PROFILE)[-LAST_EVENTS:].tolist()
    events = []
    for row in rows:
        name = trace.text(int(trace.name[row]))
        if name is None:
            name = trace.text(int(trace.delegate_str[row]))
        events.append(
            EventDocument(
                name and printable(name),
                int(trace.delegate_int[row]),
                int(trace.chain[row]),
                int(trace.instruction[row]),
                int(trace.start[row]),
                int(trace.end[row]),
            )
        )
    return tuple(events)


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
