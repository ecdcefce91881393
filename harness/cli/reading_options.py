"""Options about trace files, which several commands share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.options import READING, FilePath, option, panel, with_options
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.records.clock_domain import ClockDomain
    from harness.runs.source import ReadOptions, Source


_log = logging.getLogger(__name__)

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How a command reads trace files.

    Attributes:
        clock: Clock of files that do not record one.
        clock_bits: Width of the counter of the tracer's own events; None for the recorded width.
        salvage: Read the intact parts of a damaged file.
        debug_buffer: File with the bytes of logged tensors.
        time_scales: Tick rates of delegates' events, by pattern.
        metadata: Layouts of their metadata, by pattern.
        dump: The only dump to read of a file with several, from 1; None for all.
    """

    clock: ClockDomain | None
    clock_bits: int | None
    salvage: bool
    debug_buffer: Path | None
    time_scales: dict[str, str]
    metadata: dict[str, str]
    dump: int | None

    def load(self, path: Path) -> Source:
        """Read a trace; log a warning for each counter that looks narrower than recorded."""
        from harness.analyze.ticks import suspected_widths
        from harness.runs.source import load_with_options

        source = load_with_options(path, self.given())
        for suspicion in suspected_widths(source.trace, source.later_dumps):
            _log.warning("%s: %s", path, suspicion.advice)
        return source

    def given(self, etrecord: Path | None = None, board: str = "", model: str = "") -> ReadOptions:
        """Return the same as a record, with the ETRecord, board and model of a check."""
        from harness.runs.source import ReadOptions

        return ReadOptions(
            clock=self.clock,
            clock_bits=self.clock_bits,
            salvage=self.salvage,
            debug_buffer=self.debug_buffer,
            time_scales=self.time_scales,
            metadata=self.metadata,
            dump=self.dump,
            etrecord=etrecord,
            board=board,
            model=model,
        )


def _parse_pairs(pairs: Any, what: str, right: str, example: str) -> dict[str, str]:
    """Split ``PATTERN=TEXT``; a pattern may contain the sign, too."""
    texts = {}
    for pair in pairs:
        pattern, sign, text = pair.rpartition("=")
        if not sign or not pattern.strip():
            raise UsageError(
                f"invalid {what} {pair!r}: no PATTERN={right.upper()}",
                hint=f"write a pattern and a {right}, such as {example!r}",
            )
        texts[pattern.strip()] = text.strip()
    return texts


def _parse_time_scales(_: click.Context, __: click.Parameter, pairs: Any) -> dict[str, str]:
    return _parse_pairs(pairs, "time scale", "rate", "npu*=100 MHz, 24 bits")


def _parse_layouts(_: click.Context, __: click.Parameter, pairs: Any) -> dict[str, str]:
    return _parse_pairs(pairs, "metadata", "layout", "npu*=npu_macs:u32, npu_bytes:u32")


time_scale_option = option(
    "--time-scale",
    "time_scales",
    multiple=True,
    callback=_parse_time_scales,
    metavar="PATTERN=RATE",
    help="Tick rate of delegates' events (`etharness explain clocks`): 'npu*=100 MHz, 24 bits', "
    "'7=3/8' of the log's rate, or '*=@NAME' of an entry point. Repeatable.",
)
"""``--time-scale PATTERN=RATE``, passed as the dictionary ``time_scales``."""


def reading_options(function: _F) -> _F:
    """Add the options about trace files and pass them as one ``reading`` argument."""

    def collect(
        *args: Any,
        clock_hz: float | None,
        clock_bits: int | None,
        salvage: bool,
        debug_buffer: Path | None,
        time_scales: dict[str, str],
        metadata: dict[str, str],
        dump: int | None,
        **kwargs: Any,
    ) -> Any:
        from harness.records.clock_domain import ClockDomain

        clock = ClockDomain("given", Fraction(clock_hz)) if clock_hz else None
        texts = time_scales, metadata
        reading = ReadingOptions(clock, clock_bits, salvage, debug_buffer, *texts, dump)
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
            option(
                "--dump",
                metavar="N",
                type=click.IntRange(1),
                help="Read only the Nth dump of a file with several; a device that was reset puts "
                "the newest first.  [default: all, as one trace]",
            ),
            time_scale_option,
            option(
                "--metadata",
                multiple=True,
                callback=_parse_layouts,
                metavar="PATTERN=LAYOUT",
                help="Counters in the metadata of delegates' events "
                "(`etharness explain delegates`): "
                "'*=npu_macs:u32, npu_bytes:u32' or 'npu*=ethos-u'.  [default: those of the run] "
                "Repeatable.",
            ),
        ),
    )
