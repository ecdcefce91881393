"""``etharness flash``: firmware onto a board, and proof that it runs there."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from harness.cli.board_options import chosen_options
from harness.cli.common import OutputOptions, output_options
from harness.cli.paths import FilePath
from harness.lab.flash_plan import FlashRequest, FlashSteps, HowToFlash, plan
from harness.lab.flashing import flash_board
from harness.lab.units import Chosen
from harness.records.flash_record import FlashRecord


@click.command(name="flash")
@chosen_options
@click.option(
    "--image",
    type=FilePath(),
    help="What to write: ELF, Intel HEX, UF2 or .bin.  [default: the board's firmware, built here]",
)
@click.option("--tool", help="Flashing tool.  [default: the board file's first that is here]")
@click.option(
    "--probe",
    default="",
    metavar="VID:PID:Serial",
    help="Debug probe to use, hexadecimal; VID:PID if there is only one such.",
)
@click.option(
    "-o",
    "--output",
    "directory",
    default=Path("out/flash"),
    show_default=True,
    type=FilePath(),
    help="Directory for the tool's log and flash.json.",
)
@click.option(
    "--attempts",
    default=3,
    show_default=True,
    type=click.IntRange(1, 100),
    help="How often to try when infrastructure fails.",
)
@click.option(
    "--if-needed", is_flag=True, help="Ask the board first, and leave it when it runs that build."
)
@click.option(
    "--no-identity", is_flag=True, help="Do not ask the board afterwards which build it runs."
)
@click.option("--dry-run", is_flag=True, help="Print the commands, and run none of them.")
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
    """Bring firmware onto a board, and see that the board runs it."""
    if if_needed and no_identity:
        raise click.UsageError("--if-needed asks the board what --no-identity is not to ask")
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
        from harness.records.result import encode

        click.echo(encode(planned.document()), nl=False)
        return
    for step in planned.steps():
        for path, content in step.files.items():
            click.echo(f"# {path}, {len(content)} bytes, is made first{_lines(content)}")
        click.echo(shlex.join(step.argv))


def _lines(content: bytes) -> str:
    """A short script, as comments."""
    text = content[:2000].decode("utf-8", errors="replace")
    if len(content) > len(text) or not text.replace("\n", "").isprintable() or text[:1] == ":":
        return ""
    return ":" + "".join(f"\n#   {line}" for line in text.splitlines())


def _show(output: OutputOptions, record: FlashRecord) -> None:
    if output.json:
        from harness.records.result import encode

        click.echo(encode(record), nl=False)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for line in _told(record) if output.verbosity >= 0 else ():
        show_line(console, line)


def _told(record: FlashRecord) -> list[str]:
    image = f"{record.image} ({record.image_bytes:,} bytes)"
    if record.skipped:
        return [f"{record.unit} runs build {record.build_id} already: nothing was written"]
    version = f" {record.version}" if record.version else ""
    lines = [f"flashed {record.unit} with {record.tool}{version}, {record.why}: {image}"]
    lines += [f"not with {tool}: {why}" for tool, why in record.others.items()]
    lines += [
        f"attempt {at}: {one.failure}" for at, one in enumerate(record.attempts, 1) if one.failure
    ]
    compared = "read back and the same" if record.verified else "not read back"
    if record.build_id_after is None:
        lines.append(f"memory: {compared}; the board was not asked what it runs")
    else:
        lines.append(f"memory: {compared}; the board runs build {record.build_id_after}")
    return lines
