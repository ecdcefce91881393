"""Options of ``decode`` about the model and ExecuTorch's Inspector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.options import ReadingOptions, with_options
from harness.cli.panels import MODEL, option, panel
from harness.cli.paths import FilePath
from harness.errors import UsageError
from harness.records.clock_domain import ClockDomain

if TYPE_CHECKING:
    from harness.inspector.outputs import OutputComparison
    from harness.runs.model_metadata import ModelMetadata
    from harness.runs.source import Source

_F = TypeVar("_F", bound=Callable[..., Any])

_SCALES = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1, "cycles": None}
"""Ticks per second by the name of a time scale; cycles have no rate."""


@dataclass(frozen=True, slots=True)
class InspectorOptions:
    """Values of the options; each field is the option of its name."""

    etrecord: Path | None
    model: Path | None
    method: str | None
    source_time_scale: str | None
    target_time_scale: str | None
    tsv: Path | None
    compare_results: bool
    bundled_input: int | None

    def on_scale(self, reading: ReadingOptions) -> ReadingOptions:
        """Return ``reading`` with the rate of ``--source-time-scale``.

        Raises:
            UsageError: The rate is given twice, or only one of the two scales is cycles.
        """
        source = self.source_time_scale
        if (source == "cycles") != (self.target_time_scale == "cycles"):
            raise UsageError(
                "cycles cannot be converted to or from a unit of time",
                hint="give both --source-time-scale cycles and --target-time-scale cycles",
            )
        if source is None:
            return reading
        if reading.clock is not None:
            raise UsageError(
                "--source-time-scale and --clock-hz both set the tick rate", hint="leave out one"
            )
        rate = _SCALES[source]
        hz = None if rate is None else Fraction(rate)
        return replace(reading, clock=ClockDomain("given", hz, 64))

    def metadata(self, source: Source) -> ModelMetadata:
        """Read the metadata of the files for the events of a trace."""
        from harness.runs.model_metadata import load_metadata

        return load_metadata(source, etrecord=self.etrecord, model=self.model, method=self.method)

    def inspect(self, source: Source) -> list[OutputComparison]:
        """Write the Inspector's table with ``--tsv``; return the output comparisons, if any."""
        if not (self.tsv or self.compare_results):
            return []
        from harness.inspector import Inspector, TimeScale
        from harness.inspector.outputs import compare_runs

        inspector = Inspector(
            etdump_data=source,
            etrecord=self.etrecord,
            source_time_scale=TimeScale(self.source_time_scale or "ns"),
            target_time_scale=TimeScale(self.target_time_scale or "ms"),
            method=self.method,
            bundled_input_index=self.bundled_input,
        )
        if self.tsv:
            inspector.save_data_to_tsv(self.tsv)
        return compare_runs(inspector) if self.compare_results else []


def inspector_options(function: _F) -> _F:
    """Add the options and pass them as one ``options`` argument."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        given = {field.name: kwargs.pop(field.name) for field in fields(InspectorOptions)}
        return function(*args, options=InspectorOptions(**given), **kwargs)

    scales = click.Choice(list(_SCALES))
    file = FilePath(dir_okay=False)
    model = panel(
        MODEL,
        option(
            "--etrecord",
            metavar="FILE",
            type=file,
            help="ETRecord of the model; adds operators, modules and, with -v, stack traces.",
        ),
        option(
            "--model",
            metavar="FILE",
            type=file,
            help="Executed .pte file; adds operator arguments and, with --memory, planned memory.",
        ),
        option(
            "--method",
            metavar="NAME",
            help="Executed method of the model.  [default: the recorded one, or the one "
            "that matches the trace]",
        ),
    )
    inspector = panel(
        "ExecuTorch Inspector",
        option(
            "--source-time-scale",
            metavar="SCALE",
            type=scales,
            help="Tick unit for files that do not record one: ns, us, ms, s or cycles.  "
            "[default: ns]",
        ),
        option(
            "--target-time-scale",
            metavar="SCALE",
            type=scales,
            help="Unit of the printed times.  [default: by magnitude]",
        ),
        option(
            "--tsv",
            metavar="FILE",
            type=file,
            help="Also write the Inspector's table as tab-separated values.",
        ),
        option(
            "--compare-results",
            is_flag=True,
            help="Compare the outputs with the reference outputs of the ETRecord.",
        ),
        option(
            "--bundled-input",
            metavar="N",
            type=click.IntRange(0),
            help="Test case of the ETRecord that ran.  [default: the recorded one]",
        ),
    )
    return with_options(function, collect, lambda collected: model(inspector(collected)))
