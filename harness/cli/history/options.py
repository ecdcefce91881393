"""Options that the subcommands of ``etharness history`` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.completers import complete_boards, complete_models, complete_units
from harness.cli.options import SELECTION, absolute_history, option, panel, with_options

if TYPE_CHECKING:
    from harness.history.entries import Selection
    from harness.history.store import Store

_F = TypeVar("_F", bound=Callable[..., Any])


history_option = panel(
    SELECTION,
    option(
        "--history",
        "url",
        callback=absolute_history,
        metavar="URL",
        help="History: an SQLite file or postgresql:// URL.  [default: $ETHARNESS_HISTORY, or "
        ".etharness/history.sqlite near the project]",
    ),
)
"""``--history``, passed as the text ``url``, or None for the default history."""


settings_option = option(
    "--settings",
    metavar="PATTERN",
    help="Measurement settings of the results, such as '*--values intermediate*'.  [default: "
    "those of the newest result]",
)


def opened(url: str | None, *, create: bool = False) -> Store:
    """Open a history, the default one if ``url`` is None; create it only with ``create``."""
    from harness.history import default_history, open_store

    return open_store(url or default_history(), create=create)


def with_known_model(store: Store, selection: Selection) -> Selection:
    """Return the selection with the file name of its model, which may be given without suffix."""
    return replace(selection, model=store.known_model(selection.model))


def selection_options(function: _F) -> _F:
    """Add options that select results, passed as a ``Selection`` called ``selection``."""

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
        panel(
            SELECTION,
            option(
                "--board", metavar="NAME", shell_complete=complete_boards, help="Only this board."
            ),
            option(
                "--unit", metavar="UNIT", shell_complete=complete_units, help="Only this lab unit."
            ),
            option(
                "--model",
                metavar="FILE",
                shell_complete=complete_models,
                help="Only this model: a file without its directory, or a name.",
            ),
            option("--method", metavar="NAME", help="Only this method."),
            option("--session", metavar="NAME", help="Only results recorded with this label."),
            option("--commit", metavar="PREFIX", help="Only commits that begin like this."),
            option("--since", metavar="TIME", help="Only runs started at or after this time."),
            option(
                "--before",
                metavar="TIME",
                help="Only runs started before this time, such as 2026-11-21T23:00.",
            ),
            option("--verdict", type=click.Choice(["pass", "fail"]), help="Only this verdict."),
            option(
                "--last",
                "newest",
                metavar="N",
                type=click.IntRange(1),
                help="Only the newest N results.",
            ),
        ),
    )
