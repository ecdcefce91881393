"""Where files are: data beside the package or, in a wheel, inside it; what the user's cache has."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"


def data_directory(name: str) -> Path:
    """Return the directory ``name`` (``boards``, ``schema`` or ``firmware_stub``).

    A wheel carries copies under ``harness/_data``; a checkout has them at its top level.
    """
    packaged = _DATA / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def user_cache(name: str) -> Path:
    """Return the directory ``name`` of what this package keeps for its user, which may not exist.

    It stands below ``$XDG_CACHE_HOME``, or else ``~/.cache``.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "etdump-harness" / name
