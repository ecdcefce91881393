"""Options that select a change of a series, and the decision about it."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.completers import complete_boards, complete_models, complete_units
from harness.cli.history.options import opened, settings_option
from harness.cli.options import SELECTION, option, panel, with_options
from harness.cli.output import OutputOptions
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.check.history.samples import DecisionKind, Provenance

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """A change of a series, and what was decided about it.

    Attributes:
        pattern: Pattern for the series.
        board: Board type; None for the only one.
        unit: Unit; None for the only one.
        model: Model file; None for the only one.
        method: Method; None for the only one.
        settings: Pattern for the measurement settings; None for those of the newest result.
        several: Whether the pattern may select several series.
        since: Start of the first result at the new level; None for the newest night.
        commit: Prefix of the commit that begins the level; likewise.
        reason: Why.
        who: Who decided.
        until: Last day on which it holds; None without end.
    """

    pattern: str
    board: str | None
    unit: str | None
    model: str | None
    method: str | None
    settings: str | None
    several: bool
    since: str | None
    commit: str | None
    reason: str
    who: str
    until: str | None

    def begins(self) -> Callable[[Provenance], bool] | None:
        """Return a test for the first result of the level; None for the newest night.

        Raises:
            UsageError: Both a time and a commit are given.
        """
        from harness.records.result import microseconds

        if self.since is not None and self.commit is not None:
            raise UsageError("--since and --commit both say where the level begins", hint="use one")
        if self.since is not None:
            start = microseconds(self.since)
            return lambda result: microseconds(result.started_utc) >= start
        commit = self.commit
        return None if commit is None else lambda result: result.commit.startswith(commit)


def change_options(*, reason_required: bool) -> Callable[[_F], _F]:
    """Return a decorator that adds the options of a change, passed as ``change``."""

    def decorate(function: _F) -> _F:
        def collect(*args: Any, **options: Any) -> Any:
            own = {field.name: options.pop(field.name) for field in fields(ChangeOptions)}
            return function(*args, change=ChangeOptions(**own), **options)

        selected = panel(
            SELECTION,
            option("--board", metavar="NAME", shell_complete=complete_boards, help="Board type."),
            option("--unit", metavar="UNIT", shell_complete=complete_units, help="Lab unit."),
            option(
                "--model",
                metavar="FILE",
                shell_complete=complete_models,
                help="Model, a file without its directory or a name.",
            ),
            option("--method", metavar="NAME", help="Method."),
            settings_option,
            option("--all", "several", is_flag=True, help="Decide about all matching series."),
            option(
                "--since", metavar="TIME", help="The level begins with the first run from here."
            ),
            option(
                "--commit",
                metavar="PREFIX",
                help="The level begins with the first run of this commit.",
            ),
        )
        decided = panel(
            "Decision",
            option(
                "--reason",
                metavar="REASON",
                help="Why.",
                **({"required": True} if reason_required else {"default": ""}),
            ),
            option("--who", default=_user, metavar="NAME", help="Who decided.  [default: you]"),
            option(
                "--until",
                metavar="DATE",
                callback=_day,
                help="Last day on which the decision holds, such as 2027-01-31.",
            ),
        )
        options = with_options(function, collect, lambda command: decided(selected(command)))
        return click.argument("pattern")(options)

    return decorate


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no entry for this user, as in a container
        return ""


def _day(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return a date as ISO 8601."""
    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a date; write 2027-01-31", param=parameter
        ) from None


def record_decision(
    kind: DecisionKind, change: ChangeOptions, url: str | None, output: OutputOptions
) -> None:
    """Record a decision about the selected series, and print it."""
    from harness.history.triage import choose_series, decide

    with opened(url) as store:
        tested = store.only_tested(change.board, change.model, change.method)
        settings = store.settings_like(*tested, change.settings)
        found = store.history(*tested, unit=change.unit, baseline=None, settings=settings)
        made = decide(
            kind,
            found,
            choose_series(found, change.pattern, several=change.several),
            change.begins(),
            reason=change.reason,
            who=change.who,
            until=change.until,
        )
        store.record_decisions(*tested, settings, made)
    if output.json:
        from harness.report.history import decisions_document

        click.echo(decisions_document(made), nl=False)
        return
    from harness.report.history import print_decisions

    print_decisions(output.console(), made)
