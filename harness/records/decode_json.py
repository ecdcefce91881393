"""Decodes JSON that others wrote."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Final, TypeVar, overload

import msgspec

_T = TypeVar("_T")

DESCRIBING: Final = threading.RLock()
"""Held while msgspec uses a type that it may not know yet: 0.22 crashes when two threads do that
with the same type at the same time."""


@overload
def decode_json(data: bytes | str, type_: type[_T]) -> _T: ...
@overload
def decode_json(data: bytes | str, type_: Any = Any, *, strict: bool = True) -> Any: ...
def decode_json(data: bytes | str, type_: Any = Any, *, strict: bool = True) -> Any:
    """Return the document as an instance of ``type_``, as ``msgspec.json.decode`` does.

    Raises:
        msgspec.DecodeError: It is not such JSON, or its brackets are nested too deeply: of these,
            msgspec raises a RecursionError, which nobody expects of a damaged file.
    """
    try:
        return _decoder(type_, strict).decode(data)
    except RecursionError as error:
        raise msgspec.DecodeError("brackets are nested too deeply") from error


def _decoder(type_: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    with DESCRIBING:
        return _made(type_, strict)


@cache
def _made(type_: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, strict=strict)
