"""What subcommands share: output options, progress on a terminal, failures as text or JSON."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.paths import FilePath
from harness.errors import HarnessError, UsageError
from harness.files import shown

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from harness.records.clock_domain import ClockDomain
    from harness.runs.judged_run import JudgedRun, ReadOptions
    from harness.runs.run import FinishedRun
    from harness.runs.source import Source

_F = TypeVar("_F", bound=Callable[..., Any])
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a command speaks.

    Attributes:
        json: Print one JSON document instead of text.
        verbosity: 0 normal, positive says more, negative says only failures and the verdict.
        progress: Show progress of long waits (only ever on a terminal).
    """

    json: bool
    verbosity: int
    progress: bool

    def console(self) -> Console:
        """Where results are printed."""
        from rich.console import Console

        return Console()

    @contextlib.contextmanager
    def stages(self) -> Iterator[Callable[[str, int, int], None]]:
        """Yield a function of (stage, done, total) that shows how far a stage is."""
        if not self.progress or self.json or self.verbosity < 0 or not sys.stderr.isatty():
            yield lambda _stage, _done, _total: None
            return
        from rich.console import Console
        from rich.progress import Progress, TaskID

        with Progress(console=Console(stderr=True), transient=True) as bars:
            tasks: dict[str, TaskID] = {}

            def show(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(stage, total=None)
                bars.update(tasks[stage], completed=done, total=total or None)

            yield show


def output_options(function: _F) -> _F:
    """Add ``--json -v -q --no-progress`` and pass them as one ``output`` argument."""

    def collect(
        *args: Any, as_json: bool, verbose: int, quiet: int, no_progress: bool, **kwargs: Any
    ) -> Any:
        verbosity = verbose - quiet
        level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
        logging.basicConfig(
            level=level.get(max(verbosity, -1), logging.DEBUG),
            format="%(levelname)s %(name)s: %(message)s",
        )
        return function(*args, output=OutputOptions(as_json, verbosity, not no_progress), **kwargs)

    return with_options(
        function,
        collect,
        click.option("--no-progress", is_flag=True, help="Show no progress bars."),
        click.option("-q", "--quiet", count=True, help="Say less."),
        click.option("-v", "--verbose", count=True, help="Say more; twice: everything."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON (schema/*.schema.json)."),
    )


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How a command reads the traces behind a path.

    Attributes:
        clock: What the ticks count, where the file does not say.
        clock_bits: Width of the counter of the tracer's own events, if not what the file says.
        salvage: Read what is intact of a damaged file.
        debug_buffer: Where the bytes of logged tensors are.
        time_scales: What the ticks of delegates' events mean, by patterns.
    """

    clock: ClockDomain | None
    clock_bits: int | None
    salvage: bool
    debug_buffer: Path | None
    time_scales: dict[str, str]

    def load(self, path: Path) -> Source:
        """Read what is at ``path``; warn of counters that are narrower than the file says."""
        from harness.analyze.clock_width import suspected_widths
        from harness.runs.source import load_with_options

        source = load_with_options(path, self.given())
        for suspicion in suspected_widths(source.trace, source.later_dumps):
            _log.warning("%s: %s", path, suspicion.advice)
        return source

    def given(self, etrecord: Path | None = None, board: str = "", model: str = "") -> ReadOptions:
        """The same for a verdict, with an ETRecord, and whose rules count, if that is said."""
        from harness.runs.judged_run import ReadOptions

        return ReadOptions(
            clock=self.clock,
            clock_bits=self.clock_bits,
            salvage=self.salvage,
            debug_buffer=self.debug_buffer,
            time_scales=self.time_scales,
            etrecord=etrecord,
            board=board,
            model=model,
        )


def reading_options(function: _F) -> _F:
    """Add ``--clock-hz`` to ``--time-scale``, about what is read, and pass a ``reading``."""

    def collect(
        *args: Any,
        clock_hz: float | None,
        clock_bits: int | None,
        salvage: bool,
        debug_buffer: Path | None,
        time_scales: dict[str, str],
        **kwargs: Any,
    ) -> Any:
        from harness.records.clock_domain import ClockDomain

        clock = ClockDomain("given", Fraction(clock_hz)) if clock_hz else None
        reading = ReadingOptions(clock, clock_bits, salvage, debug_buffer, time_scales)
        return function(*args, reading=reading, **kwargs)

    return with_options(
        function,
        collect,
        time_scale_option,
        click.option(
            "--debug-buffer",
            metavar="FILE",
            type=FilePath(),
            help="Bytes of logged tensors, beside an ETDump.",
        ),
        click.option(
            "--salvage",
            is_flag=True,
            help="Read what is intact of a damaged file, and say the rest.",
        ),
        click.option(
            "--clock-bits",
            metavar="N",
            type=click.IntRange(8, 64),
            help="Width of the counter, 8 to 64 bits: ticks wrap at 2**N.  [default: what the file "
            "says; 64 for ED00 files]",
        ),
        click.option(
            "--clock-hz",
            type=float,
            help="Ticks per second, where the file does not say (ED00 files are taken as "
            "nanoseconds).",
        ),
    )


def with_options(function: _F, collect: Callable[..., Any], *options: Callable[[Any], Any]) -> _F:
    """Make ``collect``, which calls ``function``, the same command with more options."""
    collect.__doc__ = function.__doc__
    collect.__name__ = function.__name__
    collect.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in options:
        collect = option(collect)
    return collect  # type: ignore[return-value]


def time_scale_option(function: _F) -> _F:
    """Add ``--time-scale PATTERN=RATE``, passed as the dictionary ``time_scales``."""
    return click.option(
        "--time-scale",
        "time_scales",
        multiple=True,
        callback=_parse_time_scales,
        metavar="PATTERN=RATE",
        help="What the ticks of delegates' events mean (docs/clocks.md): 'npu*=100 MHz, 24 bits', "
        "'7=3/8' of the log's rate, '*=@NAME' of an entry point. May be given several times.",
    )(function)


def _parse_time_scales(_: click.Context, __: click.Parameter, pairs: Any) -> dict[str, str]:
    texts = {}
    for pair in pairs:
        pattern, sign, scale = pair.rpartition("=")
        if not sign or not pattern.strip():
            raise UsageError(
                f"{pair!r} is no time scale",
                hint="write PATTERN=RATE, such as 'npu*=100 MHz, 24 bits'",
            )
        texts[pattern.strip()] = scale.strip()
    return texts


def report_option(*names: str, required: bool = False) -> Callable[[_F], _F]:
    """An option of files to report to, passed as the tuple of paths ``reports``."""
    return click.option(
        *(names or ("--report",)),
        "reports",
        multiple=True,
        required=required,
        type=FilePath(),
        callback=_check_reports,
        metavar="FILE",
        help="Write a report, too, of the kind that the suffix says (docs/reports.md): .html, "
        ".json, .md, .xml, .zip. May be given several times.",
    )


def _check_reports(_: click.Context, __: click.Parameter, files: tuple[Path, ...]) -> Any:
    if files:
        from harness.report.formats import check_report_file

        for file in files:
            check_report_file(file)
    return files


def write_reports(files: Sequence[Path], runs: Sequence[JudgedRun]) -> None:
    """Write a report of ``runs`` to every file.

    The failure of a run is worse than that of a report of it, which is only printed then.
    """
    from harness.report.formats import write_report

    for file in files:
        try:
            write_report(file, runs)
        except HarnessError as error:
            if all(run.failure is None for run in runs):
                raise
            report_failure(error)


@dataclass(slots=True)
class HistoryKeeper:
    """Adds a run to a history at its end; a history that fails does not lose the run.

    Attributes:
        url: The history; None for none.
        exit_code: 0, or that of the failure, which has been printed.
    """

    url: str | None
    exit_code: int = 0

    def add(self, run: JudgedRun) -> None:
        """Add a run that has ended, however it did."""
        if self.url is None:
            return
        from harness.runs.add_results import add_reported

        try:
            add_reported(self.url, run)
        except HarnessError as error:
            report_failure(error)
            self.exit_code = error.exit_code


def show_outcome(output: OutputOptions, outcome: FinishedRun, directory: Path) -> None:
    """Print a finished run that is kept in ``directory``."""
    if output.json:
        from harness.records.result import encode

        click.echo(encode(outcome.result), nl=False)
        return
    from harness.report.run import show_run

    show_run(
        output.console(),
        outcome.result,
        outcome.trace,
        shown(directory),
        verbosity=output.verbosity,
        comparison=outcome.comparison,
    )


def report_failure(error: HarnessError) -> None:
    """Print a failure and its remedy on standard error."""
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"  try: {error.hint}", err=True)
