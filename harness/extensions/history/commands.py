"""The subcommands of ``etharness history``; importing them adds them to the group."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import structs

from harness.analyze.statistics import EXECUTIONS, Executions
from harness.check.history.align import as_newest
from harness.check.history.measure import TIME_STATISTICS
from harness.cli import listed_group
from harness.cli.command import (
    RESULTS,
    SELECTION,
    FilePath,
    OutputOptions,
    PanelCommand,
    absolute_history,
    baseline_of,
    complete_boards,
    complete_models,
    complete_units,
    option,
    output_options,
    panel,
    with_options,
)
from harness.errors import UsageError
from harness.extensions.history.cli import history_command
from harness.printing import counted, print_document
from harness.records.store_address import StoreAddress

if TYPE_CHECKING:
    from rich.console import Console

    from harness.check.history.samples import BaselineRef, DecisionKind, Metric, Provenance
    from harness.history.entries import Selection
    from harness.history.store import Store
    from harness.records.store_address import StoreAddress


_F = TypeVar("_F", bound=Callable[..., Any])
_Document = TypeVar("_Document")


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
"""``--history``, passed as the ``StoreAddress`` ``url``, or None for the default history."""


settings_option = option(
    "--settings",
    metavar="PATTERN",
    help="Measurement settings of the results, such as '*--values intermediate*'.  [default: "
    "those of the newest result]",
)


def opened(url: StoreAddress | None, *, create: bool = False) -> Store:
    """Open a history, the default one if ``url`` is None; create it only with ``create``."""
    from harness.config.project import default_history
    from harness.history import open_store

    return open_store(url or default_history(), create=create)


def show(
    output: OutputOptions,
    document: _Document,
    for_people: Callable[[Console, _Document], None] | str,
) -> None:
    """Print a document: as JSON, or for people by a function or as a line, unless that is ""."""
    if output.json:
        from harness.extensions.history.report import history_document

        print_document(history_document(document))
    elif callable(for_people):
        for_people(output.console(), document)
    elif for_people:
        output.print_line(for_people)


def with_known_model(store: Store, selection: Selection) -> Selection:
    """Return the selection with the file name of its model, which may be given without suffix."""
    return replace(selection, model=store.known_model(selection.model))


_SELECTED = (
    *("board", "unit", "model", "method", "session", "commit"),
    *("since", "before", "passed", "newest"),
)
"""Fields of a ``Selection`` that have an option."""


def selection_options(function: _F) -> _F:
    """Add options that select results, passed as a ``Selection`` called ``selection``."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        from harness.history.entries import Selection

        selection = Selection(**{name: kwargs.pop(name) for name in _SELECTED})
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
            option(
                "--verdict",
                "passed",
                type=click.Choice(["pass", "fail"]),
                callback=lambda _context, _option, text: None if text is None else text == "pass",
                help="Only this verdict.",
            ),
            option(
                "--last",
                "newest",
                metavar="N",
                type=click.IntRange(1),
                help="Only the newest N results.",
            ),
        ),
    )


@history_command.command(name="add", cls=PanelCommand)
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@history_option
@output_options
def add(paths: tuple[Path, ...], url: StoreAddress | None, output: OutputOptions) -> int:
    """Add run directories.

    PATHS are run directories, or directories with run directories anywhere below. A result that
    the history already has stays unchanged. The exit code is 2 if a result cannot be added.
    """
    from harness.runs.history import add_directory, run_directories

    directories = [*run_directories(paths)]
    found = []
    with opened(url, create=True) as store, output.stages() as stages:
        for done, directory in enumerate(directories):
            stages("adding", done, len(directories))
            found.append(add_directory(store, directory))
        location = store.location
    from harness.extensions.history.report import print_added

    show(output, found, partial(print_added, place=location, detailed=output.verbosity > 0))
    return 2 if any(item.state == "refused" for item in found) else 0


@history_command.command(name="list", cls=PanelCommand)
@selection_options
@history_option
@output_options
def list_results(selection: Selection, url: StoreAddress | None, output: OutputOptions) -> None:
    """List results, oldest first."""
    with opened(url) as store:
        found = store.results(with_known_model(store, selection))
    from harness.extensions.history.report import print_entries

    show(output, found, partial(print_entries, detailed=output.verbosity > 0))


def change_options(*, reason_required: bool) -> Callable[[_F], _F]:
    """Return a decorator that adds the options of a change, as ``record_decision`` takes them."""

    def decorate(function: _F) -> _F:
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
        return click.argument("pattern")(decided(selected(function)))

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


def _begins(since: str | None, commit: str | None) -> Callable[[Provenance], bool] | None:
    """Return a test for the first result of a level; None for the newest night.

    Raises:
        UsageError: Both a time and a commit are given.
    """
    from harness.records.result import microseconds

    if since is not None and commit is not None:
        raise UsageError("--since and --commit both say where the level begins", hint="use one")
    if since is not None:
        start = microseconds(since)
        return lambda result: microseconds(result.started_utc) >= start
    return None if commit is None else lambda result: result.commit.startswith(commit)


def record_decision(
    kind: DecisionKind,
    *,
    pattern: str,
    board: str | None,
    unit: str | None,
    model: str | None,
    method: str | None,
    settings: str | None,
    several: bool,
    since: str | None,
    commit: str | None,
    reason: str,
    who: str,
    until: str | None,
    url: StoreAddress | None,
    output: OutputOptions,
) -> None:
    """Record a decision about the selected series, and print it."""
    from harness.extensions.history.decisions import choose_series, decide

    with opened(url) as store:
        tested = store.only_tested(board, model, method)
        key = store.settings_like(*tested, settings)
        found = as_newest(store.history(*tested, unit=unit, baseline=None, settings=key))
        made = decide(
            kind,
            found,
            choose_series(found, pattern, several=several),
            _begins(since, commit),
            reason=reason,
            who=who,
            until=until,
        )
        store.record_decisions(*tested, key, made)
    from harness.extensions.history.report import print_decisions

    show(output, made, print_decisions)


@history_command.command(name="accept", cls=PanelCommand)
@change_options(reason_required=True)
@history_option
@output_options
def accept(**change: Any) -> None:
    """Accept a change: its new level becomes the baseline of the series.

    PATTERN selects an operator, allocator or size of one unit by its name, or by its text in a
    check, such as 'native_call_conv.out, instruction 4'. The level begins with the newest night,
    unless --since or --commit names an earlier one. With --until, the earlier baseline counts
    again after that day.
    """
    record_decision("accepted", **change)


@history_command.command(name="ignore", cls=PanelCommand)
@change_options(reason_required=True)
@history_option
@output_options
def ignore(**change: Any) -> None:
    """Ignore a change until a date: it is shown as a note and does not fail.

    PATTERN selects a series as for `etharness history accept`. A further regression beyond the
    ignored level still fails. After the last day the change fails again.
    """
    if change["until"] is None:
        raise UsageError(
            "an ignored change needs a last day",
            hint="add --until DATE; a change that is fine for good is accepted: `etharness history "
            "accept`",
        )
    record_decision("ignored", **change)


@history_command.command(name="reopen", cls=PanelCommand)
@change_options(reason_required=False)
@history_option
@output_options
def reopen(**change: Any) -> None:
    """Undo the decision about a change: its baseline is the one before the change again.

    PATTERN selects a series as for `etharness history accept`.
    """
    record_decision("reopened", **change)


BASELINE_COMMANDS = {
    "set": "Name results as a baseline.",
    "list": "List the named baselines.",
    "remove": "Remove the name of a baseline, but not its results.",
}


@history_command.group(name="baseline", cls=listed_group({"Commands": BASELINE_COMMANDS}))
def baseline() -> None:
    """Name results as a baseline for later ones.

    Options such as --baseline then take name:NAME, beside commit:PREFIX and last:COUNT.
    """


@baseline.command(name="set", cls=PanelCommand)
@click.argument("name")
@click.argument("ids", nargs=-1)
@selection_options
@panel(
    SELECTION,
    option("--all", "unsound", is_flag=True, help="Include results that failed or lost events."),
)
@history_option
@output_options
def set_baseline(
    name: str,
    ids: tuple[str, ...],
    unsound: bool,
    selection: Selection,
    url: StoreAddress | None,
    output: OutputOptions,
) -> None:
    """Name results as a baseline; a baseline that had the name is replaced.

    Select the results by IDS, or by options such as --commit or --last 20 --board native. Options
    select results that failed, were cut off or lost events only with --all.
    """
    from harness.history.entries import Selection

    if bool(ids) == (selection != Selection()):
        raise UsageError(
            "no results are selected, or both by IDS and by options",
            hint="give IDS (see `etharness history list --json`), or options such as --commit",
        )
    with opened(url) as store:
        if not ids:
            chosen = with_known_model(store, selection)
            chosen = chosen if unsound else replace(chosen, sound=True)
            ids = tuple(entry.provenance.id for entry in store.results(chosen))
        store.set_baseline(name, ids)
        [found] = [item for item in store.baselines() if item.name == name]
    from harness.formatting import printable

    show(output, [found], f"name:{printable(name)} has {counted(found.results, 'result')}")


@baseline.command(name="list", cls=PanelCommand)
@history_option
@output_options
def list_baselines(url: StoreAddress | None, output: OutputOptions) -> None:
    """List the named baselines."""
    with opened(url) as store:
        found = store.baselines()
    from harness.extensions.history.report import print_baselines

    show(output, found, print_baselines)


@baseline.command(name="remove", cls=PanelCommand)
@click.argument("name")
@history_option
@output_options
def remove_baseline(name: str, url: StoreAddress | None, output: OutputOptions) -> None:
    """Remove the name of a baseline, but not its results."""
    with opened(url) as store:
        if not store.remove_baseline(name):
            raise UsageError(
                f"baseline {name!r} not found",
                hint="`etharness history baseline list` lists the names",
            )
        left = store.baselines()
    from harness.formatting import printable

    text = f"removed the name {printable(name)}; its results stay in the history"
    show(output, left, text)


@history_command.command(name="export", cls=PanelCommand)
@selection_options
@history_option
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "file",
        required=True,
        type=FilePath(dir_okay=False),
        metavar="FILE",
        help="File to write; the suffix selects the format: .csv, .tsv, .json or .parquet.",
    ),
    option("--force", is_flag=True, help="Replace an existing file."),
)
@output_options
def export(
    file: Path, force: bool, selection: Selection, url: StoreAddress | None, output: OutputOptions
) -> None:
    """Write all measured values as a table.

    Each row has the statistics of one operator in one result, over all, cold or warm executions,
    or one other value. `etharness explain history` lists the columns.
    """
    from harness.extensions.history.table import check_suffix, export_history

    check_suffix(file)
    if file.exists() and not force:
        raise UsageError(f"{file} already exists", hint="replace it with --force")
    with opened(url) as store:
        rows = export_history(store, file, with_known_model(store, selection))
    from harness.extensions.history.report import TableDocument

    text = f"{file}: {counted(rows, 'row')}" if output.verbosity >= 0 else ""
    show(output, TableDocument(str(file), rows), text)


@history_command.command(name="copy", cls=PanelCommand)
@click.argument("source", metavar="FROM", callback=absolute_history)
@click.argument("target", metavar="TO", callback=absolute_history)
@output_options
def copy_history(source: StoreAddress, target: StoreAddress, output: OutputOptions) -> None:
    """Copy the history to a new file or an empty database.

    FROM and TO are SQLite files or postgresql://USER@HOST/DATABASE. Results, named baselines and
    decisions are copied: all of them, or nothing if the copy is interrupted.
    """
    from harness.extensions.history.copying import copy_history

    with (
        opened(source) as here,
        opened(target, create=True) as there,
        output.stages() as stages,
    ):
        outcome = copy_history(here, there, stages)
        location = there.location
    nights = f", {outcome.nights:,} nightly runs" if outcome.nights else ""
    show(
        output,
        outcome,
        f"{location}: {counted(outcome.results, 'result')}, "
        f"{counted(outcome.baselines, 'baseline')} and "
        f"{counted(outcome.decisions, 'decision')} copied{nights}"
        if output.verbosity >= 0
        else "",
    )


@history_command.command(name="prune", cls=PanelCommand)
@panel(
    "Removal",
    option(
        "--keep",
        type=click.IntRange(0),
        required=True,
        metavar="N",
        help="Keep the newest N results of each board, unit, model and method.",
    ),
    option("--dry-run", is_flag=True, help="Print the number of results without removing them."),
)
@selection_options
@history_option
@output_options
def prune(
    keep: int, dry_run: bool, selection: Selection, url: StoreAddress | None, output: OutputOptions
) -> None:
    """Remove old results.

    Results of named baselines stay. Options such as --board limit the command to the selected
    results; --keep then counts among them.
    """
    with opened(url) as store:
        removed = store.prune(keep, with_known_model(store, selection), dry_run=dry_run)
        left = store.info().rows["results"]
    from harness.extensions.history.report import PrunedDocument

    verb = "would be removed" if dry_run else "removed"
    text = f"{counted(removed, 'result')} {verb}; the history has {left:,}"
    show(output, PrunedDocument(removed, left, dry_run), text)


@history_command.command(name="info", cls=PanelCommand)
@history_option
@output_options
def info(url: StoreAddress | None, output: OutputOptions) -> None:
    """Show the location, version and size of the history.

    Like every command, this upgrades a history of an earlier version.
    """
    with opened(url) as store:
        info = store.info()
    if output.json:
        output.print_json(info)
        return
    from harness.report.terminal import print_header

    rows = {table: f"{count:,}" for table, count in info.rows.items()}
    print_header(output.console(), {"history": info.place, "version": info.version, **rows})


@history_command.command(name="show", cls=PanelCommand)
@click.argument("pattern", default="*")
@panel(
    SELECTION,
    option(
        "--board",
        metavar="NAME",
        shell_complete=complete_boards,
        help="Board of the results; required if the history has several.",
    ),
    option(
        "--model",
        metavar="FILE",
        shell_complete=complete_models,
        help="Model, a file without its directory or a name; required if there are several.",
    ),
    option("--method", metavar="NAME", help="Method; required if there are several."),
    option(
        "--unit", metavar="UNIT", shell_complete=complete_units, help="Only results of this unit."
    ),
    settings_option,
    option("--before", metavar="TIME", help="Only runs started before this time."),
    option(
        "--last",
        "window",
        default=20,
        show_default=True,
        metavar="N",
        type=click.IntRange(1),
        help="Only the newest N results.",
    ),
    option(
        "--all",
        "unsound",
        is_flag=True,
        help="Include results that crashed, were cut off or lost events.",
    ),
)
@panel(
    "View",
    option(
        "--statistic",
        default="p50",
        show_default=True,
        metavar="NAME",
        type=click.Choice(TIME_STATISTICS),
        help=f"Statistic of an operator's times to show: {', '.join(TIME_STATISTICS)}.",
    ),
    option(
        "--executions",
        default="all",
        show_default=True,
        type=click.Choice(EXECUTIONS),
        help="Executions to show: all, the first after loading (cold), or later ones (warm).",
    ),
    option(
        "--baseline",
        callback=baseline_of,
        metavar="REF",
        help="Mark the results of this baseline: last:COUNT, name:NAME or commit:PREFIX.",
    ),
)
@history_option
@output_options
def show_history(
    pattern: str,
    board: str | None,
    model: str | None,
    method: str | None,
    unit: str | None,
    settings: str | None,
    statistic: str,
    executions: Executions,
    window: int,
    before: str | None,
    baseline: BaselineRef | None,
    unsound: bool,
    url: StoreAddress | None,
    output: OutputOptions,
) -> None:
    """Show how times and sizes changed.

    PATTERN selects operators, allocators and sizes by name, such as 'conv2d #5', 'native_call_*' or
    log_bytes.
    A single match is shown result by result; of several, the change of each is shown. Decisions
    about changes follow. Results with other measurement settings are a series of their own.
    """
    with opened(url) as store:
        tested = store.only_tested(board, model, method)
        found = store.history(
            *tested,
            settings=store.settings_like(*tested, settings),
            unit=unit,
            statistics=[statistic],
            executions=executions,
            baseline=baseline,
            window=window,
            before=before,
            unsound=unsound,
        )
    # Read whole: which operator of an earlier program it was depends on those around it.
    found = as_newest(found)
    series = (one for one in found.series if _is_selected(one.metric, pattern))
    found = structs.replace(found, series=tuple(series))
    from harness.extensions.history.report import print_history

    show(output, found, partial(print_history, pattern=pattern, detailed=output.verbosity > 0))


def _is_selected(metric: Metric, pattern: str) -> bool:
    """Whether a pattern selects a metric by its name or title."""
    from harness.history.results import matches_name

    return matches_name(metric.name, pattern, metric.instruction if metric.chain != -1 else None)
