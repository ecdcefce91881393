"""Explanations of check codes, from the pages of the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.check.pages import explain
from harness.errors import UsageError
from harness.records.check_codes import CODES
from harness.report.html.environment import require_libraries

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
        _, text = explain(code)
    except UsageError:  # no such page
        return ""
    renderer = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = renderer.parse(text)
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
