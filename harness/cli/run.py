"""``etharness run``: run a model on a board, to a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.completers import complete_models
from harness.cli.firmware_options import flash_options, probe_options
from harness.cli.options import (
    ENERGY,
    FIRMWARE,
    RESULTS,
    TRACING,
    VERDICT,
    WORKLOAD,
    FilePath,
    PanelCommand,
    absolute_history,
    baseline_option,
    baud_option,
    option,
    output_directory,
    output_options,
    panel,
    report_option,
    target_options,
)
from harness.cli.output import HistoryKeeper, OutputOptions, show_outcome, write_reports
from harness.cli.reading_options import time_scale_option
from harness.link.values import PROFILES, VALUES, WHEN_FULL

if TYPE_CHECKING:
    from harness.check.history.baseline import BaselineRef
    from harness.lab.units import Chosen
    from harness.records.result import Result
    from harness.runs.evaluation import EvaluatedRun

_EXAMPLES = """\b
Examples:
  etharness run --board native --model kws_int8 --runs 20
  etharness run --unit h743-a --model model.pte --flash --report run.html
  etharness run --board nucleo-f446re --port /dev/ttyACM0 --model model.pte \\
    --budget budget.toml --history results.db --baseline last:20
"""


_NO_METER = "none"
"""Turns off the meter of a unit."""


@click.command(name="run", cls=PanelCommand, epilog=_EXAMPLES)
@panel(
    WORKLOAD,
    option(
        "--model",
        required=True,
        metavar="FILE",
        type=FilePath(),
        shell_complete=complete_models,
        help="Model file (.pte, or .bpte with test sets), or the name of a model of this package, "
        "such as kws_int8.",
    ),
    option(
        "--method",
        metavar="NAME",
        help="Method of the model to execute.  [default: forward; of a bundled program every "
        "method with test sets]",
    ),
    option(
        "--placed",
        is_flag=True,
        help="Build the firmware with the model in flash instead of uploading it; a board on a "
        "port also needs --flash.",
    ),
    option(
        "--runs",
        default=1,
        show_default=True,
        metavar="N",
        type=click.IntRange(1, 1_000_000),
        help="Number of executions; of a bundled program, of each test set.",
    ),
    option(
        "--input",
        "inputs",
        multiple=True,
        metavar="FILE",
        type=FilePath(),
        help="Input as a .npy file; repeat it for each input, in order.  [default: random values, "
        "or those of the test sets of a .bpte]",
    ),
    option("--seed", default=0, show_default=True, metavar="N", help="Seed of the random inputs."),
)
@target_options
@baud_option
@panel(
    FIRMWARE,
    option("--flash", is_flag=True, help="Flash the board before the run."),
    *flash_options,
)
@probe_options
@panel(
    TRACING,
    option(
        "--profile",
        default="all",
        show_default=True,
        type=click.Choice(list(PROFILES)),
        help="Events to log: the scopes around the method, or all.",
    ),
    option(
        "--values",
        default="none",
        show_default=True,
        metavar="VALUES",
        type=click.Choice(list(VALUES)),
        help="Values to log: none, outputs (of the method), or intermediate (of every instruction "
        "too).",
    ),
    option(
        "--stream",
        is_flag=True,
        help="Send the log while the model runs; its length is then unlimited.",
    ),
    option(
        "--when-full",
        default="stop",
        show_default=True,
        metavar="ACTION",
        type=click.Choice(list(WHEN_FULL)),
        help="Action when the log is full: stop (logging), or drop-oldest (executions).",
    ),
    option(
        "--counters",
        default="",
        metavar="NAMES",
        help="Hardware counters to read at each event, such as cycles,instret; an unknown name "
        "lists those of the board.  [default: none]",
    ),
    option(
        "--counter-passes",
        is_flag=True,
        help="Measure more counters than the board counts at once, in several runs, and join them.",
    ),
    option(
        "--trace-limit",
        default=0,
        metavar="BYTES",
        type=click.IntRange(0, 2**32 - 1),
        help="Maximum size of the log on the device.  [default: 0, all its log memory]",
    ),
    time_scale_option,
)
@panel(
    ENERGY,
    option(
        "--energy",
        metavar="METER",
        help="Measure the energy of each operator with a meter: ppk2[:PORT], joulescope[:SERIAL], "
        "csv:FILE of another program, or none (`etharness explain energy`).  [default: the unit's]",
    ),
    option(
        "--volts",
        type=click.FloatRange(0, min_open=True),
        metavar="V",
        help="Voltage of the supply, for a meter that does not measure it.",
    ),
    option(
        "--marker-pin",
        "pin",
        metavar="N",
        type=click.IntRange(0, 7),
        help="Digital input of the meter that is wired to the board's marker pin.  [default: 0]",
    ),
    option("--supply", is_flag=True, help="Let a PPK2 supply the board with --volts."),
)
@panel(
    VERDICT,
    option(
        "--budget",
        metavar="FILE",
        type=FilePath(),
        help="Budget file to check.  [default: the project's, or the board file's]",
    ),
    option(
        "--reference",
        "references",
        multiple=True,
        metavar="FILE",
        type=FilePath(),
        help="Expected output as a .npy file; repeat it for each output, in order.",
    ),
    option(
        "--rtol",
        metavar="SHARE",
        type=click.FloatRange(min=0),
        help="Relative tolerance of outputs.  [default: by data type]",
    ),
    option(
        "--atol",
        metavar="VALUE",
        type=click.FloatRange(min=0),
        help="Absolute tolerance of outputs, added to --rtol.  [default: by data type; "
        "integers must match exactly]",
    ),
    baseline_option,
)
@panel(
    RESULTS,
    output_directory("out/run", "Run directory to create."),
    report_option(),
    option(
        "--history",
        callback=absolute_history,
        metavar="URL",
        envvar="ETHARNESS_HISTORY",
        help="Add the result to this history: an SQLite file or postgresql:// URL.  "
        "[default: $ETHARNESS_HISTORY, or none]",
    ),
    option(
        "--session",
        metavar="NAME",
        help="Label for results recorded together.  [default: $ETHARNESS_SESSION, or this run "
        "alone]",
    ),
    option(
        "--commit",
        metavar="HASH",
        help="Commit under test.  [default: $ETHARNESS_COMMIT, or the model's checkout]",
    ),
)
@output_options
def command(
    chosen: Chosen,
    model: Path,
    directory: Path,
    flash: bool,
    image: Path | None,
    tool: str | None,
    probe: str,
    elf: Path | None,
    symbol: str | None,
    until: str | None,
    reset: str | None,
    budget: Path | None,
    history: str | None,
    baseline: BaselineRef | None,
    energy: str | None,
    volts: float | None,
    pin: int | None,
    supply: bool,
    reports: tuple[Path, ...],
    output: OutputOptions,
    **options: Any,
) -> int:
    """Run a model on a board, read its trace and check it.

    Through a debug probe (gdb://HOST:PORT or pyocd://) the model is the one in the firmware, and
    the board runs until it has entered the named function N times (`etharness explain probes`).
    """
    from harness.config.meter import MeterRequest
    from harness.config.project import find_project
    from harness.history import configured_history
    from harness.lab.flash_plan import HowToFlash
    from harness.runs.baseline import history_of
    from harness.runs.probe import probe_request
    from harness.runs.probe_run import execute_request
    from harness.runs.request import RunRequest, meter_of, request_fields

    if (image or tool or probe) and not flash:
        raise click.UsageError("--image, --tool and --probe require --flash")
    if energy in (None, _NO_METER) and (volts is not None or pin is not None or supply):
        raise click.UsageError("--volts, --marker-pin and --supply require --energy")
    project = find_project()
    history = history or configured_history()
    wanted = probe_request(chosen.port, elf, symbol, until, reset, options["baud"])
    if energy is None:
        meter = meter_of(chosen.leased, through_probe=wanted is not None)
    elif energy == _NO_METER:
        meter = None
    else:
        meter = MeterRequest.parse(energy, volts, pin or 0, supply=supply)
    request = RunRequest(
        board=chosen.board,
        port=chosen.port,
        unit=chosen.unit,
        leased=chosen.leased,
        model=project.find_model(model),
        output=directory,
        budget=budget or project.budget,
        flash=HowToFlash(image, tool, probe or chosen.probe) if flash else None,
        energy=meter,
        against=history_of(history, baseline) if baseline is not None else None,
        **request_fields(options),
    )
    _refuse_archive(request.model, reports)
    keeping = HistoryKeeper(history)

    def ended(run: EvaluatedRun) -> None:
        keeping.add(run)
        write_reports(reports, [run])

    with output.stages() as stages:
        outcome = execute_request(request, wanted, stages, ended)
    show_outcome(output, outcome, directory)
    _show_passes(output, outcome.result)
    return outcome.result.exit_code or keeping.exit_code


def _show_passes(output: OutputOptions, result: Result) -> None:
    """Print how comparable the passes of a run are."""
    passes = result.trace.passes if result.trace else None
    if passes is None or output.json or output.verbosity < 0:
        return
    where = f" ({passes.event_name})" if passes.event_name else ""
    missing = passes.unmatched_events
    output.print_line(
        f"counters in {len(passes.counters)} passes: {passes.common} differ by at most "
        f"{passes.execution_difference:.2%} in an execution, "
        f"{passes.event_difference:.2%} in an event{where}"
        + (f"; {missing:,} events are not in all passes" if missing else "")
    )


def _refuse_archive(model: Path, reports: tuple[Path, ...]) -> None:
    """Raise an error, before anything is run, for an archive of several test sets."""
    from harness.decode.bundled_program import is_bundled_program
    from harness.errors import UsageError
    from harness.files import read_model

    archives = [file for file in reports if file.suffix.lower() == ".zip"]
    if archives and is_bundled_program(read_model(model)):
        raise UsageError(
            f"{archives[0]}: an archive is of one run, a bundled program has one per test set",
            hint="`etharness report RUN/test_sets/NAME -o x.zip` writes one after the run",
        )
