"""``etharness explain``: pages of the documentation, by check code or by name."""

from __future__ import annotations

import click

from harness.cli.completers import complete_pages
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="explain", cls=PanelCommand)
@click.argument("names", nargs=-1, shell_complete=complete_pages)
@output_options
def command(names: tuple[str, ...], output: OutputOptions) -> None:
    """Explain check codes, and print other pages of the documentation.

    NAMES are codes that a verdict prints, such as B01, and names of pages, such as lab. Without
    NAMES, list all.

    If $ETHARNESS_DOCS_URL is the address of a site made by `make docs`, each page ends with its
    address there.
    """
    from harness.check.pages import explain
    from harness.documentation import page_names, read_page
    from harness.records.check_codes import CODES
    from harness.report.checks import explain_document, print_codes, print_pages

    found = [
        explain(name) if name.upper() in CODES else (None, read_page(name))
        for name in names or (*CODES, *page_names())
    ]
    if output.json:
        click.echo(explain_document(found, with_text=bool(names)), nl=False)
    elif names:
        print_pages(output.console(), [page for _, page in found])
    else:
        print_codes(output.console(), CODES.values())
        output.print_line(f"pages: {', '.join(page.name for code, page in found if code is None)}")
