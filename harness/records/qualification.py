"""Records of a qualification: what was proven of a board, stage by stage."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

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
