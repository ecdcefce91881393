"""A History as JSON and back, whatever its names hold.

Names are any bytes that a device had, of which JSON takes only text: they are escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from harness.check.history.samples import History
from harness.errors import FormatError
from harness.export.names import escaped, unescaped

_S = TypeVar("_S", bound=msgspec.Struct)


def write_copy(history: History) -> bytes:
    """Return the JSON of ``history``."""
    # Nobody reads so many numbers: indenting them would only take room.
    return msgspec.json.encode(_with_names(history, escaped)) + b"\n"


def read_copy(data: bytes, where: str) -> History:
    """Read what ``write_copy`` wrote.

    Raises:
        FormatError: It is something else; the message names ``where``.
    """
    try:
        return _with_names(msgspec.json.decode(data, type=History), unescaped)
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
    )


def _with_texts(item: _S, change: Callable[[str], str]) -> _S:
    texts = {
        name: change(value)
        for name, value in msgspec.structs.asdict(item).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(item, **texts)
