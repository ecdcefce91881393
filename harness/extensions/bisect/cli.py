"""``etharness bisect``: find the commit that changed a number."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.command import (
    OUTPUT,
    SELECTION,
    FilePath,
    OutputOptions,
    PanelCommand,
    duration,
    option,
    output_options,
    panel,
    percentage,
)
from harness.errors import UsageError
from harness.printing import counted, print_text

if TYPE_CHECKING:
    from harness.extensions.bisect.bisection import Bisection


@click.command(name="bisect", cls=PanelCommand)
@click.argument("words", nargs=-1, metavar="-- COMMAND...", type=click.UNPROCESSED)
@panel(
    SELECTION,
    option("--good", metavar="COMMIT", help="A commit from before the change."),
    option("--bad", metavar="COMMIT", help="A commit with the change."),
    option(
        "--metric",
        default="execution",
        show_default=True,
        metavar="METRIC",
        help="What changed: execution (median time), operator:PATTERN, memory, allocator:NAME, "
        "size:NAME, or verdict (good passes, bad fails).",
    ),
    option(
        "--change",
        metavar="PERCENT",
        callback=percentage,
        help="Call a commit bad from this change relative to good.  [default: half of the "
        "difference between good and bad]",
    ),
)
@panel(
    "Runs",
    option(
        "--max-runs",
        default=50,
        show_default=True,
        metavar="N",
        type=click.IntRange(3),
        help="Run a commit at most N times, then call it uncertain.",
    ),
    option(
        "--retries",
        default=2,
        show_default=True,
        metavar="N",
        type=click.IntRange(0),
        help="Retry a run N times after a failure of the infrastructure, then skip the commit.",
    ),
    option(
        "--timeout",
        default="30m",
        show_default=True,
        metavar="TIME",
        callback=duration,
        help="End a run after this time; it counts as a failure of the infrastructure.",
    ),
    option(
        "--deadline",
        metavar="TIME",
        callback=duration,
        help="Start no run after this time; --resume continues.",
    ),
)
@panel(
    "State",
    option("--resume", is_flag=True, help="Continue an unfinished bisection."),
    option("--status", is_flag=True, help="Print what is known so far, and run nothing."),
    option("--reset", is_flag=True, help="Remove the bisection with its working trees and runs."),
)
@panel(
    OUTPUT,
    option(
        "-o",
        "--output",
        "directory",
        metavar="DIR",
        type=FilePath(),
        help="Folder for the state, the working trees and the run directories.  [default: "
        "etharness-bisect in the git directory]",
    ),
)
@output_options
def command(
    words: tuple[str, ...],
    good: str | None,
    bad: str | None,
    metric: str,
    change: float | None,
    max_runs: int,
    retries: int,
    timeout: int,
    deadline: int | None,
    resume: bool,
    status: bool,
    reset: bool,
    directory: Path | None,
    output: OutputOptions,
) -> int:
    """Find the commit that changed a measured number, or broke a run.

    COMMAND builds and runs a commit, in a checkout of it. It leaves a run directory in {output},
    which is replaced in COMMAND, or in $ETHARNESS_OUTPUT. Exit code 125 skips a commit. A commit
    is run again until the noise allows to tell good from bad.

    The exit code is 0 if one commit was found, 3 if several remain or good and bad do not differ.
    """
    from harness.extensions.bisect.answer import describe_bisection, print_bisection
    from harness.extensions.bisect.bisection import (
        FOLDER,
        Bisection,
        explain_bisection,
        remove_bisection,
        saved_bisection,
    )
    from harness.extensions.bisect.state import Repository

    chosen = sum((resume, status, reset))
    if chosen > 1 or (chosen and (words or good or bad)):
        raise UsageError(
            "--resume, --status and --reset take no other action, commits or command",
            hint="give one of them alone; a bisection remembers its commits and its command",
        )
    repository = Repository(Path.cwd())
    folder = directory or repository.git / FOLDER
    if reset:
        removed = remove_bisection(repository, folder)
        if output.verbosity >= 0 and not output.json:
            print_text("removed the bisection" if removed else "there is no bisection")
        return 0
    if status:
        state = saved_bisection(folder)
    else:
        if resume:
            bisection = Bisection.resume(repository, folder)
        else:
            if good is None or bad is None or not words:
                raise UsageError(
                    "--good, --bad and a command are needed",
                    hint="etharness bisect --good v1.2 --bad HEAD -- etharness run "
                    "--board native --model model.pte -o {output}",
                )
            bisection = Bisection.begin(
                *(repository, folder, good, bad, words, Path.cwd()),
                metric=metric,
                change=change,
                max_runs=max_runs,
                retries=retries,
                timeout_s=float(timeout),
            )
        with closing(bisection):
            _search(bisection, deadline, output)
        state = bisection.state
    document = explain_bisection(describe_bisection(state), state, folder)
    if output.json:
        output.print_json(document)
    else:
        print_bisection(output.console(), document, detailed=output.verbosity > 0)
    return 0 if status or document.answer == "found" else 3


command.section = "Boards over time"


def _search(bisection: Bisection, deadline: int | None, output: OutputOptions) -> None:
    """Run commits until the answer is known, and print each run."""
    from harness.extensions.bisect.answer import show_run, show_start, starting
    from harness.extensions.bisect.search import BisectSearch, NextRun
    from harness.extensions.bisect.state import CommitRun

    printed = not output.json and output.verbosity >= 0
    console = output.console()
    if printed:
        show_start(console, BisectSearch(bisection.state))
    with output.stages() as stages:

        def on_start(step: NextRun) -> None:
            stages(starting(bisection.state, step), 0, 0)

        def on_run(search: BisectSearch, step: NextRun, run: CommitRun) -> None:
            if printed:
                show_run(console, search, step, run)

        try:
            bisection.run(deadline, on_start, on_run)
        except KeyboardInterrupt as interrupt:
            done = len(bisection.state.runs)
            raise type(interrupt)(
                f"{counted(done, 'run', 'is')} kept; `etharness bisect --resume` continues"
            ) from interrupt
