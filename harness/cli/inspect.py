"""``etharness inspect``: the contents of a model, and the boards that it fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from harness.cli.completers import complete_boards, complete_models
from harness.cli.options import SELECTION, FilePath, PanelCommand, option, output_options, panel
from harness.cli.output import OutputOptions
from harness.errors import FormatError, UsageError
from harness.files import display_path


@click.command(name="inspect", cls=PanelCommand)
@click.argument("model", type=FilePath(), shell_complete=complete_models)
@panel(
    SELECTION,
    option(
        "--board",
        "boards",
        multiple=True,
        metavar="BOARD",
        shell_complete=complete_boards,
        help="Check this board: a name or a board file; repeatable.  [default: all boards]",
    ),
)
@output_options
def command(model: Path, boards: tuple[str, ...], output: OutputOptions) -> int:
    """Show what a model contains and which boards it fits.

    Lists methods, operators with their multiply-accumulates and bytes moved, constants and planned
    memory. Compares the model's needs with each board: kernels, model size, arena, inputs; and says
    whether it fits when it is placed in flash (`etharness build --model`). Exits with 1 if it fits
    a board that --board names in neither way. -v lists the tensors of the planned memory.

    With --board, also estimates the instructions of every operator from measured coefficients.
    """
    from harness.analyze.instructions import instruction_model
    from harness.check.fit import fit
    from harness.check.placement import fit_placed
    from harness.config.board import board_names, load_board
    from harness.decode.bundled_program import is_bundled_program, read_bundled_program
    from harness.decode.pte import read_program
    from harness.files import find_model, read_model
    from harness.report.model import describe_model, model_document, print_model
    from harness.target.build import code_sizes

    path = find_model(model)
    data, test_sets = read_model(path), None
    try:
        if is_bundled_program(data):
            bundled = read_bundled_program(data)
            data, test_sets = bundled.program, bundled.test_sets
        program = read_program(data)
    except FormatError as error:
        raise UsageError(f"{display_path(model)}: {error.message}", hint=error.hint) from error
    described = [load_board(name)[0] for name in boards or board_names()]
    codes = code_sizes(described)
    fits = [
        [
            replace(
                fit(method, len(data), board),
                placed=fit_placed(method, program.methods, len(data), board, code),
            )
            for board, code in zip(described, codes, strict=True)
        ]
        for method in program.methods
    ]
    instructions = [instruction_model(board) for board in described]
    found = describe_model(display_path(model), len(data), program, fits, instructions, test_sets)
    if output.json:
        click.echo(model_document(found), nl=False)
    else:
        print_model(output.console(), found, reasons=bool(boards), detailed=output.verbosity > 0)
    misfits = [each for row in fits for each in row if each.fits is False]
    missing = any(each.placed is None or each.placed.fits is False for each in misfits)
    return 1 if boards and missing else 0
