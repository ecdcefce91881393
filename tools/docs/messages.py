"""Troubleshooting by message: every error that the code raises, with what to try."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness import errors
from harness.errors import EXIT_CODES, HarnessError
from harness.records.check_codes import CODES
from tools.docs.markdown import code, prose, table

CLASSES: dict[str, type[HarnessError]] = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, HarnessError)
}

TITLES = {
    2: "Usage and files",
    3: "Results that cannot be compared",
    4: "The board or the model",
    75: "Infrastructure: a retry is safe",
}
"""Pages by exit code."""

MIN_WORDS = 2
"""Words of a message's own, below which it is nothing to search for."""


class Message(NamedTuple):
    """A message: its text and what to try, with ``{names}`` for what the program inserts."""

    kind: str
    text: str
    hint: str


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a page of messages for each exit code, and one to start from."""
    found = sorted({*_messages(root / "harness")}, key=lambda item: item.text.lstrip("{").lower())
    for exit_code, title in TITLES.items():
        own = [item for item in found if CLASSES[item.kind].exit_code == exit_code]
        parts = [f"# {title}\n\n", _kinds(exit_code)]
        parts.append("Words in braces stand for what the program inserts.\n\n")
        rows = [[code(item.text), prose(item.hint)] for item in own]
        parts.append(table(["message", "what to try"], rows))
        yield f"messages/{exit_code}.md", "".join(parts)
    yield "messages/README.md", _index()


def _kinds(exit_code: int) -> str:
    """Return the classes with this exit code: what they mean and where to fix it."""
    rows = [
        [code(name), prose((found.__doc__ or "").partition("\n")[0]), found.owner.value]
        for name, found in CLASSES.items()
        if found.exit_code == exit_code
    ]
    return f"Exit code {exit_code}.\n\n" + table(["class in Python", "meaning", "owner"], rows)


def _index() -> str:
    rows = [
        [str(exit_code), f"[{title}]({exit_code}.md)"]
        for exit_code, title in {1: "", **TITLES}.items()
        if title
    ]
    checks = [
        [f"[{item.code}](../../docs/checks/{file.name})", prose(item.title)]
        for item in CODES.values()
        for file in sorted((Path(__file__).parents[2] / "docs/checks").glob(f"{item.code}-*.md"))
    ]
    return (
        "# Troubleshooting by message\n\n"
        "A command that fails prints `error:`, what failed and on what, and on the next line "
        "what to try. Search this site for words of the message, or go by the exit code "
        "(`echo $?`).\n\n"
        f"{EXIT_CODES}\n\n"
        + table(["exit code", "messages"], rows)
        + "## Failed checks\n\nThe lines `failed:`, `warning:` and `note:` begin with the code of "
        "a check. `etharness explain CODE` prints the same page.\n\n"
        + table(["code", "passes if"], checks)
    )


def _messages(package: Path) -> Iterator[Message]:
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            kind = getattr(node.exc.func, "id", "")
            if kind not in CLASSES or not node.exc.args:
                continue
            text = _template(node.exc.args[0])
            words = re.findall(r"[a-z]{2,}", re.sub(r"\{.*?\}", "", text))
            if len(words) < MIN_WORDS:
                continue  # another function's text
            hints = [_template(word.value) for word in node.exc.keywords if word.arg == "hint"]
            yield Message(kind, text, "".join(hints))


def _template(node: ast.expr) -> str:
    """Return a text as it stands in the code, with ``{name}`` for each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    if isinstance(node, ast.FormattedValue):
        return _template(node.value) if isinstance(node.value, ast.JoinedStr) else _name(node.value)
    return _name(node)


def _name(node: ast.expr) -> str:
    """Return a placeholder: the last name of an expression, which says most about it."""
    names = [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Name)
    ]
    return "{" + (names[0].strip("_") if names else "...") + "}"
