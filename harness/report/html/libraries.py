"""The libraries that a page is made with."""

from __future__ import annotations

from typing import Any

from harness.extras import require


def require_libraries() -> list[Any]:
    """Import Jinja2, MarkupSafe and markdown-it.

    Raises:
        UsageError: One of them is not installed.
    """
    return require("report", "an HTML report", "jinja2", "markupsafe", "markdown_it")
