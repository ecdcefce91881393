"""Options that commands share: output, trace files, time scales, reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.output import OutputOptions
from harness.cli.panels import OUTPUT, READING, option, panel
from harness.cli.paths import FilePath
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.records.clock_domain import ClockDomain
    from harness.runs.judged_run import ReadOptions
    from harness.runs.source import Source

_F = TypeVar("_F", bound=Callable[..., Any])
_log = logging.getLogger(__name__)


def with_options(function: _F, collect: Callable[..., Any], options: Callable[[Any], Any]) -> _F:
    """Return ``collect``, which calls ``function``, as the same command with more options."""
    collect.__doc__ = function.__doc__
    collect.__name__ = function.__name__
    collect.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    return options(collect)  # type: ignore[no-any-return]


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
        panel(
            OUTPUT,
            option("--json", "as_json", is_flag=True, help="Print JSON (schema/*.schema.json)."),
            option("-v", "--verbose", count=True, help="Print more; -vv prints everything."),
            option("-q", "--quiet", count=True, help="Print less."),
            option("--no-progress", is_flag=True, help="Hide progress bars."),
        ),
    )


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How a command reads trace files.

    Attributes:
        clock: Clock of files that do not record one.
        clock_bits: Width of the counter of the tracer's own events; None for the recorded width.
        salvage: Read the intact parts of a damaged file.
        debug_buffer: File with the bytes of logged tensors.
        time_scales: Tick rates of delegates' events, by pattern.
    """

    clock: ClockDomain | None
    clock_bits: int | None
    salvage: bool
    debug_buffer: Path | None
    time_scales: dict[str, str]

    def load(self, path: Path) -> Source:
        """Read a trace; log a warning for each counter that looks narrower than recorded."""
        from harness.analyze.clock_width import suspected_widths
        from harness.runs.source import load_with_options

        source = load_with_options(path, self.given())
        for suspicion in suspected_widths(source.trace, source.later_dumps):
            _log.warning("%s: %s", path, suspicion.advice)
        return source

    def given(self, etrecord: Path | None = None, board: str = "", model: str = "") -> ReadOptions:
        """Return the same as a record, with the ETRecord, board and model of a check."""
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


def time_scale_option(function: _F) -> _F:
    """Add ``--time-scale PATTERN=RATE``, passed as the dictionary ``time_scales``."""
    return option(
        "--time-scale",
        "time_scales",
        multiple=True,
        callback=_parse_time_scales,
        metavar="PATTERN=RATE",
        help="Tick rate of delegates' events (docs/clocks.md): 'npu*=100 MHz, 24 bits', "
        "'7=3/8' of the log's rate, or '*=@NAME' of an entry point. Repeatable.",
    )(function)


def _parse_time_scales(_: click.Context, __: click.Parameter, pairs: Any) -> dict[str, str]:
    texts = {}
    for pair in pairs:
        pattern, sign, scale = pair.rpartition("=")
        if not sign or not pattern.strip():
            raise UsageError(
                f"invalid time scale {pair!r}: no PATTERN=RATE",
                hint="write a pattern and a rate, such as 'npu*=100 MHz, 24 bits'",
            )
        texts[pattern.strip()] = scale.strip()
    return texts


def reading_options(function: _F) -> _F:
    """Add the options about trace files and pass them as one ``reading`` argument."""

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
        panel(
            READING,
            option(
                "--clock-hz",
                metavar="HZ",
                type=float,
                help="Ticks per second of a file that records no rate.  [default: nanoseconds for "
                "ED00 files]",
            ),
            option(
                "--clock-bits",
                metavar="N",
                type=click.IntRange(8, 64),
                help="Width of the counter, 8 to 64 bits; ticks wrap at 2**N.  [default: the "
                "recorded width; 64 for ED00 files]",
            ),
            option(
                "--salvage",
                is_flag=True,
                help="Read the intact parts of a damaged file and report the rest.",
            ),
            option(
                "--debug-buffer",
                metavar="FILE",
                type=FilePath(),
                help="File with the bytes of the tensors that an ETDump logged.",
            ),
            time_scale_option,
        ),
    )


def report_option(*names: str, required: bool = False) -> Callable[[_F], _F]:
    """An option for report files, ``--report`` by default, passed as the tuple ``reports``."""
    return option(
        *(names or ("--report",)),
        "reports",
        multiple=True,
        required=required,
        type=FilePath(),
        callback=_check_reports,
        metavar="FILE",
        help="Write a report; the suffix selects the format: .html, .json, .md, .xml (JUnit) or "
        ".zip (archive). Repeatable.",
    )


def _check_reports(_: click.Context, __: click.Parameter, files: tuple[Path, ...]) -> Any:
    if files:
        from harness.report.formats import check_report_file

        for file in files:
            check_report_file(file)
    return files
