"""``etharness check``, ``explain`` and ``report``: verdicts and their rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli import command
from harness.errors import UsageError
from harness.plugins import BUDGETS, load_extension
from harness.printing import print_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.check.history.samples import BaselineRef
    from harness.records.store_address import StoreAddress
    from harness.records.trace import Trace
    from harness.runs.source import EvaluatedRun, ReadOptions


_etrecord_option = command.option(
    "--etrecord",
    metavar="FILE",
    type=command.FilePath(dir_okay=False),
    help="ETRecord of the model: modules and lines of its code; required by limits on modules.",
)


@click.command(name="check", cls=command.PanelCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH", type=command.FilePath())
@command.panel(
    command.VERDICT,
    command.option(
        "--budget",
        metavar="FILE",
        type=command.FilePath(),
        help="Budget file.  [default: the one the run was checked against; the "
        "project's for a trace alone]",
    ),
    command.option(
        "--board",
        default="",
        metavar="BOARD",
        shell_complete=command.complete_boards,
        help="Apply the budget rules of this board; for a trace without result.json.",
    ),
    command.option(
        "--model",
        default="",
        metavar="MODEL",
        shell_complete=command.complete_models,
        help="Apply the budget rules of this model, a file or a name; likewise. A file "
        "must be of the model that ran.",
    ),
    _etrecord_option,
    command.compared_history_option,
    command.baseline_option,
)
@command.panel(
    "Suggested budget",
    command.option(
        "--suggest",
        "suggested",
        metavar="FILE",
        type=command.FilePath(dir_okay=False),
        help="Write a first budget from the measured values instead; accepts several PATHs.",
    ),
    command.option(
        "--margin",
        default="20%",
        show_default=True,
        metavar="PERCENT",
        callback=command.percentage,
        help="Margin of each suggested limit above the measured value; 0% is exact.",
    ),
    command.option(
        "--own-limit",
        default="5%",
        show_default=True,
        metavar="PERCENT",
        callback=command.percentage,
        help="Share of the total time from which an operator gets its own limit.",
    ),
)
@command.reading_options
@command.panel(command.RESULTS, command.report_option(), command.annotations_option)
@command.output_options
def check_command(
    paths: tuple[Path, ...],
    budget: Path | None,
    etrecord: Path | None,
    board: str,
    model: str,
    history: StoreAddress | None,
    baseline: BaselineRef | None,
    reports: tuple[Path, ...],
    annotations: str | None,
    suggested: Path | None,
    margin: float,
    own_limit: float,
    reading: ReadOptions,
    output: command.OutputOptions,
) -> int:
    """Check a trace against invariants, a budget and a baseline.

    PATH is a run directory, a device log or an ED00 file. A run that was compared with a baseline
    before is compared with the same results again, unless --history or --baseline is given.
    """
    if suggested is not None:
        suggest: Callable[..., int] = load_extension(
            *(BUDGETS, "suggest", "--suggest is"),
            "budgets, or write the budget by hand: `etharness explain budgets`",
        )
        return suggest(suggested, paths, reading.load, margin, own_limit, output)
    if len(paths) > 1:
        raise UsageError(
            f"check takes one PATH, not {len(paths)}", hint="`etharness report` evaluates several"
        )
    (path,) = paths
    from harness.config.project import find_project
    from harness.runs.evaluation import evaluate_path
    from harness.runs.history import history_of
    from harness.runs.source import verdict_record

    against = history_of(history, baseline)
    given = replace(reading, etrecord=etrecord, board=board, model=model)
    fallback = find_project().budget
    run = evaluate_path(path, budget, given, against, fallback, warn=True)
    if run.subject is not None and run.result is None and Path(model).is_file():
        _require_ran(Path(model), run.subject.trace)
    command.write_reports(reports, [run])
    if not run.traced:
        reading.load(path)  # a run without a trace: raises the reason
    command.print_annotations(output, annotations, [run])
    if output.json:
        output.print_json(verdict_record(run))
    else:
        from harness.report.description import describe
        from harness.report.run import print_changes, print_verdict

        console, description = output.console(), describe(run)
        if output.verbosity >= 0:
            print_changes(console, description, detailed=output.verbosity > 0)
        print_verdict(console, description.verdict, verbosity=output.verbosity)
    return run.verdict.exit_code or int(not run.passed)


def _require_ran(model: Path, trace: Trace) -> None:
    """Raise NotComparableError if a trace is not of the model in this file."""
    from harness.analyze.blocks import executed_methods
    from harness.decode.pte import read_program
    from harness.files import read_model

    executed_methods(trace, read_program(read_model(model)))


@click.command(name="explain", cls=command.PanelCommand)
@click.argument("names", nargs=-1, shell_complete=command.complete_pages)
@command.output_options
def explain_command(names: tuple[str, ...], output: command.OutputOptions) -> None:
    """Explain check codes, and print other pages of the documentation.

    NAMES are codes that a verdict prints, such as B01, and names of pages, such as lab. Without
    NAMES, list all.

    If $ETHARNESS_DOCS_URL is the address of a site made by `make docs`, each page ends with its
    address there.
    """
    from harness.documentation import explain, page_names, read_page
    from harness.records.verdict import CODES
    from harness.report.run import explain_document, print_codes, print_pages

    pages = [
        explain(name) if name.upper() in CODES else (None, read_page(name))
        for name in names or (*CODES, *page_names())
    ]
    if output.json:
        print_document(explain_document(pages, with_text=bool(names)))
    elif names:
        print_pages(output.console(), [page for _, page in pages])
    else:
        print_codes(output.console(), CODES.values())
        output.print_line(f"pages: {', '.join(page.name for code, page in pages if code is None)}")


@click.command(name="report", cls=command.PanelCommand)
@click.argument("paths", nargs=-1, required=True, type=command.FilePath())
@command.panel(
    command.VERDICT,
    command.option(
        "--budget",
        metavar="FILE",
        type=command.FilePath(),
        help="Budget file for all runs.  [default: the one each run was checked against, if any]",
    ),
    _etrecord_option,
    command.compared_history_option,
    command.baseline_option,
)
@command.reading_options
@command.panel(
    command.RESULTS,
    command.report_option("-o", "--output"),
    command.option(
        "--top",
        type=click.IntRange(min=1),
        metavar="N",
        help="Operators of a run that HTML shows at first; the others fold.  [default: 8]",
    ),
    command.annotations_option,
)
@command.output_options
def report_command(
    paths: tuple[Path, ...],
    reports: tuple[Path, ...],
    top: int | None,
    annotations: str | None,
    budget: Path | None,
    history: StoreAddress | None,
    baseline: BaselineRef | None,
    etrecord: Path | None,
    reading: ReadOptions,
    output: command.OutputOptions,
) -> int:
    """Evaluate runs again and write one report about them.

    PATHS are run directories, directories with runs anywhere below them, device logs or ED00
    files. Failed runs are included. The exit code is 1 if a run did not pass. Each run is compared
    with the results it was compared with before, unless --history or --baseline is given.
    """
    from harness.config.project import find_project
    from harness.runs.directory import RunDirectory
    from harness.runs.evaluation import evaluate_path
    from harness.runs.history import history_of, run_directories
    from harness.runs.source import all_passed

    runs: list[EvaluatedRun] = []
    against, fallback = history_of(history, baseline), find_project().budget
    reading = replace(reading, etrecord=etrecord)
    found_paths: list[Path] = []
    for path in paths:
        # The test sets of a bundled program are parts of its run, and come with it.
        found_paths += [path] if RunDirectory(path).is_one else run_directories([path])
    with output.stages() as stages:
        for done, path in enumerate(found_paths):
            stages("evaluating", done, len(found_paths))
            run = evaluate_path(path, budget, reading, against, fallback, warn=True)
            runs.extend(run.parts)
        stages("writing", 0, 0)
        command.write_reports(reports, runs, top or 0)
    command.print_annotations(output, annotations, runs)
    if output.json:
        from harness.report.document import report_document

        print_document(report_document(runs))
    else:
        from harness.report.overview import print_overview

        print_overview(output.console(), runs)
    return 0 if all_passed(runs) else 1
