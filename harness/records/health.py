"""Health of a unit: what was examined, what was found, what was done about it."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.errors import Owner

Part = Literal["firmware", "port", "answer", "identity", "crash", "line"]
"""What is asked of a unit: that its firmware builds, its port opens, somebody answers, it is the
board that it should be, it keeps nothing of a crash, its line carries what it should.
"""


Step = Literal["open again", "flash", "reset", "power cycle"]
"""What can be done to make a unit well."""


class HealthFinding(msgspec.Struct, frozen=True):
    """What was found of one part; ``owner`` has to look at what is not ok."""

    part: Part
    state: Literal["ok", "warn", "fail"]
    said: str
    duration_s: float
    owner: Owner | None = None
    hint: str = ""


class RateQuality(msgspec.Struct, frozen=True):
    """What a line does at a rate, bits per second, 0 when it has none.

    ``heard`` says whether both ends heard each other at it; without, nothing was measured, and
    ``said`` is why. ``round_trip_us`` are the median and the longest of ``pings`` answers,
    microseconds. ``up_bytes_s`` and ``down_bytes_s`` are payload bytes per second of a model and of
    a trace, digests included; null where none could be brought over. ``loss`` is the share of
    ``frames`` that were lost or damaged, as far as is known; ``overruns`` is how often the board's
    UART lost bytes.
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
    """A step to make a unit well: what was done, and whether it was well then."""

    step: Step
    said: str
    healthy: bool
    duration_s: float


class Health(msgspec.Struct, frozen=True):
    """What ``etharness lab health --json`` prints of a unit.

    ``exit_code`` and ``owner`` are those of the failure, 0 and null if there is none. ``rates`` are
    those that were measured; ``advised_baud`` is which of several is best, null when there was no
    choice or none is good. ``healing`` are the steps that were taken, the last of which the
    findings follow.
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
        """The finding that makes it unwell."""
        return next((each for each in self.findings if each.state == "fail"), None)
