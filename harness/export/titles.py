"""What slices of a timeline are called: operator and instruction, or delegate and its event.

The exact name of the event stands in the slice's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.analyze.symbols import EventSymbols
from harness.decode.program import Call, Method
from harness.export.event_times import Ints
from harness.export.values import escaped
from harness.formatting import operator_title
from harness.records.operator_names import OperatorKind, operator_kind
from harness.records.trace import DELEGATE_CALL, OPERATOR_CALL, Kind, Trace


@dataclass(frozen=True, slots=True)
class SliceTitle:
    """Display name and kind of a slice.

    Attributes:
        text: Display name.
        kind: Kind of work.
    """

    text: str
    kind: OperatorKind


def slice_titles(
    trace: Trace,
    rows: Ints,
    of_delegate: Ints,
    method: Method | None,
    symbols: Sequence[EventSymbols | None] | None,
) -> list[SliceTitle]:
    """Return the title of each row; events of one name and instruction share one.

    Args:
        trace: The trace.
        rows: Rows of the trace, shape (n,).
        of_delegate: 1 for rows that are events of a delegate, else 0, shape (n,).
        method: The executed method, for names of backends; None if unknown.
        symbols: Symbols of every event of the trace, likewise.
    """
    columns = (
        trace.kind[rows],
        trace.chain[rows],
        trace.instruction[rows],
        trace.name[rows],
        trace.delegate_int[rows],
        trace.delegate_str[rows],
        of_delegate,
    )
    keys = zip(*(column.tolist() for column in columns), strict=True)
    known: dict[tuple[int, ...], SliceTitle] = {}
    found = []
    for row, key in zip(rows.tolist(), keys, strict=True):
        if key not in known:
            backend = _backend(trace, row, method, symbols)
            known[key] = _title(trace, row, bool(key[-1]), backend)
        found.append(known[key])
    return found


def label(trace: Trace, row: int) -> str:
    """Return the exact name of an event, else its delegate id, else its kind."""
    text = _own_name(trace, row)
    if text:
        return escaped(text)
    if trace.delegate_int[row] != -1:
        return f"[{trace.delegate_int[row]}]"
    return "value" if trace.kind[row] == Kind.DEBUG else "unnamed"


def _own_name(trace: Trace, row: int) -> str:
    name = trace.text(int(trace.name[row])) or trace.text(int(trace.delegate_str[row]))
    return name or ""


def _backend(
    trace: Trace, row: int, method: Method | None, symbols: Sequence[EventSymbols | None] | None
) -> str:
    """Return the name of the backend that the event's instruction calls, "" if unknown."""
    if symbols is not None and (known := symbols[row]) is not None and known.backend:
        return escaped(known.backend)
    place = int(trace.chain[row]), int(trace.instruction[row])
    called = method.instruction(*place) if method else None
    return escaped(called.name) if called is not None and called.call is Call.DELEGATE else ""


def _title(trace: Trace, row: int, of_delegate: bool, backend: str) -> SliceTitle:
    name = _own_name(trace, row)
    kind = operator_kind(name, of_delegate)
    if of_delegate:
        own = label(trace, row)
        if backend:
            return SliceTitle(f"{backend}: {own}", kind)
        return SliceTitle(own if name else f"delegate: {own}", kind)
    # The operator in an OPERATOR_CALL has the instruction; once is enough.
    scope = trace.chain[row] == -1 or name == OPERATOR_CALL
    instruction = None if scope else int(trace.instruction[row])
    shown = backend if name == DELEGATE_CALL and backend else name or label(trace, row)
    return SliceTitle(operator_title(shown, instruction), kind)
