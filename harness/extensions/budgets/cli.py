"""``etharness budget``: every rule of a budget with the line that sets it."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli import command
from harness.errors import UsageError


@click.command(name="budget", cls=command.PanelCommand)
@click.argument("file", required=False, type=command.FilePath())
@command.panel(
    command.SELECTION,
    command.option(
        "--board",
        default="",
        metavar="BOARD",
        shell_complete=command.complete_boards,
        help="Show the rules for this board: a name or a board file.",
    ),
    command.option(
        "--model",
        default="",
        metavar="MODEL",
        shell_complete=command.complete_models,
        help="Show the rules for this model: a file or a name.",
    ),
    command.option(
        "--unit",
        default="",
        metavar="UNIT",
        shell_complete=command.complete_units,
        help="Show the rules for this lab unit.",
    ),
)
@command.output_options
def budget_command(
    file: Path | None, board: str, model: str, unit: str, output: command.OutputOptions
) -> None:
    """Show the rules of a budget that apply to a board and model.

    Each field is printed with the file and line that sets it. Without FILE, show the budget that
    the board file names.
    """
    from harness.check.budget import Budget
    from harness.check.subject import model_name
    from harness.config.board import load_board
    from harness.extensions.budgets.table import fields, show_budget

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
    budget = Budget.load(file, name, model_name(model), unit)
    if output.json:
        output.print_json(list(fields(budget)))
    else:
        show_budget(output.console(), budget)


budget_command.section = "Check"
