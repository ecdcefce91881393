"""``etharness budget``: the rules for one board and model."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completers import complete_boards, complete_models, complete_units
from harness.cli.options import SELECTION, FilePath, PanelCommand, option, output_options, panel
from harness.cli.output import OutputOptions
from harness.errors import UsageError


@click.command(name="budget", cls=PanelCommand)
@click.argument("file", required=False, type=FilePath())
@panel(
    SELECTION,
    option(
        "--board",
        default="",
        metavar="BOARD",
        shell_complete=complete_boards,
        help="Show the rules for this board: a name or a board file.",
    ),
    option(
        "--model",
        default="",
        metavar="MODEL",
        shell_complete=complete_models,
        help="Show the rules for this model: a file or a name.",
    ),
    option(
        "--unit",
        default="",
        metavar="UNIT",
        shell_complete=complete_units,
        help="Show the rules for this lab unit.",
    ),
)
@output_options
def command(file: Path | None, board: str, model: str, unit: str, output: OutputOptions) -> None:
    """Show the rules of a budget that apply to a board and model.

    Each field is printed with the file and line that sets it. Without FILE, show the budget that
    the board file names.
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
            "no budget is selected",
            hint="name a budget FILE, or a --board whose board file names one",
        )
    budget = load_budget(file, name, model_name(model), unit)
    from harness.report.checks import budget_document, print_budget

    if output.json:
        click.echo(budget_document(budget), nl=False)
    else:
        print_budget(output.console(), budget)
