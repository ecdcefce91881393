"""Pages of the command line, from its own help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import click

from harness.cli import cli, sections
from harness.cli.command import panels
from harness.errors import EXIT_CODES
from tools.docs.markdown import anchor, code, prose, table

NO_REWRAP = "\b"
"""How click marks a paragraph whose lines stay as they are."""


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page of each section of ``etharness --help``, and their index."""
    index = ["# Command line\n\n", f"{EXIT_CODES}\n\n"]
    for title, section in sections().items():
        file = f"{anchor(title)}.md"
        rows = [
            [f"[`etharness {name}`]({file}#{anchor(f'etharness {name}')})", prose(text)]
            for name, text in section.items()
        ]
        index += [f"## {title}\n\n", table(["command", "effect"], rows)]
        found = (_command(("etharness", name), root) for name in section)
        yield f"commands/{file}", f"# {title}\n\n{''.join(found)}"
    yield "commands/README.md", "".join(index)


def _command(names: tuple[str, ...], root: Path) -> str:
    group: click.Command = cli
    context = click.Context(cli, info_name="etharness")
    for name in names[1:]:
        assert isinstance(group, click.Group)
        command = group.get_command(context, name)
        assert command is not None, f"{names} is listed, but there is no such command"
        context = click.Context(command, info_name=name, parent=context)
        group = command
    usage = " ".join([*names, *group.collect_usage_pieces(context)])
    parts = [f"## {' '.join(names)}\n\n", f"```text\n{usage}\n```\n\n"]
    parts += [_text(group.help or "", root), _text(group.epilog or "", root)]
    for title, options in panels(group, context).items():
        records = [record for option in options if (record := option.get_help_record(context))]
        rows = [[code(option), _linked(prose(text), root)] for option, text in records]
        parts.append(f"**{title}**\n\n{table(['option', 'effect'], rows)}")
    if isinstance(group, click.Group):
        parts += [_command((*names, name), root) for name in group.list_commands(context)]
    return "".join(parts)


def _text(text: str, root: Path) -> str:
    """Return paragraphs of help; those that keep their lines become blocks of code."""
    parts = []
    for paragraph in dedent(text).strip("\n").split("\n\n"):
        if paragraph.startswith(NO_REWRAP):
            title, _, body = paragraph.removeprefix(NO_REWRAP).strip("\n").partition("\n")
            parts.append(f"{title}\n\n```text\n{dedent(body)}\n```\n\n")
        elif paragraph.strip():
            parts.append(f"{_linked(prose(paragraph), root)}\n\n")
    return "".join(parts)


def _linked(text: str, root: Path) -> str:
    """Return text whose mentions of pages and of commands are links."""

    def page(match: re.Match[str]) -> str:
        name = match[1].replace("\\", "")
        known = (root / "docs" / f"{name}.md").is_file()
        return f"[{match[0]}](../../docs/{name}.md)" if known else match[0]

    text = re.sub(r"docs/([\w/\\-]+)\.md", page, text)
    return re.sub(r"`etharness explain ([\w/-]+)`", page, text)


def section_of(name: str) -> str:
    """Return the page of a command with its anchor, from another page of ``reference/``."""
    [title] = [title for title, section in sections().items() if name in section]
    return f"commands/{anchor(title)}.md#{anchor(f'etharness {name}')}"
