"""The command ``etharness``: one module per subcommand, imported when it is called."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from harness import __version__
from harness.cli.output import report_failure, report_usage_error
from harness.errors import EXIT_CODES, HarnessError, HostError, UsageError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS = {
    "Run": {
        "run": "Run a model on a board, read its trace and check it.",
        "flash": "Flash firmware onto a board and verify that the board runs it.",
        "pull": "Read the last trace from a board that is already running.",
        "postmortem": "Show what a board was doing when it crashed.",
    },
    "Look at models and traces": {
        "inspect": "Show what a model contains and which boards it fits.",
        "decode": "Show a trace: times, call tree, memory.",
        "compare": "Compare two traces operator by operator.",
        "export": "Write a trace in another tool's format.",
    },
    "Check": {
        "check": "Check a trace against invariants, a budget and a baseline.",
        "budget": "Show the rules of a budget that apply to a board and model.",
        "explain": "Explain check codes.",
        "report": "Evaluate runs again and write one report about them.",
        "replay": "Evaluate an archived run again and compare the verdicts.",
    },
    "Boards over time": {
        "history": "Store results and show how they changed.",
        "nightly": "Run models on all boards of a rack, according to a plan.",
        "site": "Write a static site of all results of a history.",
        "bisect": "Find the commit that changed a measured number, or broke a run.",
        "lab": "List, lease, examine and power-cycle the units of a lab.",
    },
    "Setup": {
        "boards": "List the supported boards.",
        "build": "Build the firmware of a board.",
        "doctor": "List the tools that this host has and lacks.",
        "completion": "Print a shell completion script.",
    },
}
"""Subcommands and their one-line help, here so that --help imports none of them."""

COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}
"""The same by name."""

_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE)
"""System errors about missing resources of the host; any other one is a defect of this program."""


def lazy_group(package: str, sections: Mapping[str, Mapping[str, str]]) -> type[click.Group]:
    """Return a group class whose commands are modules of ``package``.

    Args:
        package: Package of the modules. Each is named after its command and defines it as
            ``command``.
        sections: One-line help by command name, by title of the section that lists them. It stands
            here so that ``--help`` and completion import no subcommand.
    """
    commands = {name: text for section in sections.values() for name, text in section.items()}

    class LazyGroup(click.Group):
        def list_commands(self, _ctx: click.Context) -> list[str]:
            return list(commands)

        def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in commands:
                return None
            module = importlib.import_module(f"{package}.{cmd_name}")
            command: click.Command = module.command
            return command

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            name = args[0]
            if name in commands or name.startswith("-") or ctx.resilient_parsing:
                return super().resolve_command(ctx, args)
            close = did_you_mean(name, commands)
            raise UsageError(
                f"unknown command {name!r}",
                hint=f"{close}`{ctx.command_path} --help` lists all commands",
            )

        def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
            column = max(map(len, commands))
            for title, section in sections.items():
                with formatter.section(title):
                    formatter.write_dl(
                        [(name.ljust(column), text) for name, text in section.items()]
                    )

        def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
            from click.shell_completion import CompletionItem

            # The group's own method would import every subcommand for its help.
            names = [
                CompletionItem(name, help=text)
                for name, text in commands.items()
                if name.startswith(incomplete)
            ]
            return names + click.Command.shell_complete(self, ctx, incomplete)

    return LazyGroup


@click.group(
    cls=lazy_group("harness.cli", SECTIONS),
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
    # Hundreds of thousands of events form no reference cycles, and searching for them is slow.
    gc.set_threshold(1_000_000, 50, 50)
    # A killed job must still stop the simulators it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A pipe on Windows is not in UTF-8. Names that its code page lacks are escaped.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        # The name is also for `python -m harness`.
        code = cli.main(arguments, prog_name="etharness", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as interrupt:
        cause = interrupt.__cause__ or interrupt  # click turns an interrupt into an Abort
        if cause.args:
            click.echo(f"interrupted: {cause}", err=True)
        code = 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        report_usage_error(error)
        code = error.exit_code
    except HarnessError as error:
        report_failure(error)
        code = error.exit_code
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno not in _EXHAUSTED:
            raise
        failure = HostError.of(error, "the host ran out of a resource")
        report_failure(failure)
        code = failure.exit_code
    sys.exit(code or 0)
