"""The ports of this desk, as the real module lists them on Windows."""

from __future__ import annotations

from types import SimpleNamespace


def comports() -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            device="COM3", vid=0x0483, pid=0x374E, serial_number="0024", location="1-4.3:x.2"
        )
    ]
