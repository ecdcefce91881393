"""CSV and TSV: the table of events for spreadsheets and scripts, without the header data."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.export.energy import energy_columns
from harness.export.place_columns import Symbols, place_columns
from harness.export.table import columns
from harness.export.values import ValueDocument
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace

if TYPE_CHECKING:
    from harness.analyze.energy import MeasuredEnergy


def write_delimited(
    trace: Trace,
    delimiter: str,
    identity: RunIdentity = NO_RUN,
    energy: MeasuredEnergy | None = None,
    symbols: Symbols = None,
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and a line for each kind of data that it lacks.

    It has a header line and one line per event, UTF-8, fields quoted where they need it.

    An absent value is an empty field, a truth value ``true`` or ``false``, a debug event's value
    its JSON. Metadata begins with ``hex:``, because readers such as pandas take plain digits for a
    number. Behind the columns of the trace are the energy, if it was measured, the place in time
    and in the model, and the identity of the run, the same in every line.
    """
    table = columns(trace)
    digits = table["metadata"]
    table["metadata"] = [None if text is None else f"hex:{text}" for text in digits]
    about = {name: [text] * len(trace) for name, text in identity.texts().items()}
    joules = energy_columns(energy.events) if energy is not None else {}
    places, notes = place_columns(trace, symbols)
    data = delimited({**table, **joules, **places, **about}, delimiter)
    return data, (*unsaid(trace), *notes)


def delimited(table: Mapping[str, Sequence[Any]], delimiter: str, *, header: bool = True) -> bytes:
    """Write any columns in the format of ``write_delimited``, with or without a header line.

    A text that a spreadsheet would execute as a formula, or that begins with an apostrophe, gets an
    apostrophe before it, which spreadsheets take as the sign of a text.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return out.getvalue().encode()


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""Beginnings of a text that gets an apostrophe; the last but one are East Asian wide signs."""


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, ValueDocument):
        return msgspec.json.encode(value).decode()
    return value


def unsaid(trace: Trace) -> tuple[str, ...]:
    """Return a line for each kind of data of ``trace`` that its table lacks."""
    empty = sum(not block.count for block in trace.blocks)
    lost = ", ".join(f"{count} {what}" for what, count in asdict(trace.losses).items() if count)
    notes = {
        f"{empty} blocks without events": empty > 0,
        f"what the target lost: {lost}": trace.losses.any,
        f"{trace.filtered_events} events that the target left out": trace.filtered_events > 0,
        f"the stack use of {len(trace.stacks)} tracers": len(trace.stacks) > 0,
    }
    return tuple(note for note, true in notes.items() if true)
