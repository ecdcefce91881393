"""Values that the shell completes: board names, unit ids, model names, check codes and pages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.errors import HarnessError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_boards(_: click.Context, __: click.Parameter, incomplete: str) -> Any:
    """Complete names of board types, and paths of board files."""
    from harness.config.board import board_names

    return _files(incomplete) + _matching(board_names(), incomplete)


def complete_units(context: click.Context, _: click.Parameter, incomplete: str) -> Any:
    """Complete ids of the lab's units, of the file that ``--units`` has named if it has."""
    from harness.config.unit import load_units

    file = context.params.get("units")
    try:
        units = load_units(file if isinstance(file, Path) else None)
    except (HarnessError, OSError):
        return []  # a shell has no place for an error message
    taken = context.params.get("names") or ()
    return _matching([unit.id for unit in units if unit.id not in taken], incomplete)


def complete_models(_: click.Context, __: click.Parameter, incomplete: str) -> Any:
    """Complete names of the models that come with the package, and paths of files."""
    from harness.files import packaged_models

    return _files(incomplete) + _matching(packaged_models(), incomplete)


def complete_pages(context: click.Context, _: click.Parameter, incomplete: str) -> Any:
    """Complete codes of checks, each with its title where the shell shows it, and other pages."""
    from click.shell_completion import CompletionItem

    from harness.documentation import page_names
    from harness.records.check_codes import CODES

    taken = context.params.get("names") or ()
    pages = _matching([name for name in page_names() if name not in taken], incomplete)
    return [
        CompletionItem(code.code, help=code.title)
        for code in CODES.values()
        if code.code.startswith(incomplete.upper()) and code.code not in taken
    ] + pages


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _files(incomplete: str) -> list[CompletionItem]:
    """Let the shell complete paths; it must come first, as bash drops what it got before."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
