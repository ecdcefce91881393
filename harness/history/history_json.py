"""Encodes a History as JSON and decodes it.

Names come from devices and may be any bytes; JSON takes only text, so they are escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from harness.check.history.samples import History
from harness.errors import FormatError
from harness.export.values import escaped, unescaped
from harness.records.decode_json import decode_json

_S = TypeVar("_S", bound=msgspec.Struct)


def encode_history(history: History) -> bytes:
    """Return the JSON of ``history``, without indentation: it is mostly numbers."""
    return msgspec.json.encode(_with_names(history, escaped)) + b"\n"


def decode_history(data: bytes, where: str) -> History:
    """Decode the JSON of ``encode_history``.

    Raises:
        FormatError: It is not such JSON; the message names ``where``.
    """
    try:
        return _with_names(decode_json(data, type_=History), unescaped)
    except msgspec.DecodeError as error:
        raise FormatError(f"{where}: not a history of this version: {error}") from error


def _with_names(history: History, change: Callable[[str], str]) -> History:
    return msgspec.structs.replace(
        history,
        results=tuple(_with_texts(result, change) for result in history.results),
        series=tuple(
            msgspec.structs.replace(series, metric=_with_texts(series.metric, change))
            for series in history.series
        ),
        description=change(history.description),
        decisions=tuple(
            msgspec.structs.replace(
                _with_texts(decision, change), metric=_with_texts(decision.metric, change)
            )
            for decision in history.decisions
        ),
        notes=tuple(map(change, history.notes)),
    )


def _with_texts(item: _S, change: Callable[[str], str]) -> _S:
    texts = {
        name: change(value)
        for name, value in msgspec.structs.asdict(item).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(item, **texts)
