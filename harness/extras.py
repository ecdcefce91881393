"""Imports of optional dependencies, with an error that names the extra to install."""

from __future__ import annotations

import importlib
from typing import Any

from harness.errors import UsageError


def require(extra: str, feature: str, *modules: str) -> list[Any]:
    """Import and return ``modules`` of an extra.

    Args:
        extra: Name of the extra, as in ``pip install 'etdump-harness[extra]'``.
        feature: The feature that needs them; begins the error message.
        modules: Module names.

    Raises:
        UsageError: A module is not installed.
    """
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError as error:
        raise UsageError(
            f"{feature} needs a package that is not installed: {error}",
            hint=f"pip install 'etdump-harness[{extra}]'",
        ) from None
