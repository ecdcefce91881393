"""``etharness run``, ``flash`` and ``pull``: what talks to boards."""

from __future__ import annotations

import math
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from harness.cli import command
from harness.errors import UsageError
from harness.printing import counted, print_text

if TYPE_CHECKING:
    from harness.decode.pte import ModelFile
    from harness.flash.plan import FlashSteps
    from harness.records.flashing import FlashRecord
    from harness.records.trace import CounterPassesRecord
    from harness.runs.source import EvaluatedRun
    from harness.target.selection import Chosen


_EXAMPLES = """\b
Examples:
  etharness run model.pte --board native --runs 20
  etharness run --unit h743-a --model model.pte --flash --report run.html
  etharness run --board nucleo-f446re --port /dev/ttyACM0 --model model.pte \\
    --budget budget.toml --history results.db --baseline last:20
"""


@click.command(name="run", cls=command.PanelCommand, epilog=_EXAMPLES)
@click.argument(
    "file",
    metavar="[MODEL]",
    required=False,
    type=command.FilePath(),
    shell_complete=command.complete_models,
)
@command.panel(
    command.WORKLOAD,
    command.setting_option("model", shell_complete=command.complete_models),
    *map(command.setting_option, ("name", "method", "data", "placed", "runs", "inputs", "steps")),
    *map(command.setting_option, ("state", "seed", "dataset")),
)
@command.target_panel
@command.baud_option
@command.panel(command.FIRMWARE, command.setting_option("flash"), *command.flash_options)
@command.probe_options
@command.panel(
    command.TRACING,
    *map(command.setting_option, ("profile", "values", "stream", "live", "when_full")),
    *map(command.setting_option, ("counters", "counter_passes", "trace_limit")),
    command.time_scale_option,
)
@command.panel(
    command.ENERGY, *map(command.setting_option, ("energy", "volts", "marker_pin", "supply"))
)
@command.panel(
    command.VERDICT,
    *map(command.setting_option, ("budget", "references", "rtol", "atol")),
    command.baseline_option,
    *map(
        command.setting_option, ("repeat", "detect", "look_again", "repeat_time", "baseline_model")
    ),
)
@command.panel(
    command.RESULTS,
    command.setting_option("output", "directory"),
    command.report_option(),
    command.setting_option(
        "history", callback=command.absolute_history, envvar="ETHARNESS_HISTORY"
    ),
    command.setting_option("session"),
    command.setting_option("commit"),
)
@command.table_options("kind", "operator")
@command.output_options
def run_command(
    file: Path | None,
    model: Path | None,
    board: str | None,
    directory: Path,
    reports: tuple[Path, ...],
    top: int | None,
    by: str | None,
    output: command.OutputOptions,
    **options: Any,
) -> int:
    """Run a model on a board, read its trace and check it.

    MODEL is the same as --model. Through a debug probe (gdb://HOST:PORT or pyocd://) the model is
    the one in the firmware, and the board runs until it has entered the named function N times
    (`etharness explain probes`).
    """
    from harness.runs.request import request_of
    from harness.runs.run import run_model
    from harness.runs.run_keywords import RunKeywords

    if (program := file or model) is None or (file and model):
        raise UsageError(
            "no model is named" if program is None else "MODEL and --model both name a model",
            hint="name it once: `etharness run model.pte --board native`, or kws_int8, a model of "
            "this package",
        )
    said = {name: value for name, value in options.items() if value is not None}
    said["output"] = directory
    request = request_of(program, board, cast("RunKeywords", said))
    archives = [file for file in reports if file.suffix.lower() == ".zip"]
    accept = partial(_refuse_archive, archives[0]) if archives else None
    not_added = 0

    def ended(run: EvaluatedRun) -> None:
        nonlocal not_added
        if request.history is not None:
            not_added = command.add_to_history(request.history, run)
        command.write_reports(reports, [run])

    with output.stages() as stages:
        run = run_model(request, stages, ended, accept)
    command.show_outcome(output, run, top, by)
    passes = run.result.trace.passes if run.result and run.result.trace else None
    if passes is not None and not output.json and output.verbosity >= 0:
        _show_passes(output, passes)
    return run.exit_code or not_added


def _refuse_archive(archive: Path, model: ModelFile) -> None:
    """Raise an error, before anything is run, for an archive of several test sets."""
    if model.test_sets:
        raise UsageError(
            f"{archive}: an archive is of one run, a bundled program has one per test set",
            hint="`etharness report RUN/test_sets/NAME -o x.zip` writes one after the run",
        )


def _show_passes(output: command.OutputOptions, passes: CounterPassesRecord) -> None:
    """Print how comparable the passes of a run are."""
    where = f" ({passes.event_name})" if passes.event_name else ""
    missing = passes.unmatched_events
    output.print_line(
        f"counters in {len(passes.counters)} passes: {passes.common} differ by at most "
        f"{passes.execution_difference:.2%} in an execution, "
        f"{passes.event_difference:.2%} in an event{where}"
        + (f"; {counted(missing, 'event', 'is')} not in all passes" if missing else "")
    )


@click.command(name="flash", cls=command.PanelCommand)
@command.target_options
@command.panel(
    command.FIRMWARE,
    *command.flash_options,
    command.option(
        "--attempts",
        default=3,
        show_default=True,
        metavar="N",
        type=click.IntRange(1, 100),
        help="Maximum number of attempts when infrastructure fails.",
    ),
    command.option(
        "--if-needed",
        is_flag=True,
        help="Ask the board for its build id first; skip flashing if it matches.",
    ),
    command.option(
        "--no-identity", is_flag=True, help="Do not ask the board for its build id afterwards."
    ),
    command.option("--dry-run", is_flag=True, help="Print the commands without running them."),
)
@command.panel(
    command.RESULTS,
    command.output_directory("out/flash", "Directory for the tool's log and flash.json."),
)
@command.output_options
def flash_command(
    chosen: Chosen,
    image: Path | None,
    tool: str | None,
    probe: str,
    directory: Path,
    attempts: int,
    if_needed: bool,
    no_identity: bool,
    dry_run: bool,
    output: command.OutputOptions,
) -> None:
    """Flash firmware onto a board and verify that the board runs it."""
    from harness.flash.flashing import flash_board
    from harness.flash.plan import HowToFlash, plan

    if if_needed and no_identity:
        raise click.UsageError("--if-needed needs the build id, so it excludes --no-identity")
    how = HowToFlash(
        *(image, tool, probe or chosen.probe, attempts),
        identity=not no_identity,
        if_needed=if_needed,
    )
    with output.stages() as stages:
        if dry_run:
            _show_plan(output, plan(chosen, directory, how, dry=True, stages=stages))
            return
        record = flash_board(chosen, directory, how, stages)
    _show_flashing(output, record)


def _show_plan(output: command.OutputOptions, planned: FlashSteps) -> None:
    if output.json:
        output.print_json(planned.document())
        return
    for step in planned.steps():
        for path, content in step.files.items():
            print_text(f"# first writes {path}, {len(content)} bytes{_as_comments(content)}")
        print_text(shlex.join(step.argv))


def _as_comments(content: bytes) -> str:
    """Return a short script as comments; nothing for other content."""
    text = content[:2000].decode("utf-8", errors="replace")
    if len(content) > len(text) or not text.replace("\n", "").isprintable() or text[:1] == ":":
        return ""
    return ":" + "".join(f"\n#   {line}" for line in text.splitlines())


def _show_flashing(output: command.OutputOptions, record: FlashRecord) -> None:
    if output.json:
        output.print_json(record)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for line in _flash_lines(record) if output.verbosity >= 0 else ():
        show_line(console, line)


def _flash_lines(record: FlashRecord) -> list[str]:
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


_RUN_IN_PROGRESS: Final = "Run in progress"


@click.command(name="pull", cls=command.PanelCommand)
@command.target_options
@command.baud_option
@command.probe_options
@command.panel(
    _RUN_IN_PROGRESS,
    command.option(
        "--wait",
        "wait_s",
        metavar="[SECONDS]",
        is_flag=False,
        flag_value=math.inf,
        type=click.FloatRange(min=0),
        help="Wait for the end of a run that the board is executing.  [default: fail; without "
        "SECONDS, wait as long as it proceeds]",
    ),
    command.option(
        "--cancel",
        is_flag=True,
        help="End a run that the board is executing after its current execution.",
    ),
)
@command.panel(
    command.RESULTS,
    command.output_directory("out/pull", "Run directory to create."),
)
@command.output_options
def pull_command(
    chosen: Chosen,
    baud: int | None,
    elf: Path | None,
    symbol: str | None,
    until: str | None,
    reset: str | None,
    wait_s: float | None,
    cancel: bool,
    directory: Path,
    output: command.OutputOptions,
) -> None:
    """Read the last trace from a board that is already running.

    Through a serial port the firmware's link sends it. Through a debug probe
    (gdb://HOST:PORT or pyocd://) it is read from memory, and the firmware needs only the tracer.
    """
    from harness.runs.pull import pull
    from harness.runs.request import probe_request
    from harness.runs.run import probe_target

    wanted = probe_request(chosen.port, elf, symbol, until, reset, baud)
    if wanted is not None and (cancel or wait_s is not None):
        raise click.UsageError("--wait and --cancel need the link of a serial port, not a probe")
    with output.stages() as stages:
        if wanted is not None:
            run = probe_target().pull_by_probe(chosen, wanted, directory, stages)
        else:
            run = pull(chosen, baud, directory, stages, wait_s=wait_s, cancel=cancel)
    command.show_outcome(output, run)
