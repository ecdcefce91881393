"""The type of options and arguments that are paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from harness.files import absolute


class FilePath(click.Path):
    """A path, made absolute on entry: programs that get it may be started in another folder."""

    def __init__(self, **limits: Any) -> None:
        """Make it; ``limits`` are those of ``click.Path``."""
        super().__init__(path_type=Path, **limits)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        """Return the path from the root."""
        # An empty one is no folder: that would be the working folder then.
        if not os.fspath(value):
            self.fail("an empty path", param, ctx)
        return absolute(Path(os.fsdecode(super().convert(value, param, ctx))))


def absolute_name(_: click.Context | None, __: click.Parameter | None, name: Any) -> Any:
    """The same for names that may be a file's: a board, a port, a history; others stay."""
    if not isinstance(name, str) or "://" in name:
        return name
    return str(absolute(name)) if name.endswith(".toml") or "/" in name else name


def absolute_history(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    """The same for a history: a URL, or else the path of a file."""
    return url if not url or "://" in url else str(absolute(url))
