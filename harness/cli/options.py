"""Options: the titled panels that help shows them in, and those that several commands share.

Plain click: rich-click draws its boxes into pipes, and cloup doubles the import time of click.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.cli.completers import complete_boards, complete_units
from harness.cli.output import OutputOptions
from harness.errors import EXIT_CODES, UsageError
from harness.files import absolute

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from harness.check.history.baseline import BaselineRef


_F = TypeVar("_F", bound=Callable[..., Any])

WORKLOAD: Final = "What to run"
MODEL: Final = "Model"
TARGET: Final = "Where"
FIRMWARE: Final = "Firmware"
PROBE: Final = "Debug probe"
TRACING: Final = "What is logged"
ENERGY: Final = "Energy"
READING: Final = "Trace files"
SELECTION: Final = "Selection"
VERDICT: Final = "What must hold"
RESULTS: Final = "Where results go"
OUTPUT: Final = "Output"
OTHER: Final = "Options"

_LONGEST_ALIGNED: Final = 30
"""Widest first column; the help of a longer option begins on the next line."""


class PanelOption(click.Option):
    """An option that a command's help shows in one panel.

    Attributes:
        panel: Title of the panel.
    """

    panel = OTHER

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return what follows the help text: the default, but no range, which errors report."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


option = partial(click.option, cls=PanelOption)
"""``click.option`` for options that belong to a panel."""


def panel(title: str, *options: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Add options in this order and show them in the panel ``title``.

    Args:
        title: Title of the panel; panels of the same title are joined.
        options: Decorators made by ``option``, one option each.
    """

    def decorate(function: _F) -> _F:
        for decorator in reversed(options):
            function = decorator(function)
            added = function.__click_params__[-1]  # type: ignore[attr-defined]
            added.panel = title
        return function

    return decorate


def panels(command: click.Command, context: click.Context) -> dict[str, list[click.Parameter]]:
    """Return the options of a command by the title of their panel, in the order of its help."""
    found: dict[str, list[click.Parameter]] = {}
    for param in command.get_params(context):
        if isinstance(param, click.Option):
            # Only --help is click's own; it ends the panel that all commands have.
            title = param.panel if isinstance(param, PanelOption) else OUTPUT
            found.setdefault(title, []).append(param)
    return found


class PanelCommand(click.Command):
    """A command whose help shows its options in panels, all aligned to the same column.

    Its epilog are examples. They stand above the options, and the exit codes below.

    Attributes:
        exit_codes: Exit codes in a sentence.
    """

    exit_codes = EXIT_CODES

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it does, and the examples."""
        super().format_help_text(ctx, formatter)
        super().format_epilog(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes."""
        del ctx
        formatter.write_paragraph()
        formatter.write_text(self.exit_codes)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the panels."""
        records = {
            title: [record for param in params if (record := param.get_help_record(ctx))]
            for title, params in panels(self, ctx).items()
        }
        names = [name for rows in records.values() for name, _ in rows]
        column = max(len(name) for name in names if len(name) <= _LONGEST_ALIGNED)
        for title, rows in records.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(column), text) for name, text in rows])


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
        return _possible(absolute(Path(os.fsdecode(super().convert(value, param, ctx)))))


def _possible(path: Path) -> Path:
    """Return the path; most methods of pathlib would raise an OSError for one that is too long.

    Raises:
        UsageError: No file can have this name.
    """
    try:
        path.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(
                f"the path {path.name[:40]}... is too long: {len(str(path)):,} characters",
                hint="use a shorter name",
            ) from error
    return path


def absolute_name(_: click.Context | None, __: click.Parameter | None, name: Any) -> Any:
    """Return an absolute path for the name of a board or port that is a path; other names stay."""
    if not isinstance(name, str) or "://" in name:
        return name
    return str(_possible(absolute(name))) if name.endswith(".toml") or "/" in name else name


def absolute_history(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    """Return the history as a URL or an absolute path."""
    return url if not url or "://" in url else str(_possible(absolute(url)))


def with_options(function: _F, collect: Callable[..., Any], options: Callable[[Any], Any]) -> _F:
    """Return ``collect``, which calls ``function``, as the same command with more options."""
    collect.__doc__ = function.__doc__
    collect.__name__ = function.__name__
    collect.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    return options(collect)  # type: ignore[no-any-return]


def output_options(function: _F) -> _F:
    """Add ``--json -v -q --no-progress`` and pass them as one ``output`` argument."""

    def collect(
        *args: Any, as_json: bool, verbose: int, quiet: int, no_progress: bool, **kwargs: Any
    ) -> Any:
        verbosity = verbose - quiet
        level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
        logging.basicConfig(
            level=level.get(max(verbosity, -1), logging.DEBUG),
            format="%(levelname)s %(name)s: %(message)s",
        )
        return function(*args, output=OutputOptions(as_json, verbosity, not no_progress), **kwargs)

    return with_options(
        function,
        collect,
        panel(
            OUTPUT,
            option("--json", "as_json", is_flag=True, help="Print JSON (schema/*.schema.json)."),
            option("-v", "--verbose", count=True, help="Print more; -vv prints everything."),
            option("-q", "--quiet", count=True, help="Print less."),
            option("--no-progress", is_flag=True, help="Hide progress bars."),
        ),
    )


def report_option(*names: str) -> Callable[[_F], _F]:
    """An option for report files, ``--report`` by default, passed as the tuple ``reports``."""
    return option(
        *(names or ("--report",)),
        "reports",
        multiple=True,
        type=FilePath(),
        callback=_check_reports,
        metavar="FILE",
        help="Write a report; the suffix selects the format: .html, .json, .md, .sarif, .xml "
        "(JUnit) or .zip (archive). Repeatable.",
    )


annotations_option = option(
    "--annotations",
    metavar="SYSTEM",
    type=click.Choice(["github"]),
    help="Print failed checks, warnings and notes as annotations of this CI system: github.",
)
"""``--annotations``, passed as a name, or None."""


def _check_reports(_: click.Context, __: click.Parameter, files: tuple[Path, ...]) -> Any:
    if files:
        from harness.report.formats import check_report_file

        for file in files:
            check_report_file(file)
    return files


_units = option(
    "--units",
    metavar="FILE",
    type=FilePath(),
    is_eager=True,  # completion of --unit reads this file
    help="Unit file of the lab.  [default: $ETHARNESS_UNITS, ./units.toml, or "
    "~/.config/etdump-harness/units.toml]",
)

units_option = panel(TARGET, _units)
"""``--units``, passed as the path ``units``, or None for the lab's own file."""

baud_option = panel(
    TARGET,
    option(
        "--baud",
        metavar="RATE",
        type=click.IntRange(min=1),
        help="Switch the serial line to this rate, bits per second.  [default: the best rate of "
        "the unit or board file]",
    ),
)
"""``--baud``, passed as a number, or None."""


def target_options(function: _F) -> _F:
    """Add ``--board --unit --units --port``; pass the selected board as ``chosen``."""
    return _with_chosen(function, needed=True)


def optional_target_options(function: _F) -> _F:
    """Add the same options; ``chosen`` is None if no board is selected."""
    return _with_chosen(function, needed=False)


def _with_chosen(function: _F, *, needed: bool) -> _F:

    def collect(
        *args: Any,
        board: str | None,
        unit: str | None,
        units: Path | None,
        port: str | None,
        **kwargs: Any,
    ) -> Any:
        from harness.lab.units import choose

        selected = needed or any((board, unit, port))
        chosen = choose(board, unit, port, units) if selected else None
        return function(*args, chosen=chosen, **kwargs)

    return with_options(
        function,
        collect,
        panel(
            TARGET,
            option(
                "--board",
                metavar="BOARD",
                callback=absolute_name,
                shell_complete=complete_boards,
                help="Board type: a name (see `etharness boards`) or a board file.  [default: the "
                "unit's]",
            ),
            option(
                "--unit",
                metavar="UNIT",
                shell_complete=complete_units,
                help="Lab unit (see `etharness lab units`); sets board and port. With --board it "
                "only labels results.  [default: the port]",
            ),
            _units,
            option(
                "-p",
                "--port",
                metavar="PORT",
                callback=absolute_name,
                help="Port of the board: a serial device, a URL (`etharness explain remote`) or "
                "a debug probe (`etharness explain probes`).  [default: the unit's]",
            ),
        ),
    )


def output_directory(default: str, description: str) -> Callable[[_F], _F]:
    """Return the option ``--output``, passed as the path ``directory``."""
    return option(
        "-o",
        "--output",
        "directory",
        default=Path(default),
        show_default=True,
        metavar="DIR",
        type=FilePath(),
        help=description,
    )


def baseline_of(_: click.Context, __: click.Parameter, text: str | None) -> BaselineRef | None:
    """Parse the value of ``--baseline``."""
    if text is None:
        return None
    from harness.check.history.baseline import parse_baseline

    return parse_baseline(text)


compared_history_option = option(
    "--history",
    callback=absolute_history,
    metavar="URL",
    help="Compare with this history: an SQLite file or postgresql:// URL.  [default with "
    "--baseline: $ETHARNESS_HISTORY, or .etharness/history.sqlite near the project]",
)
"""``--history`` of evaluations, passed as a text, or None."""

baseline_option = option(
    "--baseline",
    metavar="REF",
    callback=baseline_of,
    help="Compare with this baseline from the history: last:20, name:NAME or commit:PREFIX "
    "(`etharness explain verdicts`).",
)
"""``--baseline``, passed as a ``BaselineRef``, or None without the option."""
