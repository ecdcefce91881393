"""Rules: the tables of a budget file, one class for each kind of limit.

Every field may be left out, for a table may change what an earlier one says by its id or its
selection. What a rule must say in the end is checked when all tables are put together
(``harness.check.budget``): ``problem`` of each says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec

from harness.check.history.settings import HistoryLimits
from harness.records.check_codes import Severity

NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Statistic = Literal["count", "total", "avg", "p10", "p50", "p90", "min", "max", "std"]
Executions = Literal["all", "cold", "warm"]
Patterns = str | tuple[str, ...]

UNITS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6}
"""Units of time, and the nanoseconds in each."""

_KINDS: Final = (*UNITS, "ticks", "percent", "count")
"""What limits on times end in."""

UPPER: Final = tuple(f"limit_{kind}" for kind in _KINDS)
LOWER: Final = tuple(f"at_least_{kind}" for kind in _KINDS)
WAIVER: Final = ("severity", "reason", "expires")
GROUPS: Final = (UPPER, LOWER, WAIVER)
"""Fields that belong together: who gives one of them replaces all that an earlier table gave."""


class BudgetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a budget file: unknown keys are errors, and no number is infinite."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is no finite number")


class Waiver(BudgetTable, frozen=True):
    """What it means when a check does not hold, and until when.

    Attributes:
        severity: Instead of what the code says; ``off`` leaves the check out.
        reason: Why that is all right.
        expires: The last day on which it is; from then on the code's own severity holds again.
    """

    severity: Severity | Literal["off"] | None = None
    reason: str = ""
    expires: date | None = None

    def problem(self) -> str:
        """What is missing, or ""."""
        if self.severity is None and (self.reason or self.expires is not None):
            return "reason and expires explain a severity: give that, too"
        return ""


class Rule(Waiver, frozen=True):
    """What all rules may say.

    Attributes:
        id: A name by which a later table changes this rule.
        optional: It may match nothing.
    """

    id: str | None = None
    optional: bool = False

    selection: ClassVar[tuple[str, ...]] = ()
    """Fields that say what a rule is about: who gives them all alike changes an earlier rule."""


class TimeRule(Rule, frozen=True):
    """Limits on a statistic of times. One upper limit, one lower limit, or one of each.

    Attributes:
        block: ``fnmatch`` pattern on the block name.
        statistic: Which statistic is limited.
        executions: Over all executions, the first one after loading, or the others.
        limit_ns: Upper limit in nanoseconds.
        limit_us: In microseconds.
        limit_ms: In milliseconds.
        limit_ticks: In ticks of the event's own clock.
        limit_percent: In percent of the same statistic of what ``of`` names.
        limit_count: How many times there may be; goes with the statistic ``count``.
        at_least_ns: Lower limit in nanoseconds: what is quicker has not computed what it should.
        at_least_us: In microseconds.
        at_least_ms: In milliseconds.
        at_least_ticks: In ticks.
        at_least_percent: In percent of ``of``.
        at_least_count: How many times there must be.
        of: Name of the events that are 100 percent, summed in each execution.
    """

    block: str = "Execute"
    statistic: Statistic = "p50"
    executions: Executions = "all"
    limit_ns: Amount | None = None
    limit_us: Amount | None = None
    limit_ms: Amount | None = None
    limit_ticks: Amount | None = None
    limit_percent: Amount | None = None
    limit_count: NotNegative | None = None
    at_least_ns: Amount | None = None
    at_least_us: Amount | None = None
    at_least_ms: Amount | None = None
    at_least_ticks: Amount | None = None
    at_least_percent: Amount | None = None
    at_least_count: NotNegative | None = None
    of: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for names in (UPPER, LOWER):
            given = [name for name in names if getattr(self, name) is not None]
            if len(given) > 1:
                raise ValueError(f"give one of {' and '.join(given)}, not both")

    def limits(self) -> Iterator[tuple[str, float, str]]:
        """The limits given: name of the field, value, and unit."""
        for name in (*UPPER, *LOWER):
            if (value := getattr(self, name)) is not None:
                yield name, float(value), name.rpartition("_")[2]

    def problem(self) -> str:
        """What is missing, or ""."""
        units = [unit for _, _, unit in self.limits()]
        if not units:
            return f"gives no limit: one of {', '.join(UPPER)}, or of {', '.join(LOWER)}"
        if any((unit == "count") != (self.statistic == "count") for unit in units):
            return "statistic 'count' needs limit_count or at_least_count, and no other limit"
        if self.of is not None and "percent" not in units:
            return "of goes with limit_percent or at_least_percent"
        return super().problem()


class TimeLimit(TimeRule, frozen=True):
    """Limits on operators: on each that matches, or on their sum in each execution.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        leaving_out: Patterns on names of events that are not meant; ``except`` in the file.
        instruction: Only this instruction.
        chain: Only this chain.
        delegate: Pattern on the delegate's debug id; only events that have one.
        per: Whether every event counts, or the sum of all that match within one execution.
    """

    event: str | None = None
    leaving_out: Patterns = msgspec.field(default=(), name="except")
    instruction: int | None = None
    chain: int | None = None
    delegate: str | None = None
    per: Literal["event", "execution"] = "event"

    selection: ClassVar[tuple[str, ...]] = (
        *("event", "instruction", "chain", "delegate", "per"),
        *("block", "statistic", "executions"),
    )

    def problem(self) -> str:
        """What is missing, or ""."""
        return "names no event" if self.event is None else super().problem()


class ModuleLimit(TimeRule, frozen=True):
    """Limits on what each module of the model takes in an execution, those within it included.

    Attributes:
        module: ``fnmatch`` pattern on the module's path.
    """

    module: str | None = None

    selection: ClassVar[tuple[str, ...]] = ("module", "block", "statistic", "executions")

    def problem(self) -> str:
        """What is missing, or ""."""
        return "names no module" if self.module is None else super().problem()


class DelegateLimit(TimeRule, frozen=True):
    """Limits on what the calls of each backend take in an execution.

    Attributes:
        backend: ``fnmatch`` pattern on the backend's name.
    """

    backend: str | None = None

    selection: ClassVar[tuple[str, ...]] = ("backend", "block", "statistic", "executions")

    def problem(self) -> str:
        """What is missing, or ""."""
        return "names no backend" if self.backend is None else super().problem()


class BlockLimit(TimeRule, frozen=True):
    """Limits on blocks: on what their outermost events take together."""

    selection: ClassVar[tuple[str, ...]] = ("block", "statistic", "executions")


class AllocatorLimit(Rule, frozen=True):
    """Limits on every allocator that matches. None may fail unless that is allowed.

    Attributes:
        name: ``fnmatch`` pattern on the allocator's name, case-sensitive.
        limit_bytes: The most that it may hold at any time.
        limit_total_bytes: What it may hold at the end.
        limit_failures: How many allocations it may refuse.
        limit_failed_bytes: How many bytes these may have asked for.
    """

    name: str | None = None
    limit_bytes: NotNegative | None = None
    limit_total_bytes: NotNegative | None = None
    limit_failures: NotNegative = 0
    limit_failed_bytes: NotNegative | None = None

    selection: ClassVar[tuple[str, ...]] = ("name",)

    def problem(self) -> str:
        """What is missing, or ""."""
        return "names no allocator" if self.name is None else super().problem()


class _Share(Rule, frozen=True):
    """An upper limit on a number of bytes, or on their share of what there is.

    Attributes:
        limit_bytes: Limit in bytes.
        limit_percent: Limit in percent of what the board has.
    """

    limit_bytes: NotNegative | None = None
    limit_percent: Amount | None = None

    def problem(self) -> str:
        """What is missing, or ""."""
        if self.limit_bytes is None and self.limit_percent is None:
            return "gives no limit: limit_bytes or limit_percent"
        return super().problem()


class StackLimit(_Share, frozen=True):
    """Limit on the deepest that a stack was during the runs; none may have overflowed."""


class TraceLimit(_Share, frozen=True):
    """Limit on the log as the device sent it; a share is one of its room for it."""


class ArenaLimit(_Share, frozen=True):
    """Limit on what the model takes of the arena: its data and what describes its method."""


class CodeLimit(Rule, frozen=True):
    """Limits on the linked firmware, where it was built here.

    Attributes:
        limit_text_bytes: Code and constants.
        limit_data_bytes: Initialised variables.
        limit_bss_bytes: Zeroed variables.
        limit_flash_bytes: Text and data.
        limit_ram_bytes: Data and bss.
    """

    limit_text_bytes: NotNegative | None = None
    limit_data_bytes: NotNegative | None = None
    limit_bss_bytes: NotNegative | None = None
    limit_flash_bytes: NotNegative | None = None
    limit_ram_bytes: NotNegative | None = None

    PARTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("text",),
        "data": ("data",),
        "bss": ("bss",),
        "flash": ("text", "data"),
        "ram": ("data", "bss"),
    }
    """What is limited, and the sections that it is the sum of."""

    def problem(self) -> str:
        """What is missing, or ""."""
        names = [f"limit_{part}_bytes" for part in self.PARTS]
        if all(getattr(self, name) is None for name in names):
            return f"gives no limit: {', '.join(names)}"
        return super().problem()


class LossLimit(Waiver, frozen=True):
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


CodeSeverity = Severity | Literal["off"] | Waiver
"""What ``[severity]`` says of a code."""


class Rules(BudgetTable, frozen=True):
    """The rules of a file, or of a part of it that is for some boards and models.

    Attributes:
        time: Limits on operators.
        module: Limits on modules of the model.
        delegate: Limits on backends.
        block: Limits on blocks.
        allocator: Limits on allocators.
        stack: Limit on the stack of every core or task that traces.
        trace: Limit on the size of the log.
        code: Limits on the firmware's size.
        arena: Limit on the model's use of the arena.
        losses: Allowed losses.
        severity: What it means when checks of a code do not hold, instead of what the code says.
        history: When a change since earlier results is one.
    """

    time: tuple[TimeLimit, ...] = ()
    module: tuple[ModuleLimit, ...] = ()
    delegate: tuple[DelegateLimit, ...] = ()
    block: tuple[BlockLimit, ...] = ()
    allocator: tuple[AllocatorLimit, ...] = ()
    stack: StackLimit | None = None
    trace: TraceLimit | None = None
    code: CodeLimit | None = None
    arena: ArenaLimit | None = None
    losses: LossLimit = LossLimit()
    severity: dict[str, CodeSeverity] = {}
    history: HistoryLimits = HistoryLimits()


class Section(Rules, frozen=True):
    """Rules for the boards and models that match. Of several patterns one has to.

    Attributes:
        board: ``fnmatch`` patterns on the board's name.
        model: On the name of the model's file.
        unit: On the name of the board of this type.
    """

    board: Patterns = "*"
    model: Patterns = "*"
    unit: Patterns = "*"


class BudgetFile(Rules, frozen=True, kw_only=True):
    """A budget file.

    Attributes:
        schema: Version of this file format, 1.
        extends: Budget files, relative to this one, whose rules come before these.
        sections: Rules for some boards and models only, which come after these; ``for`` in the
            file.
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    extends: Patterns = ()
    sections: tuple[Section, ...] = msgspec.field(default=(), name="for")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of budget files, which editors of TOML understand, too."""
    return msgspec.json.schema(BudgetFile)
