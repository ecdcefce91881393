"""State of a bisection: what was asked for, and every run so far, in one file.

All decisions are computed from the runs again, so the file is all that a resumed bisection needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from harness.bisect.commits import Commit
from harness.errors import HostError, UsageError
from harness.files import MOST_DOCUMENT, display_path, read_limited, write_atomic
from harness.records.decode_json import decode_json
from harness.records.result import encode

STATE: Final = "bisect.json"
"""Name of the file in the folder of a bisection."""

Outcome = Literal["measured", "skipped", "infrastructure"]
"""How a run ended: with a value; without one, and a retry would not help; by a failure of the host,
the line or a tool, which a retry may cure."""


ValueUnit = Literal["ns", "ticks", "bytes", ""]
"""Unit of values; empty for the metric ``verdict``."""


class BisectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bisection was asked for.

    Attributes:
        commits: The good commit, then all commits up to the bad one, oldest first.
        command: The command that builds and runs a commit.
        folder: Folder below the top of the repository that it is started in.
        metric: What is measured, as in ``--metric``.
        change: Share by which a bad commit differs from the good one at least; None for half of
            the difference between good and bad.
        max_runs: Runs of one commit at most, without retries.
        retries: Retries after a failure of the infrastructure.
        timeout_s: Longest time of one run, seconds.
        started_utc: When it began.
    """

    commits: tuple[Commit, ...]
    command: tuple[str, ...]
    folder: str
    metric: str
    change: float | None
    max_runs: int
    retries: int
    timeout_s: float
    started_utc: str

    @property
    def good(self) -> Commit:
        """The good commit."""
        return self.commits[0]

    @property
    def bad(self) -> Commit:
        """The bad commit."""
        return self.commits[-1]


class CommitRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of one commit.

    Attributes:
        commit: Hash of the commit.
        outcome: How it ended.
        exit_code: Exit code of the command, negative for a signal; None if it timed out.
        seconds: How long it took, without the checkout.
        value: The measured value; for the metric ``verdict`` 1 if the run failed, else 0.
        unit: Unit of the value.
        resolution: Smallest difference that the clock shows, in the same unit; 0 for sizes.
        repeatable: The value is the same in every run: a time of an emulator's clock, or a size.
        run: Its run directory, relative to the folder of the bisection; empty without one.
        reason: Why it has no value.
    """

    commit: str
    outcome: Outcome
    exit_code: int | None
    seconds: float
    value: float = 0.0
    unit: ValueUnit = ""
    resolution: float = 0.0
    repeatable: bool = False
    run: str = ""
    reason: str = ""


class BisectState(msgspec.Struct, frozen=True):
    """A bisection with all its runs, in their order."""

    request: BisectRequest
    runs: tuple[CommitRun, ...] = ()
    schema: Literal[1] = 1

    def followed_by(self, run: CommitRun) -> BisectState:
        """Return the state after one more run."""
        return msgspec.structs.replace(self, runs=(*self.runs, run))


def write_state(folder: Path, state: BisectState) -> None:
    """Write the state into the folder of its bisection, atomically.

    Raises:
        HostError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / STATE, encode(state))
    except OSError as error:
        raise HostError.of(error, "cannot save the state of the bisection") from error


def read_state(folder: Path) -> BisectState | None:
    """Read the state from the folder of a bisection; None if there is no bisection.

    Raises:
        UsageError: The file is damaged, or of another version.
    """
    path = folder / STATE
    try:
        return decode_json(read_limited(path, MOST_DOCUMENT), type_=BisectState)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{display_path(path)}: not the state of a bisection of this version: {error}",
            hint="`etharness bisect --reset` removes it",
        ) from error
    except OSError as error:
        raise HostError.of(error, "cannot read the state of the bisection") from error
