"""``etharness completion``: the completion script of a shell."""

from __future__ import annotations

import click

from harness.cli.options import PanelCommand

COMPLETE_VARIABLE = "_ETHARNESS_COMPLETE"
"""Environment variable by which the script asks ``etharness`` for completions."""

_INSTALLATION = """\b
Installation:
  bash  eval "$(etharness completion bash)" in ~/.bashrc
  zsh   eval "$(etharness completion zsh)" in ~/.zshrc, after compinit
  fish  etharness completion fish > ~/.config/fish/completions/etharness.fish
"""


@click.command(name="completion", cls=PanelCommand, epilog=_INSTALLATION)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a shell completion script.

    The shell then completes commands, options, board names, lab units, models of the package and
    check codes.
    """
    from click.shell_completion import get_completion_class

    from harness.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    click.echo(kind(cli, {}, "etharness", COMPLETE_VARIABLE).source())
