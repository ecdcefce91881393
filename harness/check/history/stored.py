"""Records that a result store returns: results, baselines, and information about the store."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.check.history.samples import Provenance
from harness.records.result import ClockQuality
from harness.records.trace import Losses


class LinkFigures(msgspec.Struct, frozen=True):
    """Link statistics of a result.

    Attributes:
        baud: Baud rate, 0 if unknown or not a serial line.
        bytes_carried: Bytes in both directions.
        corrupt_frames: Frames rejected.
        retries: Requests sent again.
        goodput: Payload read from the device in bytes per second; null if not measured.
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
        duration_s: Duration of the run.
        exit_code: Exit code of the run.
        passed: Its verdict; null without one.
        budget: Path of the budget file, "" without one.
        failed: Number of failed checks by code (errors).
        warned: Number of failed checks by code (warnings and notes).
        failure: Class of the error that ended the run; "" without an error.
        failure_message: Message of this error.
        runs_requested: Requested executions.
        runs_completed: Completed executions.
        link: Link statistics.
        clocks: Accuracy of each clock.
        losses: Losses of the log.
        indistinct: Numbers left out because others have the same metric.
        complete: All executions completed, no event is missing and no invariant failed, so that its
            numbers are part of a series, whatever its verdict.
        sound: It is complete and passed; only sound results become part of a baseline by
            themselves.
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
    complete: bool
    sound: bool


class NamedBaseline(msgspec.Struct, frozen=True):
    """A baseline with a name.

    Attributes:
        name: Its name.
        set_utc: Time at which it was set.
        results: Number of its results.
    """

    name: str
    set_utc: str
    results: int


class StoreInfo(msgspec.Struct, frozen=True):
    """Information about a store.

    Attributes:
        place: Its path or URL.
        version: Version of its tables.
        rows: Number of rows of each table.
    """

    place: str
    version: str
    rows: dict[str, int]


class Tested(msgspec.Struct, frozen=True, order=True):
    """A board, model and method with stored results.

    Attributes:
        board: Board type.
        model: Name of the model's file.
        method: Method that ran.
        results: Number of its results.
    """

    board: str
    model: str
    method: str
    results: int


class Added(msgspec.Struct, frozen=True):
    """The outcome of adding a run directory to a store.

    Attributes:
        path: The directory.
        state: ``added``; ``there``: already in the store; ``updated``: likewise, and a verdict
            given later was recorded; ``refused``.
        id: Id of the result; "" if unknown.
        reason: Why it was refused, or a warning about an added result.
    """

    path: str
    state: Literal["added", "there", "updated", "refused"]
    id: str = ""
    reason: str = ""


class CopyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of copying a history to another one.

    Attributes:
        results: Number of compared results: both histories have them with the same numbers.
        copied: Number of results that were added; the other ones were there already.
        verdicts: Number of verdicts that were replaced.
        baselines: Number of named baselines that were added or replaced.
        decisions: Number of decisions that were added.
    """

    results: int
    copied: int
    verdicts: int
    baselines: int
    decisions: int
