"""Libraries that only some of the package needs, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from harness.errors import UsageError


def require(extra: str, what: str, *modules: str) -> list[Any]:
    """Import ``modules`` of an extra.

    Args:
        extra: Its name in ``pip install 'etdump-harness[extra]'``.
        what: What needs them, to begin a sentence with.
        modules: What to import.

    Raises:
        UsageError: One of them is not installed.
    """
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError as error:
        raise UsageError(
            f"{what} needs a package that is not installed: {error}",
            hint=f"pip install 'etdump-harness[{extra}]'",
        ) from None
