"""``etharness explain``: what a check means."""

from __future__ import annotations

import click

from harness.cli.common import OutputOptions, output_options


@click.command(name="explain")
@click.argument("codes", nargs=-1)
@output_options
def command(codes: tuple[str, ...], output: OutputOptions) -> None:
    """Say what checks mean, by the codes that a verdict gives.

    Without CODES all there are are listed.
    """
    from harness.check.pages import explain
    from harness.records.check_codes import CODES
    from harness.report.explain import print_codes, print_pages

    found = [explain(code) for code in codes]
    if output.json:
        from harness.report.explain import explain_document

        click.echo(explain_document(found or [(code, None) for code in CODES.values()]), nl=False)
    elif found:
        print_pages(output.console(), [page for _, page in found])
    else:
        print_codes(output.console(), CODES.values())
