"""Metadata of a trace's events from the ETRecord and the model's ``.pte``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.analyze.inputs import Arguments, event_arguments, find_method
from harness.analyze.symbols import EventSymbols, event_symbols, symbol_table
from harness.decode.etrecord import read_etrecord
from harness.decode.program import Method
from harness.decode.pte import read_program
from harness.errors import UsageError
from harness.runs.source import Source


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Metadata for every event of a trace; each list has one item per event.

    Attributes:
        symbols: From the ETRecord; None without one.
        arguments: From the model; None without it.
        method: The method that ran; None without the model.
    """

    symbols: list[EventSymbols | None] | None = None
    arguments: list[Arguments | None] | None = None
    method: Method | None = None


def load_metadata(
    source: Source,
    *,
    etrecord: Path | None = None,
    model: Path | None = None,
    method: str | None = None,
) -> ModelMetadata:
    """Return the metadata of the events of ``source``.

    Args:
        source: The trace.
        etrecord: Path of an ETRecord.
        model: Path of the model's ``.pte``.
        method: The method that ran. None for that of the run's result, else the only method with
            the operators of the trace, else the only method.

    Raises:
        UsageError: A file is missing, or the method is ambiguous.
        FormatError: A file is damaged.
        NotComparableError: The trace is of another model.
    """
    trace = source.trace
    if method is None and source.result is not None and source.result.model is not None:
        method = source.result.model.method
    arguments = symbols = found = None
    if model is not None:
        if not model.is_file():
            raise UsageError(f"model {model} not found")
        found = find_method(read_program(model.read_bytes()), trace, method)
        method = found.name
        arguments = event_arguments(trace, found)
    if etrecord is not None:
        symbols = event_symbols(trace, symbol_table(read_etrecord(etrecord), method))
    return ModelMetadata(symbols, arguments, found)
