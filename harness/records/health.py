"""Health of a unit: findings, measured baud rates, and steps to heal it."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.errors import Owner

Part = Literal["firmware", "port", "answer", "identity", "crash", "line"]
"""The checks of a unit, in order: its firmware builds, its port opens, the board answers, it is the
expected board, it has no crash record, its line transfers data without losses.
"""

Step = Literal["open again", "flash", "reset", "power cycle"]
"""Steps that can heal a unit."""


class HealthFinding(msgspec.Struct, frozen=True):
    """Result of one check; ``owner`` is the owner of a failure."""

    part: Part
    state: Literal["ok", "warn", "fail"]
    said: str
    duration_s: float
    owner: Owner | None = None
    hint: str = ""


class RateQuality(msgspec.Struct, frozen=True):
    """Quality of a line at a baud rate, bits per second; 0 if the line has no rate.

    ``heard``: both ends received each other; if false, nothing was measured, and ``said`` is the
    reason. ``round_trip_us`` are the median and the maximum of ``pings`` round trips, microseconds.
    ``up_bytes_s`` and ``down_bytes_s`` are payload bytes per second of a model upload and a trace
    download, digests included; null if the transfer failed. ``loss`` is the known share of
    ``frames`` that were lost or damaged; ``overruns`` is the number of UART overruns on the board.
    """

    baud: int
    heard: bool
    said: str = ""
    pings: int = 0
    round_trip_us: tuple[float, float] | None = None
    up_bytes_s: float | None = None
    down_bytes_s: float | None = None
    frames: int = 0
    loss: float = 0.0
    overruns: int = 0


class Healing(msgspec.Struct, frozen=True):
    """A step to heal a unit, and whether the unit was healthy after it."""

    step: Step
    said: str
    healthy: bool
    duration_s: float


class Health(msgspec.Struct, frozen=True):
    """Health of a unit, as printed by ``etharness lab health --json``.

    ``exit_code`` and ``owner`` are those of the failure, 0 and null without one. ``rates`` are the
    measured baud rates; ``advised_baud`` is the best of several, null if there was no choice or no
    good one. ``healing`` are the steps taken; the findings are from after the last one.
    """

    unit: str
    board: str
    port: str | None
    healthy: bool
    exit_code: int
    owner: Owner | None
    findings: tuple[HealthFinding, ...]
    rates: tuple[RateQuality, ...] = ()
    advised_baud: int | None = None
    healing: tuple[Healing, ...] = ()

    @property
    def failure(self) -> HealthFinding | None:
        """The finding that failed, or None."""
        return next((each for each in self.findings if each.state == "fail"), None)
