"""Groups of commands, one file each, that are imported when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click


def lazy_group(package: str, commands: Mapping[str, str]) -> type[click.Group]:
    """A kind of group whose commands are modules of ``package``.

    Args:
        package: Where they are. Each module is called as its command, and has it as ``command``.
        commands: One-line help by name, here so that --help imports none of them.
    """

    class LazyGroup(click.Group):
        def list_commands(self, _ctx: click.Context) -> list[str]:
            return list(commands)

        def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in commands:
                return None
            module = importlib.import_module(f"{package}.{cmd_name}")
            command: click.Command = module.command
            return command

        def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(commands.items()))

    return LazyGroup
