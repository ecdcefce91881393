r"""Escapes names as valid UTF-8 for other tools' formats, and unescapes them.

A name may be any bytes of a device or file. In text formats, a backslash becomes ``\\``, and a
control character or an invalid UTF-8 byte becomes ``\xNN``. So no name breaks a line of a table,
and different names stay different.
"""

from __future__ import annotations

import re
from typing import Final

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4}))")


def escaped(name: str) -> str:
    """Return ``name`` as text for a file of another format."""
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), name)


def unescaped(text: str) -> str:
    """Return the name for escaped ``text``."""
    return _ESCAPE.sub(_character, text)


def _escape(code: int) -> str:
    if code == ord("\\"):
        return r"\\"
    if code < 0x80:
        return f"\\x{code:02x}"
    # surrogateescape keeps a byte in the low half of a surrogate.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code if code < 0x80 else code + 0xDC00)
    return chr(int(found[2], 16)) if found[2] else "\\"
