"""Where the data files are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"


def data_directory(name: str) -> Path:
    """Return the directory ``name`` (``boards``, ``schema`` or ``firmware_stub``).

    A wheel carries copies under ``harness/_data``; a checkout has them at its top level.
    """
    packaged = _DATA / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name
