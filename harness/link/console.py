"""Tells console text from a frame that was damaged, when the text contains a frame's first byte."""

from __future__ import annotations

import codecs
from typing import Final

from harness.link.wire import SOH

_IN_TEXT: Final = frozenset((SOH, *b"\a\b\t\n\v\f\r\x1b"))
"""Control characters that programs print."""
_CONTROL: Final = bytes(c for c in (*range(32), 127) if c not in _IN_TEXT)


def is_text(data: bytes) -> bool:
    """Whether what began like a frame, and is none, is UTF-8 text that began with SOH.

    No frame of a device is taken for text with one bit inverted, with one byte lost, or cut off,
    unless all that is left of it is SOH. The type of an answer is no beginning of a character, and
    zeros, which every answer and note has in its first bytes, are sent as COBS codes: control
    characters.
    """
    if data.translate(None, _CONTROL) != data:
        return False
    try:
        # What ends within a character goes on behind a frame.
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True
