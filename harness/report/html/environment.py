"""Jinja templates of a page: whatever they show is escaped and printable."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness.extras import require
from harness.formatting import printable
from harness.report.html import svg
from harness.report.html.first_screen import beyond_limit
from harness.report.html.series import trend_line
from harness.report.operators import several_blocks
from harness.report.roofline import ROOFLINE_HEADERS
from harness.report.summaries import STATES, URGENCY, word_of
from harness.report.text import LONGEST_SENTENCE, brief, counted, left_out, number
from harness.report.tracked import LATEST

if TYPE_CHECKING:
    from jinja2 import Environment

_LONGEST_LINE: Final = 500
"""Characters of a line of the console."""


def require_libraries() -> list[Any]:
    """Import Jinja2, MarkupSafe and markdown-it.

    Raises:
        UsageError: One of them is not installed.
    """
    return require("report", "an HTML report", "jinja2", "markupsafe", "markdown_it")


@cache
def environment() -> Environment:
    """Return the environment of the templates.

    Raises:
        UsageError: A library is not installed.
    """
    jinja2, *_ = require_libraries()
    found: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report.html"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
    )
    found.filters["beyond_limit"] = beyond_limit
    found.filters["brief"] = brief
    found.filters["lines"] = _lines
    found.filters["number"] = number
    found.filters["sentence"] = lambda text: brief(text, LONGEST_SENTENCE)
    found.globals["counted"] = counted
    found.globals["left_out"] = left_out
    found.globals["ROOFLINE_HEADERS"] = ROOFLINE_HEADERS
    found.globals["svg"] = svg
    found.globals["several_blocks"] = several_blocks
    found.globals["STATES"] = STATES
    found.globals["URGENCY"] = URGENCY
    found.globals["word_of"] = word_of
    found.globals["LATEST"] = LATEST
    found.globals["trend_line"] = trend_line
    return found


def source(name: str) -> str:
    """A file beside the templates, as the content of an element."""
    from markupsafe import Markup

    loader = environment().loader
    assert loader is not None
    return Markup(loader.get_source(environment(), name)[0])


def _finalize(value: Any) -> Any:
    """Names may hold control characters and lone surrogates."""
    return printable(value) if type(value) is str else value


def _lines(lines: tuple[str, ...]) -> Any:
    """Lines of text, escaped."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(brief(line, _LONGEST_LINE)) for line in lines)
