"""Options of ``decode`` about what stands beside a trace, and of ExecuTorch's Inspector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.common import ReadingOptions, with_options
from harness.cli.paths import FilePath
from harness.errors import UsageError
from harness.records.clock_domain import ClockDomain

if TYPE_CHECKING:
    from harness.inspector.outputs import OutputComparison
    from harness.runs.model_metadata import ModelMetadata
    from harness.runs.source import Source

_F = TypeVar("_F", bound=Callable[..., Any])

_SCALES = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1, "cycles": None}
"""Units by name: how many make a second."""


@dataclass(frozen=True, slots=True)
class InspectorFiles:
    """What the options say; each field is the option of its name."""

    etrecord: Path | None
    model: Path | None
    method: str | None
    by: str | None
    source_time_scale: str | None
    target_time_scale: str | None
    tsv: Path | None
    compare_results: bool
    bundled_input: int | None

    def on_scale(self, reading: ReadingOptions) -> ReadingOptions:
        """Read ticks as those of the source's time scale.

        Raises:
            UsageError: The rate is given twice, or only one scale is cycles.
        """
        source = self.source_time_scale
        if (source == "cycles") != (self.target_time_scale == "cycles"):
            raise UsageError(
                "cycles have no length, so nothing else can be made of them",
                hint="give both --source-time-scale cycles and --target-time-scale cycles",
            )
        if source is None:
            return reading
        if reading.clock is not None:
            raise UsageError("--source-time-scale and --clock-hz both say what a tick is")
        rate = _SCALES[source]
        hz = None if rate is None else Fraction(rate)
        return replace(reading, clock=ClockDomain("given", hz, 64))

    def load_metadata(self, source: Source) -> ModelMetadata:
        """Join the trace with what the files say."""
        from harness.runs.model_metadata import load_metadata

        return load_metadata(source, etrecord=self.etrecord, model=self.model, method=self.method)

    def inspect(self, source: Source) -> list[OutputComparison]:
        """Do what an Inspector does: write its table, compare outputs, as far as asked for."""
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


def beside_options(function: _F) -> _F:
    """Add the options and pass them as one ``beside`` argument."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        given = {field.name: kwargs.pop(field.name) for field in fields(InspectorFiles)}
        return function(*args, beside=InspectorFiles(**given), **kwargs)

    scales = click.Choice(list(_SCALES))
    file = FilePath(dir_okay=False)
    return with_options(
        function,
        collect,
        click.option(
            "--bundled-input",
            metavar="N",
            type=click.IntRange(0),
            help="The ETRecord's case that ran, where the file does not say.",
        ),
        click.option(
            "--compare-results",
            is_flag=True,
            help="Hold the outputs against the ETRecord's reference outputs.",
        ),
        click.option(
            "--tsv",
            metavar="FILE",
            type=file,
            help="Write the table of ExecuTorch's Inspector, too, with tabs between columns.",
        ),
        click.option(
            "--target-time-scale",
            type=scales,
            help="The unit of times.  [default: what reads best]",
        ),
        click.option(
            "--source-time-scale",
            type=scales,
            help="What the ticks of a file are that does not say.  [default: ns]",
        ),
        click.option(
            "--by",
            type=click.Choice(["module"]),
            help="Print times by module, each operator counted once.",
        ),
        click.option("--method", help="The method that ran, where there are several."),
        click.option(
            "--model",
            metavar="FILE",
            type=file,
            help="The .pte that was executed: what operators were given; with --memory, what it "
            "plans and what it needs of that.",
        ),
        click.option(
            "--etrecord",
            metavar="FILE",
            type=file,
            help="What the model's exporter knew: operators, modules; with -v stack traces.",
        ),
    )
