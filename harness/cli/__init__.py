"""The command ``etharness``: a module per section of its help, imported when it is called."""

from __future__ import annotations

import gc
import importlib
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from harness import __version__
from harness.cli.command import report_defect, report_failure, report_usage_error
from harness.errors import EXHAUSTED, EXIT_CODES, HarnessError, HostError, UsageError, did_you_mean
from harness.files import display_path
from harness.interrupts import interrupt_behind, interrupt_text, interrupts, settle
from harness.plugins import COMMANDS, is_extension, load_plugin, plugin_names, unfit_plugin
from harness.printing import print_message

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS = {
    "Run": {
        "run": "Run a model on a board, read its trace and check it.",
        "flash": "Flash firmware onto a board and verify that the board runs it.",
        "pull": "Read the last trace from a board that is already running.",
    },
    "Look at models and traces": {
        "inspect": "Show what a model contains and which boards it fits.",
        "decode": "Show a trace: times, call tree, memory.",
        "compare": "Compare two traces or two programs, and say what changed.",
        "export": "Write a trace in another tool's format.",
    },
    "Check": {
        "check": "Check a trace against invariants, a budget and a baseline.",
        "explain": "Explain check codes, and print other pages of the documentation.",
        "report": "Evaluate runs again and write one report about them.",
    },
    "Boards over time": {},  # commands of extensions
    "Setup": {
        "boards": "List the supported boards.",
        "build": "Build the firmware of a board.",
        "completion": "Print a shell completion script.",
    },
}
"""Subcommands of the core and their one-line help, here so that --help imports none of them."""


_MODULES: Final = {
    "Run": "run",
    "Look at models and traces": "traces",
    "Check": "check",
    "Setup": "setup",
}
"""Modules by section."""


def sections() -> dict[str, dict[str, str]]:
    """Return subcommands and their one-line help by section; imports only those of extensions."""
    everything = {title: dict(commands) for title, commands in SECTIONS.items()}
    core = {name for commands in SECTIONS.values() for name in commands}
    for name in plugin_names(COMMANDS):
        if name in core:
            continue
        title, text = "Plugins", "From a plugin."
        if is_extension(COMMANDS, name):
            command = load_command(name)
            title = getattr(command, "section", title)
            text = command.get_short_help_str(limit=1_000)
        everything.setdefault(title, {})[name] = text
    return {title: commands for title, commands in everything.items() if commands}


def load_command(name: str) -> click.Command:
    """Import the subcommand of an extension or plugin.

    Raises:
        UsageError: The plugin cannot be loaded, or is no command.
    """
    command = load_plugin(COMMANDS, name)
    if not isinstance(command, click.Command):
        raise unfit_plugin(COMMANDS, name, "a click.Command")
    return command


def listed_group(
    sections: Mapping[str, Mapping[str, str]], section_of_group: str = ""
) -> type[click.Group]:
    """Return a group class whose help lists its commands by section.

    Args:
        sections: One-line help by command name, by title of the section that lists them. It stands
            here so that ``--help`` and completion import no subcommand.
        section_of_group: Section of ``etharness --help`` that lists a group of an extension.
    """
    commands = {name: text for section in sections.values() for name, text in section.items()}

    class ListedGroup(click.Group):
        section = section_of_group

        def listed(self) -> Mapping[str, Mapping[str, str]]:
            return sections

        def list_commands(self, _ctx: click.Context) -> list[str]:
            return list(commands)

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            name = args[0]
            # Looking for plugins takes as long as importing a small command.
            if name not in commands and not name.startswith("-") and not ctx.resilient_parsing:
                _check_known(name, self.list_commands(ctx), ctx)
            return super().resolve_command(ctx, args)

        def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
            listed = self.listed()
            column = max(len(name) for section in listed.values() for name in section)
            for title, section in listed.items():
                with formatter.section(title):
                    formatter.write_dl(
                        [(name.ljust(column), text) for name, text in section.items()]
                    )

        def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
            from click.shell_completion import CompletionItem

            # The group's own method would import every subcommand for its help.
            names = [
                CompletionItem(name, help=text)
                for section in self.listed().values()
                for name, text in section.items()
                if name.startswith(incomplete)
            ]
            return names + click.Command.shell_complete(self, ctx, incomplete)

    return ListedGroup


def _check_known(name: str, known: Iterable[str], ctx: click.Context) -> None:
    known = list(known)
    if name not in known:
        raise UsageError(
            f"unknown command {name!r}",
            hint=f"{did_you_mean(name, known)}`{ctx.command_path} --help` lists all commands",
        )


class ClosedOutputError(Exception):
    """Nobody reads the output any more, as in ``etharness boards | head -1``."""


class CommandLine(listed_group(SECTIONS)):  # type: ignore[misc]
    """The command ``etharness``, with the subcommands of extensions and plugins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands."""
        core: list[str] = super().list_commands(ctx)
        return core + [name for name in plugin_names(COMMANDS) if name not in core]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; None if there is none with this name."""
        for title, commands in SECTIONS.items():
            if cmd_name in commands:
                module = importlib.import_module(f"harness.cli.{_MODULES[title]}")
                command: click.Command = getattr(module, f"{cmd_name}_command")
                return command
        return load_command(cmd_name) if cmd_name in plugin_names(COMMANDS) else None

    def listed(self) -> dict[str, dict[str, str]]:
        """Return one-line help by name, by section."""
        return sections()

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return the context; ``--help`` and ``--version`` print here."""
        with _closed_output():
            context: click.Context = super().make_context(*args, **kwargs)
            return context

    def invoke(self, ctx: click.Context) -> Any:
        """Call the subcommand."""
        with _closed_output():
            return super().invoke(ctx)


@contextmanager
def _closed_output() -> Iterator[None]:
    """Raise a ClosedOutputError for a closed pipe; click would exit with 1, a failed check."""
    try:
        yield
    except BrokenPipeError as error:
        if any(map(_is_closed, (sys.stdout, sys.stderr))):
            raise ClosedOutputError from error
        # Not an OSError, which click would take for the output.
        raise RuntimeError(f"a pipe was closed: {error}") from error


def _is_closed(stream: TextIO | None) -> bool:
    """Return whether nobody reads a stream; also if the system cannot tell."""
    try:
        descriptor = stream.fileno() if stream is not None else None
    except (OSError, ValueError):
        return False
    if descriptor is None or sys.platform == "win32":
        return descriptor is not None
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="etharness")
def cli() -> None:
    """Run ExecuTorch models on microcontrollers and simulators, time every operator, and check the
    results against budgets and earlier runs.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # NumPy's BLAS starts threads that spin for 2**26 cycles: a fifth of what a small command takes,
    # and it disturbs what is measured on the host. With 2**4 cycles they sleep at once.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # Hundreds of thousands of events form no reference cycles, and searching for them is slow.
    gc.set_threshold(1_000_000, 50, 50)
    # A pipe on Windows is not in UTF-8. Names that its code page lacks are escaped.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    threading.excepthook = _report_thread
    with interrupts(terminate=True):
        try:
            code = _run(arguments)
        except (ClosedOutputError, BrokenPipeError):  # the latter from an error message
            _end_as_by_sigpipe()
            code = _SIGPIPE_CODE
    sys.exit(code)


_SIGPIPE_CODE: Final = 141
"""Exit code for a closed output where no signal can say it: 128 + SIGPIPE, as of a shell."""


def _end_as_by_sigpipe() -> None:
    """End this process by SIGPIPE, as other commands end when nobody reads their output.

    Python ignores the signal, so that a board or a tool that closes a pipe raises an error.
    """
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)


def _report_thread(failure: threading.ExceptHookArgs) -> None:
    """Print what ended a thread as a defect, which no text of a device can act in."""
    if isinstance(failure.exc_value, Exception):
        report_defect(failure.exc_value)


def _run(arguments: list[str] | None) -> int:
    """Run the command line; return its exit code."""
    try:
        # The name is also for `python -m harness`.
        return cli.main(arguments, prog_name="etharness", standalone_mode=False) or 0
    except ClosedOutputError:
        raise
    except BaseException as error:
        # click turns an interrupt into an Abort.
        cause = error.__cause__ if isinstance(error, click.exceptions.Abort) else error
        interrupt = interrupt_behind(cause or error)
        if interrupt is None:
            return _report(error)
        if interrupt.args:
            print_message(interrupt_text(interrupt), error=True)
        return settle(interrupt)


def _report(failure: BaseException) -> int:
    """Print a failure of the command line; return its exit code."""
    try:
        raise failure
    except click.exceptions.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        report_usage_error(error)
        return error.exit_code
    except HarnessError as error:
        report_failure(error)
        return error.exit_code
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno not in EXHAUSTED:
            if not error.filename:
                return report_defect(error)
            # Paths come from the user, and checks of all of them beforehand would be late, too.
            path = display_path(Path(os.fsdecode(error.filename)))
            wrong = UsageError(f"cannot use {path}: {error.strerror}")
            report_failure(wrong)
            return wrong.exit_code
        failure = HostError.of(error, "the host ran out of a resource")
        report_failure(failure)
        return failure.exit_code
    except Exception as error:
        return report_defect(error)
