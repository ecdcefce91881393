"""A qualification on the terminal, as Markdown and as a page to share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from harness.records.qualification import Qualification, StageFigure, StageRecord
from harness.report.html.environment import environment
from harness.report.html.page import page_frame
from harness.report.markdown import escaped, markdown_table
from harness.report.terminal import print_header, show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console

_HEADERS: Final = ("stage", "", "found")
_FIGURE_HEADERS: Final = ("stage", "figure", "value", "unit")


def headline(record: Qualification) -> str:
    """Return the outcome in a sentence."""
    if record.qualified:
        how = ", quickly: less was proven, and the board file gets no line" * record.quick
        return f"QUALIFIED: {record.unit} ({record.board}){how}"
    wrong = ", ".join(stage.name for stage in record.failed)
    open_ = ", ".join(stage.name for stage in record.undecided)
    reasons = [f"failed: {wrong}"] * bool(wrong) + [f"not decided: {open_}"] * bool(open_)
    return f"NOT QUALIFIED: {record.unit} ({record.board}); {'; '.join(reasons)}"


def facts(record: Qualification) -> dict[str, str]:
    """Return what was qualified, with what: labels and texts."""
    clock = record.clock
    if clock:
        clock += "; steps of a simulator" if record.emulated_time else "; real time"
    named = {
        "board": f"{record.board}: {record.description}",
        "note": record.note,
        "port": record.port or "",
        "cpu": record.cpu,
        "firmware": f"build {record.build_id}" if record.build_id else "",
        "kernels": record.kernels,
        "clock": clock,
        "host": f"etdump-harness {record.tool_version} on {record.host}",
        "started": f"{record.started_utc}, {record.duration_s:.0f} s",
        "resumed": ", ".join(record.resumed_utc),
        "board file": f"SHA-256 {record.board_sha256[:16]}",
    }
    return {label: text for label, text in named.items() if text}


def show_qualification(console: Console, record: Qualification, *, verbosity: int = 0) -> None:
    """Print a qualification; only its outcome if ``verbosity`` is negative, figures if positive."""
    if verbosity >= 0:
        print_header(console, facts(record))
        show_table(console, _HEADERS, [_row(stage) for stage in record.stages])
        for stage in record.stages:
            if stage.remedy:
                show_line(console, f"{stage.name}: try: {stage.remedy}")
        if verbosity > 0:
            show_line(console)
            show_table(console, _FIGURE_HEADERS, [*_figure_rows(record)], numbers=[2])
        show_line(console)
    show_line(console, headline(record))
    if record.tested and verbosity >= 0:
        show_line(console, record.tested)


def markdown_qualification(record: Qualification) -> bytes:
    """Return a qualification as Markdown."""
    parts = [f"# {escaped(headline(record))}\n\n"]
    parts.append(markdown_table(("", ""), [*facts(record).items()]))
    parts.append("\n## Stages\n\n")
    parts.append(markdown_table(_HEADERS, [_row(stage) for stage in record.stages]))
    parts += [
        f"\n- {escaped(stage.name)}: try: {escaped(stage.remedy)}"
        for stage in record.stages
        if stage.remedy
    ]
    parts.append("\n## Figures\n\n")
    parts.append(markdown_table(_FIGURE_HEADERS, [*_figure_rows(record)], numbers=[2]))
    if record.tested:
        parts.append(f"\n## For the board file\n\n```toml\n{record.tested}\n```\n")
    return "".join(parts).encode()


def html_qualification(record: Qualification) -> bytes:
    """Return a qualification as a page.

    Raises:
        UsageError: A library is not installed.
    """
    page = environment().get_template("qualification.html.j2")
    rows = [_row(stage) for stage in record.stages]
    return page.render(
        record=record,
        facts=facts(record),
        headers=_HEADERS,
        rows=rows,
        remedies=[(stage.name, stage.remedy) for stage in record.stages if stage.remedy],
        figure_headers=_FIGURE_HEADERS,
        figures=[*_figure_rows(record)],
        **page_frame(headline(record)),
    ).encode()


def _row(stage: StageRecord) -> tuple[str, str, str]:
    state = stage.state if stage.state != "failed" else "FAILED"
    return stage.name, state, stage.message


def _figure_rows(record: Qualification) -> Iterator[tuple[str, str, str, str]]:
    for stage in record.stages:
        for figure in stage.figures:
            yield stage.name, figure.name, _value(figure), figure.unit


def _value(figure: StageFigure) -> str:
    return figure.value if isinstance(figure.value, str) else f"{figure.value:,}"
