"""Recognizes bytes behind a trace that only fill the rest of its file."""

from __future__ import annotations

from typing import Final

from harness.files import Content

_FILLERS: Final = (0x00, 0xFF, 0x1A)
"""The rest of a buffer, erased flash memory, and the last block of an XMODEM transfer."""


def is_padding(data: Content, begin: int = 0) -> bool:
    """Return whether the bytes from ``begin`` on only fill the file; True for none."""
    if begin >= len(data):
        return True
    if data[begin] not in _FILLERS:  # without a copy of the rest, for each of many images
        return False
    return not data[begin:].strip(data[begin : begin + 1])
