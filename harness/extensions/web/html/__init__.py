"""Reports as HTML files that load nothing: no network, no other file."""

from __future__ import annotations

from typing import Final

from harness.extensions.web.html.page import (
    comparison_report,
    html_report,
    require_libraries,
    values_report,
)
from harness.report.formats import HtmlPages

__all__ = ["HTML", "html_report", "require_libraries"]


class _Html:
    __call__ = staticmethod(html_report)
    require_libraries = staticmethod(require_libraries)
    comparison = staticmethod(comparison_report)
    values = staticmethod(values_report)


HTML: Final[HtmlPages] = _Html()
"""The plugin for reports with the suffix ``.html``."""
