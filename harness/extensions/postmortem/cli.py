"""``etharness postmortem``: what a board was doing when it crashed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.command import (
    RESULTS,
    FilePath,
    OutputOptions,
    PanelCommand,
    baud_option,
    option,
    optional_target_options,
    output_options,
    panel,
)
from harness.errors import UsageError
from harness.printing import counted, print_text

if TYPE_CHECKING:
    from rich.console import Console

    from harness.extensions.postmortem.crash import ExaminedPostmortem, Lookup
    from harness.extensions.postmortem.record import Postmortem
    from harness.runs.directory import EventDocument, PostmortemDocument
    from harness.target.selection import Chosen


@click.command(name="postmortem", cls=PanelCommand)
@click.argument("path", required=False, type=FilePath())
@optional_target_options
@baud_option
@panel(
    "Crash record",
    option(
        "--image",
        metavar="FILE",
        type=FilePath(),
        help="ELF file with the symbols of the firmware.  [default: the board's firmware]",
    ),
    option(
        "--clear",
        is_flag=True,
        help="Erase the crash record on the board; the next run erases it too.",
    ),
)
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "saved",
        metavar="FILE",
        type=FilePath(),
        help="Also save the crash record to this file.",
    ),
)
@output_options
def command(
    path: Path | None,
    chosen: Chosen | None,
    baud: int | None,
    image: Path | None,
    saved: Path | None,
    clear: bool,
    output: OutputOptions,
) -> None:
    """Show what a board was doing when it crashed.

    The crash record is read from the board, or from PATH: a run directory, a file that -o saved,
    or a dump of the device's memory.
    """
    finding = _find_postmortem(path, chosen, baud, image, clear=clear)
    if finding is None:
        print_text("null" if output.json else f"{_name_of_source(chosen)} has no crash record")
        return
    if saved is not None:
        saved.write_bytes(finding.image)
    if output.json:
        output.print_json(finding.document)
        return
    if output.verbosity < 0:
        output.print_line(finding.document.message)
        return
    _print_postmortem(output.console(), finding.found, finding.document)


command.section = "Run"


def _find_postmortem(
    path: Path | None,
    chosen: Chosen | None,
    baud: int | None,
    image: Path | None,
    *,
    clear: bool,
) -> ExaminedPostmortem | None:
    from harness.config.board import load_board
    from harness.extensions.postmortem.crash import (
        postmortem_of_board,
        postmortem_of_path,
        symbols_of_board,
        symbols_of_image,
    )

    board = load_board(chosen.board)[0] if chosen else None
    on_port = chosen is not None and chosen.is_on_port
    lookup: Lookup | None = None
    if image is not None:
        lookup = symbols_of_image(image)
    elif board is not None:
        lookup = symbols_of_board(board)
    if path is not None and not on_port:
        return postmortem_of_path(path, lookup)
    if path is None and chosen is not None and on_port and board is not None and lookup:
        return postmortem_of_board(board, chosen, baud, lookup, clear=clear)
    raise UsageError(
        "no crash record is selected, or more than one",
        hint="name a PATH, or a running board by --unit or by --board and --port",
    )


def _name_of_source(chosen: Chosen | None) -> str:
    if chosen is not None and chosen.unit:
        return chosen.unit
    if chosen is None or chosen.port is None:
        return "the file"
    return f"{chosen.board} on {chosen.port_name}"


def _print_postmortem(console: Console, found: Postmortem, document: PostmortemDocument) -> None:
    """Print a postmortem: what happened, registers, open and last events, allocators, losses."""
    from harness.analyze.memory import allocator_totals
    from harness.report.description import describe_allocators, trace_losses
    from harness.report.run import print_allocators, print_losses
    from harness.report.terminal import print_header, show_table

    print_header(console, _crash_header(document))
    if document.registers:
        rows = [
            [name, f"0x{value:08x}", document.places.get(name, "")]
            for name, value in document.registers.items()
        ]
        show_table(console, ["register", "value", "place"], rows, title="Registers")
    _print_crash_events(console, document.open, "Open, outermost first")
    _print_crash_events(console, document.last_events, "Last events")
    if found.trace is not None:
        print_allocators(console, describe_allocators(allocator_totals(found.trace)))
        print_losses(console, trace_losses(found.trace))


def _crash_header(document: PostmortemDocument) -> dict[str, object]:
    from harness.formatting import stack_use

    header: dict[str, object] = {"crash": document.message, "firmware": document.build_id}
    if document.running:
        header["run"] = (
            f"{document.run_id}, execution {document.execution} of {document.executions}"
        )
    if document.stack_size:
        header["stack"] = stack_use(document.stack_used, document.stack_size)
    if document.resets > 1 or document.later_faults:
        header["since"] = (
            f"{counted(document.resets, 'reset')}, {counted(document.later_faults, 'other fault')}"
        )
    for number, damage in enumerate(document.damage):
        header["damage" if not number else " " * number] = damage
    return header


def _print_crash_events(console: Console, events: tuple[EventDocument, ...], title: str) -> None:
    from harness.report.terminal import show_table

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
