"""Explanations of checks, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.records.check_codes import Code, Severity
from harness.records.result import encode
from harness.report.terminal import show_table

if TYPE_CHECKING:
    from rich.console import Console


class CodeDocument(msgspec.Struct, frozen=True):
    """A kind of check; ``page`` is Markdown, null in the list of all."""

    code: str
    title: str
    severity: Severity
    page: str | None


def explain_document(found: Sequence[tuple[Code, str | None]]) -> bytes:
    """Return codes with their pages as JSON."""
    pages = [CodeDocument(code.code, code.title, code.severity, page) for code, page in found]
    return encode(pages)


def print_codes(console: Console, codes: Iterable[Code]) -> None:
    """Print a line for each code."""
    rows = [[code.code, code.severity, code.title] for code in codes]
    show_table(console, ["code", "severity", "what holds"], rows)


def print_pages(console: Console, pages: Sequence[str]) -> None:
    """Print pages: rendered on a terminal, as Markdown in a pipe."""
    if not console.is_terminal:
        console.print("\n".join(pages), markup=False, highlight=False, soft_wrap=True, end="")
        return
    from rich.markdown import Markdown

    for page in pages:
        console.print(Markdown(page))
