"""What subcommands of ``etharness history`` share: which history, and which results of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.common import with_options
from harness.cli.paths import absolute_history

if TYPE_CHECKING:
    from harness.history.store import Store

_F = TypeVar("_F", bound=Callable[..., Any])


def history_option(function: _F) -> _F:
    """Add ``--history``, passed as the text ``url``, or None for the default place."""
    return click.option(
        "--history",
        "url",
        callback=absolute_history,
        metavar="URL",
        help="SQLite file or postgresql:// URL.  [default: $ETHARNESS_HISTORY, or "
        ".etharness/history.sqlite near the project]",
    )(function)


def opened(url: str | None, *, create: bool = False) -> Store:
    """Open the history that was asked for; it is only made where something is added to it."""
    from harness.history import default_history, open_store

    return open_store(url or default_history(), create=create)


def selection_options(function: _F) -> _F:
    """Add options that choose results, and pass them as a ``Selection`` called ``selection``."""

    def collect(
        *args: Any,
        board: str | None,
        unit: str | None,
        model: str | None,
        method: str | None,
        session: str | None,
        commit: str | None,
        since: str | None,
        before: str | None,
        verdict: str | None,
        newest: int | None,
        **kwargs: Any,
    ) -> Any:
        from harness.history.entries import Selection

        passed = None if verdict is None else verdict == "pass"
        selection = Selection(
            *(board, unit, model, method, session, commit),
            since=since,
            before=before,
            passed=passed,
            newest=newest,
        )
        return function(*args, selection=selection, **kwargs)

    return with_options(
        function,
        collect,
        click.option("--last", "newest", type=click.IntRange(1), help="Only so many, the newest."),
        click.option("--verdict", type=click.Choice(["pass", "fail"]), help="By their verdict."),
        click.option("--before", metavar="TIME", help="That began before: 2026-11-21T23:00."),
        click.option("--since", metavar="TIME", help="That began then or later."),
        click.option("--commit", metavar="PREFIX", help="Of commits that begin like this."),
        click.option("--session", help="That were made together."),
        click.option("--method", help="Of this method."),
        click.option("--model", metavar="FILE", help="Of this model, named without its folder."),
        click.option("--unit", help="Of this board of its type."),
        click.option("--board", help="Of this type of board."),
    )
