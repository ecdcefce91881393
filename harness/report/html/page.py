"""The page: templates filled with descriptions of runs, and a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from harness import __version__
from harness.records.nightly import NightDocument
from harness.report.description import describe
from harness.report.html.environment import environment, source
from harness.report.html.explanations import explanations
from harness.report.html.night import night_view
from harness.report.html.run import RunView, run_view
from harness.report.limits import Limits
from harness.report.night_tables import headline
from harness.report.overview import describe_overview
from harness.runs.judged_run import JudgedRun


def html_report(runs: Sequence[JudgedRun], night: NightDocument | None = None) -> bytes:
    """Return a page about ``runs``; the same bytes for the same runs.

    Args:
        runs: At least one, or none if there is a nightly run.
        night: The nightly run that they are of, for a page about it.

    Raises:
        UsageError: A library is not installed.
    """
    templates = environment()
    limits = Limits.of(len(runs))
    views = [run_view(describe(run), index, limits) for index, run in enumerate(runs)]
    overview = describe_overview([view.run for view in views])
    style, script = source("style.css"), source("script.js")
    page = templates.get_template("page.html.j2").render(
        title=_title(views, overview.headline) if night is None else headline(night),
        night=night and night_view(night),
        runs=views,
        overview=overview if len(views) > 1 or night else None,
        codes=explanations(code for view in views for code in view.codes),
        style=style,
        script=script,
        policy=_policy(style, script),
        version=__version__,
    )
    return page.encode()


def _title(runs: Sequence[RunView], headline: str) -> str:
    if len(runs) > 1:
        return headline
    (view,) = runs
    return f"{'PASS' if view.run.verdict.outcome == 'pass' else 'FAIL'}: {view.title}"


def _policy(style: str, script: str) -> str:
    """A Content-Security-Policy: the page loads nothing, and only its own script runs."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
