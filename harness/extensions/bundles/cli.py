"""``etharness replay``: evaluate an archived run again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.command import (
    RESULTS,
    FilePath,
    OutputOptions,
    PanelCommand,
    option,
    output_options,
    panel,
    report_option,
    write_reports,
)
from harness.errors import NotComparableError
from harness.printing import print_document, print_text

if TYPE_CHECKING:
    from harness.extensions.bundles.bundle import Replayed


@click.command(name="replay", cls=PanelCommand)
@click.argument("bundle", type=FilePath())
@panel(
    RESULTS,
    option(
        "--out",
        type=FilePath(file_okay=False),
        metavar="DIR",
        help="Also unpack the archive into this directory, which must be empty or new.",
    ),
    report_option(),
)
@output_options
def command(
    bundle: Path, out: Path | None, reports: tuple[Path, ...], output: OutputOptions
) -> int:
    """Evaluate an archived run again and compare the verdicts.

    BUNDLE is an archive that --report FILE.zip wrote; its digests are checked first. The exit
    code is that of the recorded run or check, or 3 if the verdicts differ.
    """
    import tempfile

    from harness.extensions.bundles.bundle import replay_bundle

    with tempfile.TemporaryDirectory(prefix="etharness-replay-") as scratch:
        replayed = replay_bundle(bundle, out or Path(scratch))
        # The scratch directory is gone when somebody reads the title.
        run = replace(replayed.run, title=str(bundle), budget=replayed.manifest.budget)
        write_reports(reports, [run])
    if output.json:
        print_document(replayed.now)
    else:
        _show(replayed, output)
    if not replayed.same:
        print_text(replayed.difference(), error=output.json)
        raise NotComparableError(
            "the verdict differs from the recorded one",
            hint=f"pip install etdump-harness=={replayed.manifest.tool_version}, which recorded it",
        )
    return replayed.verdict.exit_code


def _show(replayed: Replayed, output: OutputOptions) -> None:
    from harness.report.description import describe_verdict
    from harness.report.run import print_verdict
    from harness.report.terminal import show_line

    console, run = output.console(), replayed.run
    if replayed.verdict.postmortem is not None:
        show_line(console, f"postmortem: {replayed.verdict.postmortem.message}")
    for name in replayed.manifest.missing:
        show_line(console, f"missing from the archive: {name}")
    if replayed.same and output.verbosity >= 0:
        show_line(
            console,
            f"identical to the verdict of etdump-harness {replayed.manifest.tool_version}",
        )
    verdict = describe_verdict(run.verdict, run.failure)
    print_verdict(console, verdict, verbosity=output.verbosity)


command.section = "Check"
