"""Decodes JSON that others wrote."""

from __future__ import annotations

import json
import re
import threading
from functools import cache
from typing import Any, Final, TypeVar, overload

import msgspec

_T = TypeVar("_T")

DESCRIBING: Final = threading.RLock()
"""Held while msgspec uses a type that it may not know yet: 0.22 crashes when two threads do that
with the same type at the same time."""


_MOST_DIGITS: Final = 20
_DIGITS: Final = re.compile(rb"-\d{19}|\d{20}")
"""What an integer of more than 64 bits has; a digest or a fraction may have it, too."""


@overload
def decode_json(data: bytes | str, type_: type[_T]) -> _T: ...
@overload
def decode_json(data: bytes | str, type_: Any = Any, *, strict: bool = True) -> Any: ...
def decode_json(data: bytes | str, type_: Any = Any, *, strict: bool = True) -> Any:
    """Return the document as an instance of ``type_``, as ``msgspec.json.decode`` does.

    Raises:
        msgspec.DecodeError: It is not such JSON, is not UTF-8, its brackets are nested too deeply,
            or an integer needs more than 64 bits. msgspec accepts the last, which then fails where
            it is computed with, and raises errors for the others that nobody expects of a
            damaged file.
    """
    try:
        if _DIGITS.search(data if isinstance(data, bytes) else data.encode()):
            json.loads(data, parse_int=_checked)
        return _decoder(type_, strict).decode(data)
    except RecursionError as error:
        raise msgspec.DecodeError("brackets are nested too deeply") from error
    except (OverflowError, json.JSONDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from error
    except UnicodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error}") from error


def _checked(digits: str) -> None:
    if len(digits) > _MOST_DIGITS or not -(1 << 63) <= int(digits) < 1 << 64:
        raise OverflowError(f"the number {digits[:40]} needs more than 64 bits")


@cache
def _decoder(type_: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    with DESCRIBING:
        return msgspec.json.Decoder(type_, strict=strict)
