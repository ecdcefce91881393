"""Budget: limits on time, memory and losses, as a TOML file states them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from harness.check.codes import Severity
from harness.check.history.settings import HistoryLimits
from harness.toml_file import read_toml

NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Statistic = Literal["count", "avg", "p10", "p50", "p90", "min", "max"]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the budget file: unknown keys are errors."""


class TimeLimit(_Table, frozen=True):
    """An upper limit on a statistic of every operator it matches. Exactly one limit is given.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        block: ``fnmatch`` pattern on the block name.
        statistic: Which statistic of an operator's repeats is limited.
        limit_us: Limit in microseconds.
        limit_ticks: Limit in ticks of the event's own clock.
        limit_count: Limit on how often the operator ran; goes with the statistic ``count``.
    """

    event: str
    block: str = "Execute"
    statistic: Statistic = "p50"
    limit_us: Annotated[float, msgspec.Meta(ge=0)] | None = None
    limit_ticks: Annotated[float, msgspec.Meta(ge=0)] | None = None
    limit_count: NotNegative | None = None

    def __post_init__(self) -> None:
        times = [self.limit_us, self.limit_ticks]
        if self.statistic == "count":
            if self.limit_count is None or times != [None, None]:
                raise ValueError("statistic 'count' needs limit_count, and no other limit")
        elif self.limit_count is not None or times.count(None) != 1:
            raise ValueError("give exactly one of limit_us and limit_ticks")

    @property
    def limit(self) -> tuple[float, str]:
        """The limit and its unit: ``us``, ``ticks`` or ``repeats``."""
        for value, unit in ((self.limit_us, "us"), (self.limit_ticks, "ticks")):
            if value is not None:
                return value, unit
        return float(self.limit_count or 0), "repeats"


class AllocatorLimit(_Table, frozen=True):
    """An upper limit on what every allocator it matches holds at any time; none may fail.

    Attributes:
        name: ``fnmatch`` pattern on the allocator's name, case-sensitive.
        limit_bytes: Limit in bytes.
    """

    name: str
    limit_bytes: NotNegative


class StackLimit(_Table, frozen=True):
    """An upper limit on the deepest that a stack was during the runs; none may have overflowed.

    Attributes:
        limit_bytes: Limit in bytes.
    """

    limit_bytes: NotNegative


class LossLimit(_Table, frozen=True):
    """How much a log may miss: events, block or allocator declarations, values, records, and events
    of a damaged file of which the rest was read.

    Runs that were given up for newer ones were so because the run asked for it, so any number of
    them is allowed unless ``runs`` says how many.
    """

    events: NotNegative = 0
    blocks: NotNegative = 0
    values: NotNegative = 0
    runs: NotNegative | None = None
    records: NotNegative = 0
    damaged: NotNegative = 0


class Budget(_Table, frozen=True):
    """A budget file.

    Attributes:
        schema: Version of this file format, 1.
        time: Limits on operators.
        allocator: Limits on allocators.
        stack: Limit on the stack of every core or task that traces.
        losses: Allowed losses.
        severity: What it means when checks of a code do not hold, instead of what the code says;
            ``off`` leaves them out.
        history: When a change since earlier results is one.
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    time: tuple[TimeLimit, ...] = ()
    allocator: tuple[AllocatorLimit, ...] = ()
    stack: StackLimit | None = None
    losses: LossLimit = LossLimit()
    severity: dict[str, Severity | Literal["off"]] = {}
    history: HistoryLimits = HistoryLimits()


def load_budget(path: Path) -> Budget:
    """Read a budget file.

    Raises:
        UsageError: The file is missing or wrong; the message names the file and the key.
    """
    return read_toml(path, Budget)
