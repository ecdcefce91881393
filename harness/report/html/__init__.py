"""A report as one HTML file that needs nothing else: no network, no other file, no script."""

from __future__ import annotations

from harness.report.html.libraries import require_libraries
from harness.report.html.page import html_report

__all__ = ["html_report", "require_libraries"]
