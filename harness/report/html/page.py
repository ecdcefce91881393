"""The page: templates filled with what is shown of every run, and a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.formatting import printable
from harness.records.nightly import NightDocument
from harness.report.html.explanations import explanations
from harness.report.html.formatting import Limits, number
from harness.report.html.icicle import COLOURS
from harness.report.html.libraries import require_libraries
from harness.report.html.night import night_view
from harness.report.html.overview import overview
from harness.report.html.run import RunView, run_view
from harness.report.night_tables import headline
from harness.runs.judged_run import JudgedRun

if TYPE_CHECKING:
    from jinja2 import Environment


def html_report(runs: Sequence[JudgedRun], night: NightDocument | None = None) -> bytes:
    """Return a page about ``runs``, one at least; the same bytes for the same runs.

    Args:
        runs: What it is about; may be empty if there is a night.
        night: The night that they are of, if it is about that.

    Raises:
        UsageError: A library that makes it is not installed.
    """
    environment = _environment()
    limits = Limits.of(len(runs))
    views = [run_view(run, index, limits) for index, run in enumerate(runs)]
    style, script = (_source(environment, name) for name in ("style.css", "script.js"))
    page = environment.get_template("page.html.j2").render(
        title=_title(views) if night is None else headline(night),
        night=night and night_view(night),
        runs=views,
        overview=overview(views) if len(views) > 1 or night else None,
        codes=explanations(check.code for view in views for check in (*view.why, *view.checks)),
        style=style,
        script=script,
        policy=_policy(style, script),
        version=__version__,
    )
    return page.encode()


def _title(runs: Sequence[RunView]) -> str:
    failed = sum(run.outcome != "pass" for run in runs)
    if len(runs) == 1:
        return f"{'FAIL' if failed else 'PASS'}: {runs[0].title}"
    return f"{'FAIL' if failed else 'PASS'}: {len(runs) - failed:,} of {len(runs):,} runs passed"


def _policy(style: str, script: str) -> str:
    """What a browser may load for the page: nothing; only this style and script may act."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _source(environment: Environment, name: str) -> str:
    """A file beside the templates, as a part of an element between whose tags it stands."""
    from markupsafe import Markup

    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


@cache
def _environment() -> Environment:
    """Templates that escape whatever they are given, and show nothing that does not print."""
    jinja2, *_ = require_libraries()
    environment: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report.html"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
    )
    environment.filters["number"] = number
    environment.filters["lines"] = _lines
    environment.globals["COLOURS"] = COLOURS
    return environment


def _finalize(value: Any) -> Any:
    """Whatever a template shows: names may hold control characters and halves of characters."""
    return printable(value) if type(value) is str else value


def _lines(text: str) -> Any:
    """Text of several lines, escaped."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(printable(line)) for line in text.split("\n"))
