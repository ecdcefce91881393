"""What commands share: options in the panels of their help, and what they print and write.

Plain click: rich-click draws its boxes into pipes, and cloup doubles the import time of click.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness import __version__, printing
from harness.errors import EXIT_CODES, HarnessError, UsageError
from harness.files import absolute
from harness.plugins import REPORTS, load_extension
from harness.records.run_settings import (
    READ_SETTINGS,
    SETTINGS,
    RunSetting,
    SettingPlace,
    settings_in,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from click.types import OptionHelpExtra
    from rich.console import Console

    from harness.check.history.samples import BaselineRef
    from harness.records.store_address import StoreAddress
    from harness.runs.source import EvaluatedRun


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What the user asked a command to print.

    Attributes:
        json: Print one JSON document instead of text.
        verbosity: 0 by default; 1 and more add details, -1 and less print failures and the
            verdict only.
        progress: Show the progress of long waits, if standard error is a terminal.
    """

    json: bool
    verbosity: int
    progress: bool

    def console(self) -> Console:
        """Return a console on standard output; it has no colours in a pipe or with NO_COLOR."""
        from harness.report.terminal import open_console

        return open_console()

    def print_line(self, text: str) -> None:
        """Print a line on standard output, folded into the width of a terminal."""
        from harness.report.terminal import show_line

        show_line(self.console(), text)

    def print_json(self, record: object) -> None:
        """Print a record or a list of records as one JSON document."""
        from harness.records.result import encode

        printing.print_document(encode(record))

    @contextlib.contextmanager
    def stages(self) -> Iterator[Callable[[str, int, int], None]]:
        """Yield a function that shows the progress of a stage, given (stage, done, total)."""
        if not self.progress or self.json or self.verbosity < 0 or not sys.stderr.isatty():
            yield lambda _stage, _done, _total: None
            return
        from rich.markup import escape
        from rich.progress import Progress, TaskID

        from harness.report.terminal import open_console

        with Progress(console=open_console(error=True), transient=True) as bars:
            tasks: dict[str, TaskID] = {}

            def show(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(escape(printing.printable(stage)), total=None)
                bars.update(tasks[stage], completed=done, total=total or None)

            yield show


def show_outcome(
    output: OutputOptions, run: EvaluatedRun, top: int | None = None, by: str | None = None
) -> None:
    """Print a finished run and the run directory that keeps it; operators as ``top, by`` say."""
    if output.json:
        from harness.report.document import run_document

        printing.print_document(run_document(run))
        return
    from harness.report.description import describe
    from harness.report.run import print_run, print_test_sets

    if run.test_sets:
        print_test_sets(output.console(), run, verbosity=output.verbosity)
        return
    judged = run.result is not None and run.result.verdict is not None
    shown: dict[str, Any] = {"show_verdict": judged, "top": top, "by": by}
    print_run(output.console(), describe(run), verbosity=output.verbosity, **shown)


def write_reports(files: Sequence[Path], runs: Sequence[EvaluatedRun], top: int = 0) -> None:
    """Write a report of ``runs`` to every file.

    Raises:
        HarnessError: A report failed. After a failed run it is only printed, as the run's own
            failure decides the exit code.
    """
    from harness.report.formats import write_report

    for file in files:
        try:
            write_report(file, runs, top=top)
        except HarnessError as error:
            if all(run.failure is None for run in runs):
                raise
            report_failure(error)


def print_annotations(
    output: OutputOptions, system: str | None, runs: Sequence[EvaluatedRun]
) -> None:
    """Print findings as annotations, each on a line that must not be folded.

    With --json they go to standard error, which a CI system reads as well.
    """
    if system is None:
        return
    sarif = load_extension(REPORTS, "sarif", "--annotations is", "ci")
    for line in sarif.annotations(runs):
        printing.print_command(line, error=output.json)


def add_to_history(address: StoreAddress, run: EvaluatedRun) -> int:
    """Add a finished run, passed or failed, to a history; a failure of that does not lose the run.

    Returns:
        0, or the exit code of the failure, which has been printed.
    """
    from harness.runs.history import add_reported

    try:
        add_reported(address, run)
    except HarnessError as error:
        report_failure(error)
        return error.exit_code
    return 0


def report_failure(error: HarnessError) -> None:
    """Print a failure and what to try on standard error."""
    _print_failure(error.message, error.hint)


def report_usage_error(error: click.ClickException) -> None:
    """Print an error of click's parser as our own errors are printed."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    _print_failure(error.format_message(), f"{context.command_path} --help" if context else "")


def report_defect(error: Exception) -> int:
    """Print an exception that nothing expects, with its traceback in a file; return the exit code.

    With -v the traceback is printed, too.
    """
    lines = "".join(traceback.format_exception(error))
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            -1,
            "utf-8",
            errors="backslashreplace",
            prefix="etharness-defect-",
            suffix=".txt",
            delete=False,
        ) as file:
            file.write(f"etharness {__version__}, Python {sys.version}, {sys.platform}\n\n{lines}")
        hint = f"report it to the project, with the traceback in {file.name}"
        shown = logging.getLogger().isEnabledFor(logging.INFO)
    except OSError:
        hint, shown = "report it to the project, with this traceback", True
    if shown:
        printing.print_message(lines.rstrip(), error=True)
    _print_failure(f"a defect of etharness: {what} ({where})", hint)
    return HarnessError.exit_code


def _print_failure(message: str, hint: str) -> None:
    lines = printing.message_lines(f"error: {message}")
    lines += printing.message_lines(f"  try: {hint}", indent=f"  {printing.INDENT}") if hint else []
    if sys.stderr is not None and sys.stderr.isatty():
        from harness.report.terminal import wrapped

        width = shutil.get_terminal_size().columns
        lines = [part for line in lines for part in wrapped(line, width)]
    printing.print_text("\n".join(lines), error=True)


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
    from harness.records.verdict import CODES

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


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def percentage(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return a percentage as a share of 1; None without one."""
    if text is None:
        return None
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf:
        raise click.BadParameter(f"{text!r} is not a percentage; write 20%", param=parameter)
    return percent / 100


def duration(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the seconds of a text such as ``2h`` or ``1h30m``; None without one."""
    if text is None:
        return None
    if not re.fullmatch(r"(\d{1,6}[smhd])+", text):
        raise click.BadParameter(
            f"{text!r} is not a duration; write 2h, 90m, 1d or 1h30m", param=parameter
        )
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([smhd])", text))
    if not seconds:
        raise click.BadParameter("the duration must be longer than 0 s", param=parameter)
    return seconds


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
VIEW: Final = "View"
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


def setting_option(name: str, parameter: str | None = None, **more: Any) -> Callable[[_F], _F]:
    """Return the option of a setting of a run.

    Args:
        name: Name of the setting.
        parameter: Parameter of the command that gets its value; None for the name of the setting.
        more: Further arguments of ``click.option``.
    """
    return option_of(SETTINGS[name], parameter, **more)


def option_of(setting: RunSetting, parameter: str | None = None, **more: Any) -> Callable[[_F], _F]:
    """Return the option of a setting; arguments as for ``setting_option``."""
    default = setting.default if setting.command_default is None else setting.command_default
    details: dict[str, Any] = {"metavar": setting.metavar, "help": setting.help}
    if setting.default is False:
        details["is_flag"] = True
    elif setting.is_files or isinstance(default, Mapping):
        details["multiple"] = True
    elif isinstance(default, tuple):
        details["default"] = ",".join(default)
    elif default is not None:
        details |= {"default": default, "show_default": bool(str(default))}
        details["show_default"] &= "[default" not in setting.help
    details["type"] = None if setting.default is False else _option_type(setting)
    return option(*setting.flags, parameter or setting.name, **{**details, **more})


def _option_type(setting: RunSetting) -> click.ParamType[Any] | None:
    if setting.choices:
        return click.Choice(list(setting.choices))
    if setting.is_file or setting.is_files:
        return FilePath()
    bounds = (setting.least if setting.above is None else setting.above, setting.most)
    if setting.kind is int:
        return click.INT if bounds == (None, None) else click.IntRange(*bounds)
    if setting.kind is float:
        if bounds == (None, None):
            return click.FLOAT
        return click.FloatRange(*bounds, min_open=setting.above is not None)
    return None


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
    by_title: dict[str, list[click.Parameter]] = {}
    for param in command.get_params(context):
        if isinstance(param, click.Option):
            # Only --help is click's own; it ends the panel that all commands have.
            title = param.panel if isinstance(param, PanelOption) else OUTPUT
            by_title.setdefault(title, []).append(param)
    return by_title


class PanelCommand(click.Command):
    """A command whose help shows its options in panels, all aligned to the same column.

    Its epilog are examples. They stand above the options, and the exit codes below.

    Attributes:
        exit_codes: Exit codes in a sentence.
        section: Section of ``etharness --help`` that lists it, for a command of an extension.
    """

    exit_codes = EXIT_CODES
    section = "Plugins"

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


def absolute_history(_: click.Context, __: click.Parameter, url: str | None) -> StoreAddress | None:
    """Return the history as a URL or an absolute path."""
    if not url:
        return None
    from harness.records.store_address import StoreAddress

    address = StoreAddress(url)
    if address.is_path:
        _possible(absolute(url))
    return address.within(Path.cwd())


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
        handler = logging.StreamHandler()
        handler.setFormatter(printing.LogFormatter("%(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=level.get(max(verbosity, -1), logging.DEBUG), handlers=[handler])
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


def table_options(*groups: str) -> Callable[[_F], _F]:
    """Options for tables of operators: ``--top``, and ``--by`` one of ``groups``."""
    return panel(
        VIEW,
        option(
            "--top",
            metavar="N",
            type=click.IntRange(1),
            help="Operators to list before one line for all others.  [default: 20; -v lists all]",
        ),
        option("--by", type=click.Choice(groups), help=f"Sum operators by {' or '.join(groups)}."),
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


_units = setting_option("units", is_eager=True)  # completion of --unit reads this file

units_option = panel(TARGET, _units)
"""``--units``, passed as the path ``units``, or None for the lab's own file."""

baud_option = panel(TARGET, setting_option("baud"))
"""``--baud``, passed as a number, or None."""


target_panel = panel(
    TARGET,
    setting_option("board", callback=absolute_name, shell_complete=complete_boards),
    setting_option("unit", shell_complete=complete_units),
    _units,
    setting_option("port", callback=absolute_name),
)
"""``--board --unit --units --port``, passed as ``board``, ``unit``, ``units`` and ``port``."""


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
        from harness.target.selection import choose

        selected = needed or any((board, unit, port))
        chosen = choose(board, unit, port, units) if selected else None
        return function(*args, chosen=chosen, **kwargs)

    return with_options(
        function,
        collect,
        target_panel,
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
    from harness.check.history.samples import parse_baseline

    return parse_baseline(text)


compared_history_option = option(
    "--history",
    callback=absolute_history,
    metavar="URL",
    help="Compare with this history: an SQLite file or postgresql:// URL.  [default with "
    "--baseline: $ETHARNESS_HISTORY, or .etharness/history.sqlite near the project]",
)
"""``--history`` of evaluations, passed as a ``StoreAddress``, or None."""

baseline_option = setting_option("baseline", callback=baseline_of)
"""``--baseline``, passed as a ``BaselineRef``, or None without the option."""


flash_options = (setting_option("image"), setting_option("tool"), setting_option("probe"))
"""Options about flashing, passed as ``image``, ``tool`` and ``probe``."""

probe_options = panel(
    PROBE,
    setting_option("elf", type=FilePath(dir_okay=False)),
    setting_option("symbol"),
    setting_option("until"),
    setting_option("reset"),
)
"""Options about debug probes, passed as ``elf``, ``symbol``, ``until`` and ``reset``."""


def _parse_pairs(
    _: click.Context, __: click.Parameter, pairs: Any, *, what: str, right: str, example: str
) -> dict[str, str]:
    """Split ``PATTERN=TEXT``; a pattern may contain the sign, too."""
    texts = {}
    for pair in pairs:
        pattern, sign, text = pair.rpartition("=")
        if not sign or not pattern.strip():
            raise UsageError(
                f"invalid {what} {pair!r}: no PATTERN={right.upper()}",
                hint=f"write a pattern and a {right}, such as {example!r}",
            )
        texts[pattern.strip()] = text.strip()
    return texts


_parse_time_scales = functools.partial(
    _parse_pairs, what="time scale", right="rate", example="npu*=100 MHz, 24 bits"
)
_parse_layouts = functools.partial(
    _parse_pairs, what="metadata", right="layout", example="npu*=npu_macs:u32, npu_bytes:u32"
)
time_scale_option = setting_option("time_scales", callback=_parse_time_scales)
"""``--time-scale PATTERN=RATE``, passed as the dictionary ``time_scales``."""


def reading_options(function: _F) -> _F:
    """Add the options about trace files and pass them as one ``reading`` argument."""
    settings = settings_in(SettingPlace.COMMAND, READ_SETTINGS)
    parse = {"time_scales": _parse_time_scales, "metadata": _parse_layouts}

    def collect(*args: Any, **kwargs: Any) -> Any:
        from harness.runs.source import ReadOptions

        reading = ReadOptions(**{setting.name: kwargs.pop(setting.name) for setting in settings})
        return function(*args, reading=reading, **kwargs)

    options = (option_of(setting, callback=parse.get(setting.name)) for setting in settings)
    return with_options(function, collect, panel(READING, *options))
