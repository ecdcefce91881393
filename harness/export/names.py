r"""Names in other people's formats: text that is always valid UTF-8, and the name again.

A name is whatever bytes a device or a file held. Where a format wants text, a backslash becomes
``\\``, and a control character or a byte that is no UTF-8 becomes ``\xNN``. So no name can break a
line of a table, and every name can be told from every other.
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
    """Return the name of which ``escaped`` made ``text``."""
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
