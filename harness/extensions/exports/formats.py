"""Formats of other tools; what each needs is imported when it is written."""

from __future__ import annotations

from typing import Final

from harness.export.formats import Exported, ExportFormat, Request
from harness.records.trace import Trace


def _chakra(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.chakra import write_chakra

    return Exported(*write_chakra(trace, request.method, request.identity))


def _folded(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.flame_graph import write_folded

    return Exported(*write_folded(trace, request.method, request.identity, request.symbols))


def _google_benchmark(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.google_benchmark import write_google_benchmark

    return Exported(*write_google_benchmark(trace, request.flavour, request.identity))


def _model_explorer(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.overlays import write_model_explorer

    return Exported(*write_model_explorer(trace, request.method, request.identity))


def _netron(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.overlays import write_netron

    return Exported(*write_netron(trace, request.method, request.identity))


def _openmetrics(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.openmetrics import write_openmetrics

    return Exported(*write_openmetrics(trace, request.identity))


def _parquet(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.parquet import write_parquet

    facts = (request.identity, request.energy, request.symbols)
    return Exported(*write_parquet(trace, *facts))


def _execution_trace(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.execution_trace import write_execution_trace

    return Exported(*write_execution_trace(trace, request.method, request.identity))


def _speedscope(trace: Trace, request: Request) -> Exported:
    from harness.extensions.exports.flame_graph import write_speedscope

    return Exported(*write_speedscope(trace, request.method, request.identity, request.symbols))


CHAKRA: Final = ExportFormat("MLCommons Chakra's execution trace, protocol buffers (.et).", _chakra)
FOLDED: Final = ExportFormat("Stacks with their self times, for flame graphs.", _folded)
GOOGLE_BENCHMARK: Final = ExportFormat(
    "Times of operators as benchmarks, JSON; flavour aggregates: mean, median and stddev.",
    _google_benchmark,
    ("median", "aggregates"),
)
MODEL_EXPLORER: Final = ExportFormat(
    "Times on the nodes of the .pte file in Model Explorer (JSON).", _model_explorer
)
NETRON: Final = ExportFormat("Times on the values of the .pte file in Netron (JSON).", _netron)
OPENMETRICS: Final = ExportFormat(
    "Durations, memory and losses as metrics: Prometheus.", _openmetrics
)
PARQUET: Final = ExportFormat("The whole trace as typed columns: pandas, DuckDB.", _parquet)
PYTORCH_ET: Final = ExportFormat(
    "PyTorch's execution trace with times, JSON for Chakra's converter.", _execution_trace
)
SPEEDSCOPE: Final = ExportFormat("Flame graphs of each run, for speedscope.app.", _speedscope)
