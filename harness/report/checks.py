"""Budgets and explanations of checks, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.check.budget import Budget
from harness.documentation import DocumentationPage
from harness.records.result import encode
from harness.records.verdict import Code, Severity
from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console


_WIDEST: Final = 60
"""Characters of a value that a table shows."""


class BudgetField(msgspec.Struct, frozen=True):
    """What ``etharness budget --json`` prints of each field.

    Attributes:
        rule: The kind of rule, with its number from 1 where there may be several.
        field: The field.
        value: Its value.
        source: File and line.
    """

    rule: str
    field: str
    value: Any
    source: str


def budget_fields(budget: Budget) -> Iterator[BudgetField]:
    """Return every field that a file sets, in the order of the rules."""
    data = msgspec.to_builtins(budget)
    for keys, source in budget.lines.items():
        kind, *rest = keys
        if not rest or (len(rest) == 1 and isinstance(rest[0], int)):
            continue  # a table as a whole
        value = data
        for key in keys:
            value = value[key]
        rule = f"{kind} {int(rest[0]) + 1}" if isinstance(rest[0], int) else str(kind)
        yield BudgetField(rule, str(rest[-1]), value, source)


def budget_document(budget: Budget) -> bytes:
    """Return all fields as JSON."""
    return encode(list(budget_fields(budget)))


def print_budget(console: Console, budget: Budget) -> None:
    """Print all fields and their files."""
    shown, rows = "", []
    for item in budget_fields(budget):
        rule, shown = ("" if item.rule == shown else item.rule), item.rule
        value = str(item.value)
        cut = value if len(value) <= _WIDEST else f"{value[:_WIDEST]}..."
        rows.append([rule, item.field, cut, item.source])
    show_table(console, ["rule", "field", "value", "from"], rows)
    show_line(console, f"read, the last one wins: {', '.join(budget.files)}")


class CodeDocument(msgspec.Struct, frozen=True):
    """A check code or another page of the documentation.

    Attributes:
        code: The code, such as B01, or the name of the page, such as ``lab``.
        title: What holds if the check passes, or the heading of the page.
        severity: Severity of a failed check; null for a page that is about none.
        page: The page as Markdown; null in the list of all.
        url: Its address on the site that $ETHARNESS_DOCS_URL names; null without one.
    """

    code: str
    title: str
    severity: Severity | None
    page: str | None
    url: str | None


def explain_document(
    found: Iterable[tuple[Code | None, DocumentationPage]], *, with_text: bool
) -> bytes:
    """Return codes and pages as JSON."""
    return encode(
        [
            CodeDocument(
                page.name,
                page.title,
                code.severity if code else None,
                page.text if with_text else None,
                page.url,
            )
            for code, page in found
        ]
    )


def print_codes(console: Console, codes: Iterable[Code]) -> None:
    """Print a line for each code."""
    rows = [[code.code, code.severity, code.title] for code in codes]
    show_table(console, ["code", "severity", "what holds"], rows)


def print_pages(console: Console, pages: Sequence[DocumentationPage]) -> None:
    """Print pages: rendered on a terminal, as Markdown in a pipe."""
    texts = [f"{page.text}\n<{page.url}>\n" if page.url else page.text for page in pages]
    if not console.is_terminal:
        console.print("\n".join(texts), markup=False, highlight=False, soft_wrap=True, end="")
        return
    from rich.markdown import Markdown

    for text in texts:
        console.print(Markdown(text))
