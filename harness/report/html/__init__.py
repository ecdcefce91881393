"""A report as one HTML file that loads nothing: no network, no other file, no script."""

from __future__ import annotations

from harness.report.html.environment import require_libraries
from harness.report.html.page import html_report

__all__ = ["html_report", "require_libraries"]
