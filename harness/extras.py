"""Checks what a feature needs: optional dependencies, and an operating system."""

from __future__ import annotations

import importlib
import platform
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


def require_linux(feature: str, hint: str) -> None:
    """Do nothing on Linux.

    Args:
        feature: The feature that needs it; begins the error message.
        hint: What to use instead.

    Raises:
        UsageError: This is another operating system.
    """
    system = platform.system()
    if system != "Linux":
        raise UsageError(f"{feature} needs Linux, and this is {system or 'unknown'}", hint=hint)
