"""``etharness replay``: a bundle judged again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import OutputOptions, output_options, report_option, write_reports
from harness.cli.paths import FilePath
from harness.errors import NotComparableError

if TYPE_CHECKING:
    from harness.runs.replay import Replayed


@click.command(name="replay")
@click.argument("bundle", type=FilePath())
@click.option(
    "--out",
    type=FilePath(file_okay=False),
    metavar="DIRECTORY",
    help="Unpack it here, too; a directory that is empty or not there yet.",
)
@report_option()
@output_options
def command(
    bundle: Path, out: Path | None, reports: tuple[Path, ...], output: OutputOptions
) -> int:
    """Judge again what is in a bundle, and compare with what was said then.

    Its digests are checked first. The exit code is that of the run, or of its check; 3 when this
    version judges otherwise.
    """
    import tempfile

    from harness.runs.replay import open_bundle, replay, unpack_into

    opened = open_bundle(bundle)
    with tempfile.TemporaryDirectory(prefix="etharness-replay-") as scratch:
        directory = out or Path(scratch)
        unpack_into(opened, directory)
        replayed = replay(opened, directory)
        # Not where it was unpacked, which nobody can look at afterwards.
        run = replace(replayed.run, title=str(bundle), budget=replayed.manifest.budget)
        write_reports(reports, [run])
    if output.json:
        click.echo(replayed.now, nl=False)
    else:
        _show(replayed, output)
    if not replayed.same:
        click.echo(replayed.difference(), err=output.json)
        raise NotComparableError(
            "the verdict is another one than was recorded",
            hint=f"pip install etdump-harness=={replayed.manifest.tool_version}, which made it",
        )
    return replayed.said.exit_code


def _show(replayed: Replayed, output: OutputOptions) -> None:
    from harness.report.description import describe_verdict
    from harness.report.run import print_verdict
    from harness.report.terminal import show_line

    console, run = output.console(), replayed.run
    if replayed.said.postmortem is not None:
        show_line(console, f"postmortem: {replayed.said.postmortem.message}")
    verdict = describe_verdict(run.verdict, run.failure)
    print_verdict(console, verdict, verbosity=output.verbosity)
    for what in replayed.manifest.missing:
        show_line(console, f"the bundle lacks {what}")
    if replayed.same and output.verbosity >= 0:
        show_line(
            console,
            f"the same, byte for byte, as etdump-harness {replayed.manifest.tool_version} said",
        )
