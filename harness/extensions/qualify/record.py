"""Records of a qualification: what was proven of a board, stage by stage; for people, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from harness.report.markdown import escaped, markdown_table
from harness.report.terminal import print_header, show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console

QUALIFICATION: Final = "qualification.json"

StageState = Literal["passed", "failed", "not offered", "skipped", "not run"]
"""How a stage ended. ``not offered``: this board cannot do it, which is no pass. ``skipped``: not
asked for. ``not run``: the time was over, or an earlier stage left nothing to ask.
"""

DONE: Final = ("passed", "not offered")
"""States of stages that `--resume` does not repeat."""


class StageFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measured or counted value, with its unit; "" for a plain number or a text."""

    name: str
    value: int | float | str
    unit: str = ""


class StageRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage: what it found, its figures, and what to try if it did not pass."""

    name: str
    title: str
    state: StageState
    message: str = ""
    remedy: str = ""
    duration_s: float = 0.0
    figures: tuple[StageFigure, ...] = ()


class Qualification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A qualification, as ``etharness qualify`` writes it to ``qualification.json``.

    ``board_sha256`` is the digest of the board file. ``build_id``, ``cpu``, ``kernels`` and
    ``clock`` are what the firmware reports; "" until it has answered. ``emulated_time``: the clock
    counts steps of a simulator, so no time here is that of a real board. ``qualified`` is true once
    every stage has passed or is not offered. ``tested`` is the line for the board file, "" without
    a qualification, and after a ``quick`` one, which proves less. ``resumed_utc`` are the starts of
    later sessions of the same qualification.
    """

    tool_version: str
    host: str
    started_utc: str
    duration_s: float
    board: str
    description: str
    board_sha256: str
    port: str | None
    unit: str
    note: str
    emulated_time: bool
    qualified: bool
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    stages: tuple[StageRecord, ...]
    cpu: str = ""
    build_id: str = ""
    kernels: str = ""
    clock: str = ""
    tested: str = ""
    resumed_utc: tuple[str, ...] = ()
    quick: bool = False
    schema: Literal[1] = 1

    def stage(self, name: str) -> StageRecord:
        """Return the stage of this name."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def failed(self) -> tuple[StageRecord, ...]:
        """The stages that failed."""
        return tuple(stage for stage in self.stages if stage.state == "failed")

    @property
    def undecided(self) -> tuple[StageRecord, ...]:
        """The stages that were skipped or not run."""
        return tuple(stage for stage in self.stages if stage.state in ("skipped", "not run"))


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


def _row(stage: StageRecord) -> tuple[str, str, str]:
    state = stage.state if stage.state != "failed" else "FAILED"
    return stage.name, state, stage.message


def _figure_rows(record: Qualification) -> Iterator[tuple[str, str, str, str]]:
    for stage in record.stages:
        for figure in stage.figures:
            yield stage.name, figure.name, _value(figure), figure.unit


def _value(figure: StageFigure) -> str:
    return figure.value if isinstance(figure.value, str) else f"{figure.value:,}"
