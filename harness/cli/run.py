"""``etharness run``: a model on a board, to a verdict."""

from __future__ import annotations

from pathlib import Path

import click

from harness.check.history.baseline import BaselineRef
from harness.cli.baseline_options import baseline_option, history_ref
from harness.cli.board_options import chosen_options
from harness.cli.common import (
    HistoryKeeper,
    OutputOptions,
    output_options,
    report_option,
    show_outcome,
    time_scale_option,
    write_reports,
)
from harness.cli.paths import FilePath, absolute_history
from harness.config.project import find_project
from harness.history.location import configured_history
from harness.lab.flash_plan import HowToFlash
from harness.lab.units import Chosen
from harness.link.options import PROFILES, VALUES, WHEN_FULL
from harness.runs.judged_run import JudgedRun
from harness.runs.request import RunRequest
from harness.runs.run import run_model


@click.command(name="run")
@chosen_options
@click.option(
    "--model",
    required=True,
    type=FilePath(),
    help="The .pte file, or the name of a model that comes with the package, such as kws_int8.",
)
@click.option("--method", default="forward", show_default=True, help="Method of the model to run.")
@click.option("--runs", default=1, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option(
    "-o",
    "--output",
    "directory",
    default=Path("out/run"),
    show_default=True,
    type=FilePath(),
    help="Run directory to make.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=FilePath(),
    help="A .npy file per model input, in order; without any, inputs are random.",
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=FilePath(),
    help="A .npy file per model output, in order: what it should be.",
)
@click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    help="How far off an output may be, as a share of its reference.  [default: by its type]",
)
@click.option(
    "--atol",
    type=click.FloatRange(min=0),
    help="Plus this much.  [default: by its type; integers are to be exact]",
)
@click.option("--seed", default=0, show_default=True, help="Seed of random inputs.")
@click.option("--flash", is_flag=True, help="Bring firmware onto the board first.")
@click.option(
    "--image",
    type=FilePath(),
    help="With --flash: what to bring there, instead of what is built here.",
)
@click.option("--tool", "flash_tool", help="With --flash: the tool to do it.")
@click.option(
    "--probe",
    default="",
    metavar="VID:PID:Serial",
    help="With --flash: the debug probe, if there are several.",
)
@click.option(
    "--budget",
    type=FilePath(),
    help="Budget file to check against.  [default: the project's, or the board's own]",
)
@click.option(
    "--trace-limit",
    default=0,
    type=click.IntRange(0, 2**32 - 1),
    help="Bytes of log the device may use; 0: all it has.",
)
@click.option(
    "--baud",
    type=click.IntRange(min=1),
    help="Rate to move the line to, instead of the best that the board file lists.",
)
@click.option("--stream", is_flag=True, help="Send the log while it runs: it may be any length.")
@click.option(
    "--values",
    default="none",
    show_default=True,
    type=click.Choice(list(VALUES)),
    help="Values to log: what the method returns, or what every instruction computes, too.",
)
@click.option(
    "--profile",
    default="all",
    show_default=True,
    type=click.Choice(list(PROFILES)),
    help="Events to log: scopes around the method, or all.",
)
@click.option(
    "--when-full",
    default="stop",
    show_default=True,
    type=click.Choice(list(WHEN_FULL)),
    help="When the log is full: log nothing more, or give up the oldest runs for the newest.",
)
@click.option(
    "--commit",
    help="The commit that is tested.  [default: $ETHARNESS_COMMIT, or the model's checkout]",
)
@click.option(
    "--session",
    help="Name of what results have in common that are made together.  [default: "
    "$ETHARNESS_SESSION, or this run alone]",
)
@click.option(
    "--history",
    callback=absolute_history,
    metavar="URL",
    envvar="ETHARNESS_HISTORY",
    help="Add the result to a history: SQLite file or postgresql:// URL.  "
    "[default: $ETHARNESS_HISTORY, the project's, or none]",
)
@baseline_option
@report_option()
@time_scale_option
@output_options
def command(
    chosen: Chosen,
    model: Path,
    method: str,
    runs: int,
    directory: Path,
    inputs: tuple[Path, ...],
    references: tuple[Path, ...],
    rtol: float | None,
    atol: float | None,
    seed: int,
    flash: bool,
    image: Path | None,
    flash_tool: str | None,
    probe: str,
    budget: Path | None,
    trace_limit: int,
    stream: bool,
    baud: int | None,
    values: str,
    profile: str,
    when_full: str,
    commit: str | None,
    session: str | None,
    history: str | None,
    baseline: BaselineRef | None,
    reports: tuple[Path, ...],
    time_scales: dict[str, str],
    output: OutputOptions,
) -> int:
    """Run a model on a board, pull its trace and check it."""
    if (image or flash_tool or probe) and not flash:
        raise click.UsageError("--image, --tool and --probe say how to flash, without --flash")
    project = find_project()
    history = history or configured_history()
    request = RunRequest(
        board=chosen.board,
        model=project.find_model(model),
        runs=runs,
        output=directory,
        inputs=inputs,
        references=references,
        rtol=rtol,
        atol=atol,
        seed=seed,
        port=chosen.port,
        budget=budget or project.budget,
        trace_limit=trace_limit,
        method=method,
        stream=stream,
        baud=baud,
        values=VALUES[values],
        profile=PROFILES[profile],
        when_full=WHEN_FULL[when_full],
        time_scales=time_scales,
        unit=chosen.unit,
        leased=chosen.leased,
        commit=commit,
        session=session,
        flash=HowToFlash(image, flash_tool, probe or chosen.probe) if flash else None,
        against=history_ref(history, baseline) if baseline is not None else None,
    )
    keeping = HistoryKeeper(history)

    def ended(run: JudgedRun) -> None:
        keeping.add(run)
        write_reports(reports, [run])

    with output.stages() as stages:
        outcome = run_model(request, stages, ended)
    show_outcome(output, outcome, directory)
    return outcome.result.exit_code or keeping.exit_code
