"""Command groups that import a subcommand when it is called, and options in titled panels.

Plain click: rich-click draws its boxes into pipes, and cloup doubles the import time of click.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from click.types import OptionHelpExtra


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


_F = TypeVar("_F", bound=Callable[..., Any])

MODEL: Final = "Model"
TARGET: Final = "Target"
FLASHING: Final = "Flashing"
TRACING: Final = "Tracing"
READING: Final = "Trace files"
SELECTION: Final = "Selection"
VERDICT: Final = "Verdict"
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
    """A command whose help shows its options in panels, all aligned to the same column."""

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
