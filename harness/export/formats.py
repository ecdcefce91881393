"""The formats a trace can be exported to, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from harness.analyze.symbols import EventSymbols
from harness.decode.program import Method
from harness.errors import UsageError, did_you_mean
from harness.plugins import EXPORTERS, load_plugin, plugin_names, unfit_plugin
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace

if TYPE_CHECKING:
    from harness.analyze.energy import MeasuredEnergy


@dataclass(frozen=True, slots=True)
class Exported:
    """The content of an exported file, and what was lost.

    Attributes:
        data: The file.
        notes: A line for each kind of data that the file lacks or changes, with numbers.
    """

    data: bytes
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """How to write a trace.

    Attributes:
        flavour: Variant of the format, "" if it has no variants.
        method: The executed method of the model, if known.
        identity: The run of the trace; each format names it.
        energy: The energy of its events; None without a meter.
        symbols: The ETRecord data of every event; None without an ETRecord.
    """

    flavour: str = ""
    method: Method | None = None
    identity: RunIdentity = NO_RUN
    energy: MeasuredEnergy | None = None
    symbols: Sequence[EventSymbols | None] | None = None


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format.

    Attributes:
        description: One line for --help.
        write: Returns the file for a trace.
        flavours: Names of variants, the first is the default; empty without variants.
    """

    description: str
    write: Callable[[Trace, Request], Exported]
    flavours: tuple[str, ...] = ()


def export(
    trace: Trace,
    name: str,
    flavour: str | None = None,
    method: Method | None = None,
    identity: RunIdentity = NO_RUN,
    energy: MeasuredEnergy | None = None,
    symbols: Sequence[EventSymbols | None] | None = None,
) -> Exported:
    """Write ``trace`` in the format ``name``.

    Args:
        trace: The trace.
        name: One of FORMATS, or of a plugin.
        flavour: Variant of the format, its first by default.
        method: The executed method of the model; some formats include its data.
        identity: The run of the trace.
        energy: The energy of its events; None without a meter.
        symbols: The ETRecord data of every event, for module paths; None without an ETRecord.

    Raises:
        UsageError: The format or its flavour is unknown, cannot hold this trace, or needs a package
            that is not installed.
        NotComparableError: The trace is not of this method.
    """
    chosen = find_format(name)
    if flavour is not None and flavour not in chosen.flavours:
        known = ", ".join(chosen.flavours)
        raise UsageError(
            f"unknown flavour {flavour!r} of format {name}",
            hint=f"flavours are {known}" if known else "the format has no flavours",
        )
    flavour = flavour or next(iter(chosen.flavours), "")
    return chosen.write(trace, Request(flavour, method, identity, energy, symbols))


def find_format(name: str) -> ExportFormat:
    """Return the format of this name, built in or from a plugin.

    Raises:
        UsageError: There is none, or its plugin is broken.
    """
    if name in FORMATS:
        return FORMATS[name]
    plugin = load_plugin(EXPORTERS, name)
    if plugin is None:
        known = format_names()
        raise UsageError(
            f"unknown format {name!r}",
            hint=f"{did_you_mean(name, known)}one of {', '.join(known)}",
        )
    if not isinstance(plugin, ExportFormat):
        raise unfit_plugin(EXPORTERS, name, "a harness.export.formats.ExportFormat")
    return plugin


def format_names() -> list[str]:
    """Names of all formats, the built-in ones first."""
    return [*FORMATS, *(name for name in plugin_names(EXPORTERS) if name not in FORMATS)]


def _csv(trace: Trace, request: Request) -> Exported:
    return _delimited(trace, request, ",")


def _tsv(trace: Trace, request: Request) -> Exported:
    return _delimited(trace, request, "\t")


def _delimited(trace: Trace, request: Request, delimiter: str) -> Exported:
    from harness.export.delimited import write_delimited

    facts = (request.identity, request.energy, request.symbols)
    return Exported(*write_delimited(trace, delimiter, *facts))


def _json(trace: Trace, request: Request) -> Exported:
    from harness.export.document import write_json

    return Exported(write_json(trace, request.identity, request.energy))


def _parquet(trace: Trace, request: Request) -> Exported:
    from harness.export.parquet import write_parquet

    facts = (request.identity, request.energy, request.symbols)
    return Exported(*write_parquet(trace, *facts))


def _ed00(trace: Trace, request: Request) -> Exported:
    from harness.analyze.ticks import without_wraps
    from harness.decode.ed00 import left_out, write_ed00

    inspector = request.flavour == "inspector"
    if inspector:
        trace = without_wraps(trace)
    counts = asdict(left_out(trace, allocation_events=not inspector))
    return Exported(
        write_ed00(trace, allocation_events=not inspector, comment=_comment(request.identity)),
        tuple(f"{count} {what.replace('_', ' ')}" for what, count in counts.items() if count),
    )


def _comment(identity: RunIdentity) -> str:
    """Return the identity as text for a format without a field for it; "" if it is unknown."""
    known = [f"{name}={text}" for name, text in identity.texts().items() if text]
    return f"etdump-harness: {'; '.join(known)}" if known else ""


def _kineto(trace: Trace, request: Request) -> Exported:
    from harness.export.kineto import write_kineto

    facts = (request.method, request.identity, request.energy, request.symbols)
    return Exported(*write_kineto(trace, request.flavour, *facts))


def _model_explorer(trace: Trace, request: Request) -> Exported:
    from harness.export.overlays import write_model_explorer

    return Exported(*write_model_explorer(trace, request.method, request.identity))


def _netron(trace: Trace, request: Request) -> Exported:
    from harness.export.overlays import write_netron

    return Exported(*write_netron(trace, request.method, request.identity))


def _perfetto(trace: Trace, request: Request) -> Exported:
    from harness.export.perfetto import write_perfetto

    facts = (request.method, request.identity, request.energy, request.symbols)
    return Exported(*write_perfetto(trace, *facts))


def _chakra(trace: Trace, request: Request) -> Exported:
    from harness.export.chakra import write_chakra

    return Exported(*write_chakra(trace, request.method, request.identity))


def _execution_trace(trace: Trace, request: Request) -> Exported:
    from harness.export.execution_trace import write_execution_trace

    return Exported(*write_execution_trace(trace, request.method, request.identity))


def _speedscope(trace: Trace, request: Request) -> Exported:
    from harness.export.flame_graph import write_speedscope

    return Exported(*write_speedscope(trace, request.method, request.identity, request.symbols))


def _folded(trace: Trace, request: Request) -> Exported:
    from harness.export.flame_graph import write_folded

    return Exported(*write_folded(trace, request.method, request.identity, request.symbols))


def _google_benchmark(trace: Trace, request: Request) -> Exported:
    from harness.export.google_benchmark import write_google_benchmark

    return Exported(*write_google_benchmark(trace, request.flavour, request.identity))


def _openmetrics(trace: Trace, request: Request) -> Exported:
    from harness.export.openmetrics import write_openmetrics

    return Exported(*write_openmetrics(trace, request.identity))


FORMATS: Final = {
    "chakra": ExportFormat("MLCommons Chakra's execution trace, protocol buffers (.et).", _chakra),
    "csv": ExportFormat("A table, one row per event: spreadsheets, scripts.", _csv),
    "ed00": ExportFormat(
        "An ETDump file; flavour inspector: as ExecuTorch's Inspector reads it.",
        _ed00,
        ("exact", "inspector"),
    ),
    "folded": ExportFormat("Stacks with their self times, for flame graphs.", _folded),
    "google-benchmark": ExportFormat(
        "Times of operators as benchmarks, JSON; flavour aggregates: mean, median and stddev.",
        _google_benchmark,
        ("median", "aggregates"),
    ),
    "json": ExportFormat(
        "The whole trace, an object per event (schema/events.schema.json).", _json
    ),
    "kineto": ExportFormat(
        "Chrome's JSON as the PyTorch profiler writes it; flavour hta: for HolisticTraceAnalysis.",
        _kineto,
        ("torch", "hta"),
    ),
    "model-explorer": ExportFormat(
        "Times on the nodes of the .pte file in Model Explorer (JSON).", _model_explorer
    ),
    "netron": ExportFormat("Times on the values of the .pte file in Netron (JSON).", _netron),
    "openmetrics": ExportFormat(
        "Durations, memory and losses as metrics: Prometheus.", _openmetrics
    ),
    "parquet": ExportFormat("The whole trace as typed columns: pandas, DuckDB.", _parquet),
    "perfetto": ExportFormat("Perfetto's own format, for ui.perfetto.dev (.pftrace).", _perfetto),
    "pytorch-et": ExportFormat(
        "PyTorch's execution trace with times, JSON for Chakra's converter.", _execution_trace
    ),
    "speedscope": ExportFormat("Flame graphs of each run, for speedscope.app.", _speedscope),
    "tsv": ExportFormat("As csv, with tabs.", _tsv),
}
"""All formats; what each needs is imported when it is written."""
