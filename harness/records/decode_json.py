"""Decodes JSON that others wrote."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")


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
        return msgspec.json.decode(data, type=type_, strict=strict)
    except RecursionError as error:
        raise msgspec.DecodeError("brackets are nested too deeply") from error
