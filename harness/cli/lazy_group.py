"""Command groups that import a subcommand only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from harness.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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
