"""``etharness budget``: the rules for one board and model, and where each comes from."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.paths import FilePath
from harness.errors import UsageError


@click.command(name="budget")
@click.argument("file", required=False, type=FilePath())
@click.option("--board", default="", help="Board name, or board file, that the rules are for.")
@click.option("--model", default="", help="The model that they are for: its file, or its name.")
@click.option("--unit", default="", help="The board of this type that they are for.")
@output_options
def command(file: Path | None, board: str, model: str, unit: str, output: OutputOptions) -> None:
    """Show a budget's rules for a board and model, and where each is from.

    Without FILE it is the budget that the board file names.
    """
    from harness.check.budget import load_budget
    from harness.check.subject import model_name
    from harness.config.board import load_board

    name = board
    if board.endswith(".toml") or (file is None and board):
        description, path = load_board(board)
        name = description.name
        if file is None and description.budget is not None:
            file = path.parent / description.budget
    if file is None:
        raise UsageError(
            "it is not clear which budget is meant",
            hint="name a FILE, or a --board whose board file names one",
        )
    budget = load_budget(file, name, model_name(model), unit)
    from harness.report.budget import budget_document, print_budget

    if output.json:
        click.echo(budget_document(budget), nl=False)
    else:
        print_budget(output.console(), budget)
