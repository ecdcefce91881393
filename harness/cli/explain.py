"""``etharness explain``: the pages about checks."""

from __future__ import annotations

import click

from harness.cli.completers import complete_codes
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="explain", cls=PanelCommand)
@click.argument("codes", nargs=-1, shell_complete=complete_codes)
@output_options
def command(codes: tuple[str, ...], output: OutputOptions) -> None:
    """Explain check codes.

    CODES are those that a verdict prints, such as B01. Without CODES, list all checks.
    """
    from harness.check.pages import explain
    from harness.records.check_codes import CODES
    from harness.report.checks import print_codes, print_pages

    found = [explain(code) for code in codes]
    if output.json:
        from harness.report.checks import explain_document

        click.echo(explain_document(found or [(code, None) for code in CODES.values()]), nl=False)
    elif found:
        print_pages(output.console(), [page for _, page in found])
    else:
        print_codes(output.console(), CODES.values())
