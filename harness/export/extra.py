"""Libraries that only some formats need."""

from __future__ import annotations

from typing import Any

from harness import extras


def require(*modules: str) -> list[Any]:
    """Import ``modules`` of the extra ``export``.

    Raises:
        UsageError: One of them is not installed.
    """
    return extras.require("export", "this format", *modules)
