"""Libraries that only some formats need."""

from __future__ import annotations

import importlib
from typing import Any

from harness.errors import UsageError


def require(*modules: str) -> list[Any]:
    """Import ``modules`` of the extra ``export``.

    Raises:
        UsageError: One of them is not installed.
    """
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError as error:
        raise UsageError(
            f"this format needs a package that is not installed: {error}",
            hint="pip install 'etdump-harness[export]'",
        ) from None
