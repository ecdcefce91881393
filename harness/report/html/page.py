"""The page: templates filled with descriptions of runs, and a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.check.pages import explain
from harness.errors import UsageError
from harness.records.check_codes import CODES
from harness.records.nightly import NightDocument
from harness.report.description import describe
from harness.report.html.environment import environment, require_libraries, source
from harness.report.html.night import night_view
from harness.report.html.run import RunView, run_view
from harness.report.nightly import headline
from harness.report.overview import describe_overview
from harness.report.text import Limits
from harness.runs.evaluation import EvaluatedRun

if TYPE_CHECKING:
    from markupsafe import Markup


_DEEPER = 1
"""Levels that the headings of a page are moved down."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code, its title, its default severity and its page as HTML; empty where unknown."""

    code: str
    title: str
    severity: str
    page: Markup | str


def explanations(codes: Iterable[str]) -> list[Explanation]:
    """Explain each of ``codes`` once, in order."""
    return [_explanation(code) for code in sorted(set(codes))]


def _explanation(code: str) -> Explanation:
    known = CODES.get(code)
    if known is None:
        return Explanation(code, "", "", "")
    return Explanation(code, known.title, known.severity, _page(code))


@cache
def _page(code: str) -> Markup | str:
    """The page of a code without its title and without links, which would leave the report."""
    _, markupsafe, markdown_it = require_libraries()
    try:
        _, explained = explain(code)
    except UsageError:  # no such page
        return ""
    renderer = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = renderer.parse(explained.text)
    if tokens and tokens[0].type == "heading_open":
        del tokens[:3]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + _DEEPER, 6)}"
        if token.children:
            token.children = [child for child in token.children if not _leads_out(child)]
    page: Markup = markupsafe.Markup(renderer.renderer.render(tokens, renderer.options, {}))
    return page


def _leads_out(token: Any) -> bool:
    return token.type in ("link_open", "link_close", "image")


def html_report(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
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
    anchors = [view.anchor for view in views]
    overview = describe_overview([view.run for view in views], anchors)
    title = _title(views, overview.headline) if night is None else headline(night)
    page = templates.get_template("page.html.j2").render(
        night=night and night_view(night, views, overview.summaries),
        runs=views,
        overview=overview if len(views) > 1 or night else None,
        codes=explanations(code for view in views for code in view.codes),
        **page_frame(title, *_styles(views)),
    )
    return page.encode()


def _styles(views: Sequence[RunView]) -> Iterator[str]:
    """Yield the further styles that the content of these runs needs."""
    if any(view.run.counters for view in views):
        yield "counters.css"


def page_frame(title: str, *styles: str) -> dict[str, str]:
    """Return what every page needs besides its content; ``styles`` are added to the common one."""
    style = source("style.css")
    for name in styles:
        style += source(name)
    script = source("script.js")
    policy = _policy(style, script)
    return {
        "title": title,
        "style": style,
        "script": script,
        "policy": policy,
        "version": __version__,
    }


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
