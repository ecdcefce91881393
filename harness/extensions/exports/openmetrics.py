"""OpenMetrics text: durations of operators, memory and losses, for Prometheus and its kin.

Times are in seconds and memory in bytes, the format's base units. Metrics have no timestamps: the
collector says when it read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

from harness.analyze.memory import allocator_totals
from harness.analyze.statistics import Summary
from harness.export.values import escaped
from harness.extensions.exports.operator_times import NamedOperator, operator_times, unique_titles
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace

Labels = Mapping[str, str]
_SECOND: Final = 1e9
_QUANTILES: Final = {"0.0": "min", "0.1": "p10", "0.5": "p50", "0.9": "p90", "1.0": "max"}


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric family.

    Attributes:
        name: Its name, which ends with its unit.
        kind: Type of its samples.
        unit: Its unit, "" for plain numbers.
        about: Its description.
        samples: Suffix of the name, labels and value of each sample.
    """

    name: str
    kind: Literal["gauge", "info", "summary"]
    unit: str
    about: str
    samples: list[tuple[str, Labels, float]]

    def lines(self) -> Iterator[str]:
        """Yield its lines; none without samples."""
        if not self.samples:
            return
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {self.about}"
        for suffix, labels, value in self.samples:
            shown = ",".join(f'{name}="{_value(text)}"' for name, text in labels.items())
            yield f"{self.name}{suffix}{{{shown}}} {value!r}"


def write_openmetrics(
    trace: Trace, identity: RunIdentity = NO_RUN
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on data of the trace that it lacks.

    Raises:
        UsageError: No operator has a known duration.
    """
    operators, notes = operator_times(trace)
    # Board and model tell series apart; the rest of the identity changes with every run.
    run = {name: escaped(text) for name, text in identity.texts().items() if text}
    about = {name: run.get(name, "") for name in ("board", "model")}
    families = (
        MetricFamily(
            "etdump_run", "info", "", "The run of these metrics.", [("_info", run or about, 1)]
        ),
        MetricFamily(
            "etdump_operator_duration_seconds",
            "summary",
            "seconds",
            "Durations of an operator or scope over all executions.",
            [*_durations(operators, about)],
        ),
        MetricFamily(
            "etdump_operator_hardware_events",
            "summary",
            "",
            "What a hardware counter counted in an operator or scope.",
            [*_counts(operators, about)],
        ),
        MetricFamily(
            "etdump_allocator_peak_bytes",
            "gauge",
            "bytes",
            "Largest number of live bytes of an allocator.",
            [("", labels, value) for labels, value, _ in _memory(trace, about)],
        ),
        MetricFamily(
            "etdump_allocator_failures",
            "gauge",
            "",
            "Allocations that failed.",
            [("", labels, failed) for labels, _, failed in _memory(trace, about)],
        ),
        MetricFamily(
            "etdump_lost",
            "gauge",
            "",
            "What the target could not log.",
            [("", {**about, "what": what}, count) for what, count in asdict(trace.losses).items()],
        ),
    )
    lines = [*(line for family in families for line in family.lines()), "# EOF\n"]
    return "\n".join(lines).encode(), (*notes, "without single executions and the starts of events")


def _durations(
    operators: Iterable[NamedOperator], about: Labels
) -> Iterator[tuple[str, Labels, float]]:
    for item in operators:
        yield from _summary(item.ns, {**about, **_labels(item)}, _SECOND)


def _counts(
    operators: Iterable[NamedOperator], about: Labels
) -> Iterator[tuple[str, Labels, float]]:
    for item in operators:
        for counter, summary in item.operator.counters.items():
            yield from _summary(summary, {**about, **_labels(item), "counter": escaped(counter)}, 1)


def _summary(summary: Summary, labels: Labels, scale: float) -> Iterator[tuple[str, Labels, float]]:
    for quantile, name in _QUANTILES.items():
        yield "", {**labels, "quantile": quantile}, getattr(summary, name) / scale
    yield "_count", labels, summary.count
    yield "_sum", labels, summary.total / scale


def _labels(item: NamedOperator) -> Labels:
    operator = item.operator
    return {
        "block": escaped(operator.block),
        "operator": item.title,
        "event": escaped(operator.name),
        "instruction": "" if operator.chain == -1 else str(operator.instruction),
    }


def _memory(trace: Trace, about: Labels) -> Iterator[tuple[Labels, int, int]]:
    """Yield labels, largest live bytes and number of failures of each allocator."""
    found = allocator_totals(trace)
    titles = unique_titles(("", escaped(totals.label)) for totals in found)
    for title, totals in zip(titles, found, strict=True):
        yield {**about, "allocator": title}, totals.peak_bytes, totals.failures


def _value(text: str) -> str:
    """Return the value of a label, without control characters, as between quotation marks."""
    return text.replace("\\", r"\\").replace('"', r"\"")
