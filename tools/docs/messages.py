"""Troubleshooting by message: every error that the code raises, with what to try."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness import CODES, HarnessError, errors
from harness.errors import EXIT_CODES
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
    rows = [[str(exit_code), f"[{title}]({exit_code}.md)"] for exit_code, title in TITLES.items()]
    checks = [
        [f"[{item.code}](../../docs/checks/{file.name})", prose(item.title)]
        for item in CODES.values()
        for file in sorted((Path(__file__).parents[2] / "docs/checks").glob(f"{item.code}-*.md"))
    ]
    return (
        "# Messages by exit code\n\n"
        "A command that fails prints `error:`, what failed and on what, and on the next line "
        "what to try. Search this site for words of the message, or go by the exit code "
        "(`echo $?`). Texts that the device or another program sends are not listed.\n\n"
        f"{EXIT_CODES}\n\n"
        + table(["exit code", "messages"], rows)
        + "## Failed checks\n\nThe lines `failed:`, `warning:` and `note:` begin with the code of "
        "a check. `etharness explain CODE` prints the same page.\n\n"
        + table(["code", "passes if"], checks)
    )


def _messages(package: Path) -> Iterator[Message]:
    for file in sorted(package.rglob("*.py")):
        module = ast.parse(file.read_text())
        constants = dict(_constants(module))
        for node in ast.walk(module):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            kind = getattr(node.exc.func, "id", "")
            if kind not in CLASSES or not node.exc.args:
                continue
            text = _template(node.exc.args[0], constants)
            words = re.findall(r"[a-z]{2,}", re.sub(r"\{.*?\}", "", text))
            if len(words) < MIN_WORDS:
                continue  # another function's text
            hints = [word.value for word in node.exc.keywords if word.arg == "hint"]
            hint = _template(hints[0], constants) if hints else ""
            # A hint that another function makes is not known here.
            yield Message(kind, text, "" if re.fullmatch(r"\{\w+\}", hint) else hint)


def _constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield names and values of texts that a module defines."""
    for node in module.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        target = node.target if isinstance(node, ast.AnnAssign) else target
        value = getattr(node, "value", None)
        text = value.value if isinstance(value, ast.Constant) else None
        if isinstance(target, ast.Name) and isinstance(text, str):
            yield target.id, text


def _template(node: ast.expr, constants: Mapping[str, str]) -> str:
    """Return a text as it stands in the code, with ``{name}`` for each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part, constants) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left, constants) + _template(node.right, constants)
    if isinstance(node, ast.FormattedValue):
        return _template(node.value, constants)
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    return "{" + (_name(node) or "...") + "}"


def _name(node: ast.AST) -> str:
    """Return the name of a value: of a call that of its argument, as in ``display_path(file)``."""
    if isinstance(node, ast.Call):
        own = _name(node.args[0]) if node.args else ""
        return own or _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    names = (_name(child) for child in ast.iter_child_nodes(node))
    return next((name for name in names if name), "")
