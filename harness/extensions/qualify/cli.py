"""``etharness qualify``: prove a board stage by stage, or say what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.command import (
    FIRMWARE,
    RESULTS,
    OutputOptions,
    PanelCommand,
    flash_options,
    option,
    output_directory,
    output_options,
    panel,
    target_options,
)

if TYPE_CHECKING:
    from harness.target.selection import Chosen


class QualifyCommand(PanelCommand):
    """Its help states what its exit codes mean.

    Attributes:
        exit_codes: Exit codes in a sentence.
    """

    exit_codes = (
        "Exit codes: 0 qualified; 1 not qualified; 2 usage or configuration; 75 infrastructure or "
        "out of time, go on with --resume; 130 interrupted, likewise."
    )


@click.command(name="qualify", cls=QualifyCommand)
@target_options
@panel(FIRMWARE, *flash_options)
@panel(
    "Stages",
    option(
        "--only",
        multiple=True,
        metavar="STAGE",
        help="Carry out only this stage. Repeatable. Stages left out are not qualified.",
    ),
    option(
        "--skip",
        multiple=True,
        metavar="STAGE",
        help="Leave out this stage, such as flash. Repeatable.",
    ),
    option(
        "--resume",
        is_flag=True,
        help="Go on with the qualification in DIR; stages that passed are not repeated.",
    ),
    option(
        "--quick",
        is_flag=True,
        help="Prove less in less time: one small network, those that take seconds, no wrap.",
    ),
    option(
        "--limit",
        default=10.0,
        show_default=True,
        metavar="MINUTES",
        type=click.FloatRange(min=0, min_open=True),
        help="Longest time; later stages are left to --resume.",
    ),
)
@panel(
    RESULTS,
    output_directory("out/qualify", "Directory for qualification.json, .md and evidence."),
    option(
        "--note",
        default="",
        metavar="WORDS",
        help="What is written on the board, such as its revision, for the `tested` line.",
    ),
)
@output_options
def command(
    chosen: Chosen,
    image: Path | None,
    tool: str | None,
    probe: str,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    resume: bool,
    quick: bool,
    limit: float,
    directory: Path,
    note: str,
    output: OutputOptions,
) -> int:
    """Prove a board stage by stage, or say what is wrong with it.

    Flashes the board, and replaces its model and trace. The stages: flash, link, rate, cost,
    overflow, stream, reset, crash, counters, run, networks, wrap (docs/qualify.md).
    """
    from harness.extensions.qualify.qualification import qualify
    from harness.extensions.qualify.record import markdown_qualification
    from harness.files import write_atomic
    from harness.flash.plan import HowToFlash

    with output.stages() as stages:
        record = qualify(
            chosen,
            directory,
            stages,
            how=HowToFlash(image, tool, probe or chosen.probe),
            only=only,
            skip=skip,
            resume=resume,
            quick=quick,
            limit_s=limit * 60,
            note=note,
        )
    write_atomic(directory / "qualification.md", markdown_qualification(record))
    if output.json:
        output.print_json(record)
    else:
        from harness.extensions.qualify.record import show_qualification

        show_qualification(output.console(), record, verbosity=output.verbosity)
    return record.exit_code


command.section = "Setup"
