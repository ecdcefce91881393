"""Pieces of Markdown that generated pages are made of."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

FILE_NAME = re.compile(r"^(```\w+) file=(\S+)$", re.MULTILINE)
"""How a block names its file: tests write it there, and the site shows it as a title."""


ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
"""A row of a table."""

SPAN = re.compile(r"`[^`]+`")
"""Code within a line."""


MENTION = re.compile(r"(?<!\[)`((?:docs|examples|schema)/[\w./-]+)`")
"""A file of the repository, named in a sentence."""


def for_site(text: str, page: Path, files: Collection[Path]) -> str:
    """Return a page of the repository as the site's generator expects it.

    Args:
        text: The page.
        page: Its path in the repository.
        files: Paths of all files of the site; where a sentence names one, it becomes a link.
    """

    def link(match: re.Match[str]) -> str:
        file = Path(match[1])
        address = Path(os.path.relpath(file, page.parent)).as_posix()
        return f"[{match[0]}]({address})" if file in files and file != page else match[0]

    text = FILE_NAME.sub(r'\1 title="\2"', text)
    # Forges end a cell at every bar without a backslash; Python-Markdown at none within code.
    text = ROW.sub(lambda row: SPAN.sub(lambda span: span[0].replace(r"\|", "|"), row[0]), text)
    # Code stands between fences, or is indented.
    parts = re.split(r"(^```.*?^```$|^    [^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if number % 2 else MENTION.sub(link, part) for number, part in enumerate(parts)
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are Markdown on one line each."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def code(text: str) -> str:
    """Return text as code on one line, which a table can hold."""
    ticks = "``" if "`" in text else "`"
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{space}{' '.join(text.split())}{space}{ticks}"


def prose(text: str) -> str:
    """Return text whose only Markdown is code, on one line: other signs stand for themselves."""
    pieces = []
    end = 0
    line = " ".join(text.split())
    for span in SPAN.finditer(line):
        pieces += [_escaped(line[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*pieces, _escaped(line[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_|\[\]#])", r"\\\1", text).replace("<", "&lt;")


def anchor(text: str) -> str:
    """Return the anchor that the site gives to a heading of plain words."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())
