"""Records of the lab as commands print them: leases, the health of units, and flashings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from harness.errors import Owner
from harness.records.result import Failure


class HolderDocument(msgspec.Struct, frozen=True):
    """A lease holder, as printed by ``etharness lab who --json``.

    ``unit`` is the unit's id, null if the resource belongs to no unit. A ``process`` holds it until
    it ends, a ``person`` until ``until_utc`` or a release. ``level`` is the lock level: 0 for the
    first holder, 1 for a process that it started, and so on. ``alive``: the process still runs;
    null for persons and other hosts. ``silent_s`` is the time since its last heartbeat, seconds.
    ``expected_utc`` is when a process expects to be done, null if it does not know. Fields of a
    damaged record are "" or null.
    """

    what: str
    unit: str | None
    kind: Literal["process", "person"]
    level: int
    owner: str
    host: str
    pid: int | None
    command: str
    since_utc: str
    until_utc: str | None
    reason: str
    alive: bool | None
    silent_s: float | None
    expected_utc: str | None = None


class WaiterDocument(msgspec.Struct, frozen=True):
    """A process that waits for a unit, as printed by ``etharness lab status --json``.

    ``place`` is its place in line, from 1. ``goes_first``: it goes before nightly runs, because a
    person waits in the working hours of the unit.
    """

    place: int
    owner: str
    host: str
    pid: int
    command: str
    since_utc: str
    reason: str
    goes_first: bool


class StatusDocument(msgspec.Struct, frozen=True):
    """Who holds a unit and who waits for it, as printed by ``etharness lab status --json``.

    ``people_first`` are the working hours of the unit in local time, "" for none;
    ``people_first_now`` says whether people go before nightly runs at the moment.
    """

    unit: str
    board: str
    holders: list[HolderDocument]
    waiting: list[WaiterDocument]
    people_first: str
    people_first_now: bool


class PortDocument(msgspec.Struct, frozen=True):
    """A serial port of this host, as printed by ``etharness lab ports --json``.

    USB ids are null if it is not on USB. ``unit`` is the id of the unit on this port.
    """

    device: str
    vid: int | None
    pid: int | None
    serial: str
    interface: int | None
    location: str
    links: tuple[str, ...]
    unit: str | None
    holders: list[HolderDocument]


class UnitDocument(msgspec.Struct, frozen=True):
    """A unit of the lab, as printed by ``etharness lab units --json``.

    ``port`` is the port in ``units.toml``, ``device`` its current device name; ``problem`` is the
    reason if it was not found. ``meter`` is the address of its current meter, "" without one.
    """

    id: str
    board: str
    port: str | None
    device: str | None
    problem: str
    probe: str
    power: str
    lease: str
    note: str
    holders: list[HolderDocument]
    meter: str = ""


class LeasedDocument(msgspec.Struct, frozen=True):
    """A lease as ``etharness lab lease --json`` prints it; ``token``: for ``$ETHARNESS_LEASE``."""

    unit: str
    token: str
    until_utc: str
    reason: str


class ReleasedDocument(msgspec.Struct, frozen=True):
    """A released unit and its former holders, as printed by ``etharness lab release --json``."""

    unit: str
    ended: list[str]


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
    message: str
    duration_s: float
    owner: Owner | None = None
    hint: str = ""


class RateQuality(msgspec.Struct, frozen=True):
    """Quality of a line at a baud rate, bits per second; 0 if the line has no rate.

    ``heard``: both ends received each other; if false, nothing was measured, and ``message`` is
    the reason. ``round_trip_us`` are the median and the maximum of ``pings`` round trips,
    microseconds. ``up_bytes_s`` and ``down_bytes_s`` are payload bytes per second of a model upload
    and a trace download, digests included; null if the transfer failed. ``loss`` is the known share
    of ``frames`` that were lost or damaged; ``overruns`` is the number of UART overruns on the
    board.
    """

    baud: int
    heard: bool
    message: str = ""
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
    outcome: str
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


FLASH = "flash.json"


FLASH_LOG = "flash.log"


class FlashAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt; ``stages`` are durations by stage, seconds, ``failure`` is "" after success."""

    duration_s: float
    stages: dict[str, float]
    failure: str = ""


class FlashRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One flashing of one board. Unknown values are null.

    ``others`` are earlier tools in the board file, with the reason why each was skipped. ``probe``
    is VID:PID:Serial, "" if the tool used no probe or selected it itself. ``commands`` are those of
    one attempt. ``verified``: the tool read back the image. ``build_id`` is that of the image,
    ``build_id_before`` and ``build_id_after`` were reported by the board. ``skipped``: the board
    already ran this build. ``failure`` is null after success.
    """

    tool_version: str
    started_utc: str
    duration_s: float
    board: str
    unit: str
    tool: str
    version: str
    why: str
    others: dict[str, str]
    probe: str
    port: str | None
    image: str
    image_format: str
    image_sha256: str
    image_bytes: int
    build_id: str | None
    commands: tuple[tuple[str, ...], ...]
    log: str
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    attempts: tuple[FlashAttempt, ...] = ()
    verified: bool = False
    skipped: bool = False
    build_id_before: str | None = None
    build_id_after: str | None = None
    failure: Failure | None = None
    schema: Literal[1] = 1


class PlannedStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to run; ``files`` are created before it, by path, with their sizes in bytes."""

    stage: str
    argv: tuple[str, ...]
    files: dict[str, int]


class FlashPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Output of ``etharness flash --dry-run --json``; fields as in ``flash.json``."""

    board: str
    tool: str
    why: str
    others: dict[str, str]
    probe: str
    image: str
    image_format: str
    image_bytes: int
    build_id: str | None
    steps: tuple[PlannedStep, ...]


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of ``flash.json`` and of a plan, by their names."""
    return {
        "flash": msgspec.json.schema(FlashRecord),
        "flash-plan": msgspec.json.schema(FlashPlan),
    }
