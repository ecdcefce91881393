"""``etharness flash``: flash firmware onto a board and verify that it runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.firmware_options import flash_options
from harness.cli.options import (
    FIRMWARE,
    RESULTS,
    PanelCommand,
    option,
    output_directory,
    output_options,
    panel,
    target_options,
)
from harness.cli.output import OutputOptions

if TYPE_CHECKING:
    from harness.lab.flash_plan import FlashSteps
    from harness.lab.units import Chosen
    from harness.records.lab import FlashRecord


@click.command(name="flash", cls=PanelCommand)
@target_options
@panel(
    FIRMWARE,
    *flash_options,
    option(
        "--attempts",
        default=3,
        show_default=True,
        metavar="N",
        type=click.IntRange(1, 100),
        help="Maximum number of attempts when infrastructure fails.",
    ),
    option(
        "--if-needed",
        is_flag=True,
        help="Ask the board for its build id first; skip flashing if it matches.",
    ),
    option("--no-identity", is_flag=True, help="Do not ask the board for its build id afterwards."),
    option("--dry-run", is_flag=True, help="Print the commands without running them."),
)
@panel(
    RESULTS,
    output_directory("out/flash", "Directory for the tool's log and flash.json."),
)
@output_options
def command(
    chosen: Chosen,
    image: Path | None,
    tool: str | None,
    probe: str,
    directory: Path,
    attempts: int,
    if_needed: bool,
    no_identity: bool,
    dry_run: bool,
    output: OutputOptions,
) -> None:
    """Flash firmware onto a board and verify that the board runs it."""
    from harness.lab.flash_plan import FlashRequest, HowToFlash, plan
    from harness.lab.flashing import flash_board

    if if_needed and no_identity:
        raise click.UsageError("--if-needed needs the build id, so it excludes --no-identity")
    request = FlashRequest(
        board=chosen.board,
        output=directory,
        how=HowToFlash(image, tool, probe or chosen.probe, attempts),
        port=chosen.port,
        unit=chosen.unit or "",
        identity=not no_identity,
        if_needed=if_needed,
        leased=chosen.leased,
    )
    with output.stages() as stages:
        if dry_run:
            _show_plan(output, plan(request, dry=True, stages=stages))
            return
        record = flash_board(request, stages)
    _show(output, record)


def _show_plan(output: OutputOptions, planned: FlashSteps) -> None:
    if output.json:
        output.print_json(planned.document())
        return
    for step in planned.steps():
        for path, content in step.files.items():
            click.echo(f"# first writes {path}, {len(content)} bytes{_lines(content)}")
        click.echo(shlex.join(step.argv))


def _lines(content: bytes) -> str:
    """Return a short script as comments; nothing for other content."""
    text = content[:2000].decode("utf-8", errors="replace")
    if len(content) > len(text) or not text.replace("\n", "").isprintable() or text[:1] == ":":
        return ""
    return ":" + "".join(f"\n#   {line}" for line in text.splitlines())


def _show(output: OutputOptions, record: FlashRecord) -> None:
    if output.json:
        output.print_json(record)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for line in _summary(record) if output.verbosity >= 0 else ():
        show_line(console, line)


def _summary(record: FlashRecord) -> list[str]:
    image = f"{record.image} ({record.image_bytes:,} bytes)"
    if record.skipped:
        return [f"{record.unit} already runs build {record.build_id}; not flashed"]
    version = f" {record.version}" if record.version else ""
    lines = [f"flashed {record.unit} with {record.tool}{version}, {record.why}: {image}"]
    lines += [f"skipped {tool}: {why}" for tool, why in record.others.items()]
    lines += [
        f"attempt {at}: {one.failure}" for at, one in enumerate(record.attempts, 1) if one.failure
    ]
    verified = "verified by reading back" if record.verified else "not read back"
    if record.build_id_after is None:
        lines.append(f"memory: {verified}; the board was not asked for its build id")
    else:
        lines.append(f"memory: {verified}; the board runs build {record.build_id_after}")
    return lines
