"""What a store of results says of one result as a whole, of its baselines, and of itself."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.check.history.samples import Provenance
from harness.records.result import ClockQuality
from harness.records.trace import Losses


class LinkFigures(msgspec.Struct, frozen=True):
    """How a result's link was.

    Attributes:
        baud: Rate of the line, 0 when it has none or is not known.
        bytes_carried: In both directions.
        corrupt_frames: Frames rejected.
        retries: Requests sent again.
        goodput: Bytes per second of what was read from the device; null when nobody measured it.
    """

    baud: int
    bytes_carried: int
    corrupt_frames: int
    retries: int
    goodput: float | None


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result in a store.

    Attributes:
        provenance: Where its numbers come from.
        duration_s: How long it took.
        exit_code: How it ended.
        passed: Its verdict; null without one.
        budget: The budget file that it was held against, "" for none.
        failed: How many checks of each code failed.
        warned: How many checks of each code did not hold, without a failure.
        failure: Class of the error that ended it; "" when none did.
        failure_message: What that said.
        runs_requested: Executions asked for.
        runs_completed: Executions done.
        link: How the link was.
        clocks: How well it is known when events were.
        losses: What the log misses.
        indistinct: Numbers left out because others have the same names.
        sound: It passed, every run was done, and no event is missing: it may be part of a baseline.
    """

    provenance: Provenance
    duration_s: float
    exit_code: int
    passed: bool | None
    budget: str
    failed: dict[str, int]
    warned: dict[str, int]
    failure: str
    failure_message: str
    runs_requested: int
    runs_completed: int
    link: LinkFigures
    clocks: tuple[ClockQuality, ...]
    losses: Losses
    indistinct: int
    sound: bool


class NamedBaseline(msgspec.Struct, frozen=True):
    """A baseline with a name.

    Attributes:
        name: What it is called.
        set_utc: When that was said.
        results: How many results it has.
    """

    name: str
    set_utc: str
    results: int


class StoreInfo(msgspec.Struct, frozen=True):
    """What a store is.

    Attributes:
        place: Where it is.
        version: Of its tables.
        rows: Of each table.
    """

    place: str
    version: str
    rows: dict[str, int]


class Tested(msgspec.Struct, frozen=True, order=True):
    """What results are of.

    Attributes:
        board: Board type.
        model: Name of the model's file.
        method: Method that ran.
        results: How many results there are of it.
    """

    board: str
    model: str
    method: str
    results: int


class Added(msgspec.Struct, frozen=True):
    """What came of adding a run directory to a store.

    Attributes:
        path: The directory.
        state: It was added, was there already, or cannot be.
        id: The result's own; "" when nobody knows.
        reason: Why it was refused; or what is not as it should be, although it was added.
    """

    path: str
    state: Literal["added", "there", "refused"]
    id: str = ""
    reason: str = ""
