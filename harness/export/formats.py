"""The formats a trace can be exported to, by name; ED00, and tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.decode.program import Method
from harness.errors import UsageError, did_you_mean
from harness.plugins import (
    EXPORTERS,
    extension_remedy,
    is_deleted,
    is_extension,
    load_plugin,
    plugin_names,
    unfit_plugin,
)
from harness.records.result import NO_RUN, RunIdentity
from harness.records.symbols import EventSymbols
from harness.records.trace import Trace

if TYPE_CHECKING:
    from harness.records.energy import MeasuredEnergy


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


def export_trace(
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
    """Return the format of this name, of the core or from a plugin.

    Raises:
        UsageError: There is none, or its plugin is broken.
    """
    if name in FORMATS:
        return FORMATS[name]
    plugin = load_plugin(EXPORTERS, name)
    if plugin is None and is_deleted(EXPORTERS, name):
        raise UsageError(
            f"format {name} is not supported by this installation",
            hint=extension_remedy("exports"),
        )
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
    """Return the names of all formats, sorted."""
    return sorted({*FORMATS, *plugin_names(EXPORTERS)})


def described_formats() -> dict[str, str]:
    """Return one line about each format by name; no plugin of another package is imported."""
    return {
        name: find_format(name).description
        if name in FORMATS or is_extension(EXPORTERS, name)
        else "From a plugin."
        for name in format_names()
    }


def write_ed00_file(trace: Trace, request: Request) -> Exported:
    """Return the file, with notes on what it cannot hold."""
    from harness.analyze.ticks import durations, without_wraps
    from harness.decode.ed00_writer import left_out, write_ed00

    inspector = request.flavour == "inspector"
    if inspector:
        trace = without_wraps(trace)
    counts = asdict(left_out(trace, allocation_events=not inspector))
    if counts["instants"]:
        longer = durations(trace, wall=True) != durations(trace)
        counts["events longer by what other tasks and interrupts took"] = int(longer.sum())
    return Exported(
        write_ed00(trace, allocation_events=not inspector, comment=_comment(request.identity)),
        tuple(f"{count} {what.replace('_', ' ')}" for what, count in counts.items() if count),
    )


def _comment(identity: RunIdentity) -> str:
    """Return the identity as text for a format without a field for it; "" if it is unknown."""
    known = [f"{name}={text}" for name, text in identity.texts().items() if text]
    return f"etdump-harness: {'; '.join(known)}" if known else ""


ED00: Final = ExportFormat(
    "An ETDump file; flavour inspector: as ExecuTorch's Inspector reads it.",
    write_ed00_file,
    ("exact", "inspector"),
)

FORMATS: Final = {"ed00": ED00}
"""Formats of the core; all others plug in."""


def delimited(table: Mapping[str, Sequence[Any]], delimiter: str, *, header: bool = True) -> bytes:
    """Write columns as CSV or TSV, with or without a header line.

    An absent value is an empty field, a truth value ``true`` or ``false``, a record its JSON. Texts
    must be `escaped`: Python writes a carriage return without quotes. A text that a spreadsheet
    would execute as a formula, or that begins with an apostrophe, gets an apostrophe before it,
    which spreadsheets take as the sign of a text.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return out.getvalue().encode()


_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""Beginnings of a text that gets an apostrophe; the last but one are East Asian wide signs."""


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value).decode()
    return value
