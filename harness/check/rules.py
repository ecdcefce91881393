"""Rules: the tables of a budget file, one class for each kind of limit.

Every field is optional, because a table may change an earlier rule with the same id or selection.
``harness.check.budget`` checks that a rule is complete once all tables are merged; ``problem`` of
each rule returns what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, ClassVar, Final, Literal

import msgspec

from harness.check.history.settings import BudgetTable, HistoryLimits
from harness.records.check_codes import Severity

NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Statistic = Literal["count", "total", "avg", "p10", "p50", "p90", "min", "max", "std"]
CountStatistic = Literal["total", "avg", "p10", "p50", "p90", "min", "max"]
Executions = Literal["all", "cold", "warm"]
Patterns = str | tuple[str, ...]

UNITS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6}
"""Units of time, and the nanoseconds in each."""

_KINDS: Final = (*UNITS, "ticks", "percent", "count")
"""Suffixes of the field names of time limits."""

UPPER: Final = tuple(f"limit_{kind}" for kind in _KINDS)
LOWER: Final = tuple(f"at_least_{kind}" for kind in _KINDS)
WAIVER: Final = ("severity", "reason", "expires")
_UPPER_COUNTS: Final = ("limit_count", "limit_ratio")
_LOWER_COUNTS: Final = ("at_least_count", "at_least_ratio")
GROUPS: Final = (UPPER, LOWER, _UPPER_COUNTS, _LOWER_COUNTS, WAIVER)
"""Fields that belong together: a table with one of them replaces all of an earlier table."""


class Waiver(BudgetTable, frozen=True):
    """Another severity for a failed check, optionally until a date.

    Attributes:
        severity: Replaces the severity of the code; ``off`` removes the check.
        reason: Why this is acceptable.
        expires: Last day of the waiver; afterwards the severity of the code applies again.
    """

    severity: Severity | Literal["off"] | None = None
    reason: str = ""
    expires: date | None = None

    def problem(self) -> str:
        """Return what is missing, or ""."""
        if self.severity is None and (self.reason or self.expires is not None):
            return "reason and expires need a severity"
        return ""


class Rule(Waiver, frozen=True):
    """Fields that all rules have.

    Attributes:
        id: Name by which a later table changes this rule.
        optional: The rule may match nothing.
    """

    id: str | None = None
    optional: bool = False

    selection: ClassVar[tuple[str, ...]] = ()
    """Fields that select what a rule applies to; a table with equal values changes the rule."""


class TimeRule(Rule, frozen=True):
    """Limits on a statistic of times. One upper limit, one lower limit, or one of each.

    Attributes:
        block: ``fnmatch`` pattern on the block name.
        statistic: Which statistic is limited.
        executions: All executions, the cold one (first after loading), or the warm ones.
        limit_ns: Upper limit in nanoseconds.
        limit_us: In microseconds.
        limit_ms: In milliseconds.
        limit_ticks: In ticks of the event's own clock.
        limit_percent: In percent of the same statistic of the events named by ``of``.
        limit_count: Upper limit on the number of times; needs the statistic ``count``.
        at_least_ns: Lower limit in nanoseconds; a faster operator cannot have done its work.
        at_least_us: In microseconds.
        at_least_ms: In milliseconds.
        at_least_ticks: In ticks.
        at_least_percent: In percent of ``of``.
        at_least_count: Lower limit on the number of times.
        of: Name of the events that count as 100 percent, summed in each execution.
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
        """Yield the limits that are set: field name, value, and unit."""
        for name in (*UPPER, *LOWER):
            if (value := getattr(self, name)) is not None:
                yield name, float(value), name.rpartition("_")[2]

    def contradiction(self) -> tuple[str, str] | None:
        """Return a lower limit beyond the upper one, and the field at fault; None without."""
        found = {
            name.rpartition("_")[0]: (name, value, unit) for name, value, unit in self.limits()
        }
        if len(found) < 2:
            return None
        upper, limit, unit = found["limit"]
        lower, least, own = found["at_least"]
        if (unit in UNITS) != (own in UNITS) or (unit not in UNITS and unit != own):
            return None  # they do not compare
        if least * UNITS.get(own, 1.0) <= limit * UNITS.get(unit, 1.0):
            return None
        return f"{lower} = {least:g} is more than {upper} = {limit:g}", lower

    def problem(self) -> str:
        """Return what is missing, or ""."""
        units = [unit for _, _, unit in self.limits()]
        if not units:
            return f"limit missing: set one of {', '.join((*UPPER, *LOWER))}"
        if any((unit == "count") != (self.statistic == "count") for unit in units):
            return "limit_count and at_least_count require statistic = 'count', and vice versa"
        if self.of is not None and "percent" not in units:
            return "of requires limit_percent or at_least_percent"
        return super().problem()


class TimeLimit(TimeRule, frozen=True):
    """Limits on matching operators: on each, or on their sum in each execution.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        leaving_out: Patterns on names of events to exclude; ``except`` in the file.
        instruction: Only this instruction.
        chain: Only this chain.
        delegate: Pattern on the delegate's debug id; matches only events that have one.
        per: Limit every event, or the sum of all matching events in one execution.
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
        """Return what is missing, or ""."""
        return "the key 'event' is missing" if self.event is None else super().problem()


class ModuleLimit(TimeRule, frozen=True):
    """Limits on the time of each module of the model in an execution, submodules included.

    Attributes:
        module: ``fnmatch`` pattern on the module's path.
    """

    module: str | None = None

    selection: ClassVar[tuple[str, ...]] = ("module", "block", "statistic", "executions")

    def problem(self) -> str:
        """Return what is missing, or ""."""
        return "the key 'module' is missing" if self.module is None else super().problem()


class DelegateLimit(TimeRule, frozen=True):
    """Limits on the time that the calls of each backend take in an execution.

    Attributes:
        backend: ``fnmatch`` pattern on the backend's name.
    """

    backend: str | None = None

    selection: ClassVar[tuple[str, ...]] = ("backend", "block", "statistic", "executions")

    def problem(self) -> str:
        """Return what is missing, or ""."""
        return "the key 'backend' is missing" if self.backend is None else super().problem()


class BlockLimit(TimeRule, frozen=True):
    """Limits on blocks: on the sum of their outermost events."""

    selection: ClassVar[tuple[str, ...]] = ("block", "statistic", "executions")


class CounterLimit(Rule, frozen=True):
    """Limits on what a hardware counter counted, or on its ratio to another counter.

    Attributes:
        counter: Name of the counter, such as ``instret``.
        of: Another counter; ``limit_ratio`` and ``at_least_ratio`` are of the first divided by it.
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        leaving_out: Patterns on names of events to exclude; ``except`` in the file.
        instruction: Only this instruction.
        chain: Only this chain.
        delegate: Pattern on the delegate's debug id; matches only events that have one.
        per: Limit every event, or the sum of all matching events in one execution.
        block: ``fnmatch`` pattern on the block name.
        statistic: Which statistic of the counts, or of the ratios, is limited.
        executions: All executions, the cold one (first after loading), or the warm ones.
        limit_count: Upper limit on the count.
        limit_ratio: Upper limit on the ratio.
        at_least_count: Lower limit on the count; fewer instructions cannot have done the work.
        at_least_ratio: Lower limit on the ratio.
    """

    counter: str | None = None
    of: str | None = None
    event: str | None = None
    leaving_out: Patterns = msgspec.field(default=(), name="except")
    instruction: int | None = None
    chain: int | None = None
    delegate: str | None = None
    per: Literal["event", "execution"] = "event"
    block: str = "Execute"
    statistic: CountStatistic = "p50"
    executions: Executions = "all"
    limit_count: Amount | None = None
    limit_ratio: Amount | None = None
    at_least_count: Amount | None = None
    at_least_ratio: Amount | None = None

    selection: ClassVar[tuple[str, ...]] = (
        *("counter", "of", "event", "instruction", "chain", "delegate", "per"),
        *("block", "statistic", "executions"),
    )

    def limits(self) -> Iterator[tuple[str, float]]:
        """Yield the limits that are set: field name and value."""
        for name in (*_UPPER_COUNTS, *_LOWER_COUNTS):
            if (value := getattr(self, name)) is not None:
                yield name, float(value)

    def contradiction(self) -> tuple[str, str] | None:
        """Return a lower limit beyond the upper one, and the field at fault; None without."""
        found = dict(self.limits())
        for kind in ("count", "ratio"):
            upper, lower = f"limit_{kind}", f"at_least_{kind}"
            if upper in found and lower in found and found[lower] > found[upper]:
                text = f"{lower} = {found[lower]:g} is more than {upper} = {found[upper]:g}"
                return text, lower
        return None

    def problem(self) -> str:
        """Return what is missing, or ""."""
        for name in ("counter", "event"):
            if getattr(self, name) is None:
                return f"the key {name!r} is missing"
        names = [name for name, _ in self.limits()]
        if not names:
            return f"limit missing: set one of {', '.join((*_UPPER_COUNTS, *_LOWER_COUNTS))}"
        if any(name.endswith("_ratio") != (self.of is not None) for name in names):
            return "limit_ratio and at_least_ratio require of, another counter, and vice versa"
        return super().problem()


class EnergyLimit(Rule, frozen=True):
    """Limits on the energy and the current of every matching operator, for runs with a meter.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        instruction: Only this instruction.
        block: ``fnmatch`` pattern on the block name.
        limit_uj: Limit on the mean energy of an event, its bound included, in microjoules.
        limit_average_ma: Limit on the mean current in milliamperes.
        limit_peak_ma: Limit on the largest sample in milliamperes.
    """

    event: str | None = None
    instruction: int | None = None
    block: str = "Execute"
    limit_uj: Amount | None = None
    limit_average_ma: Amount | None = None
    limit_peak_ma: Amount | None = None

    selection: ClassVar[tuple[str, ...]] = ("event", "instruction", "block")

    def problem(self) -> str:
        """Return what is missing, or ""."""
        if self.event is None:
            return "the key 'event' is missing"
        names = ("limit_uj", "limit_average_ma", "limit_peak_ma")
        if all(getattr(self, name) is None for name in names):
            return f"limit missing: set one of {', '.join(names)}"
        return super().problem()


class AllocatorLimit(Rule, frozen=True):
    """Limits on every matching allocator. By default no allocation may fail.

    Attributes:
        name: ``fnmatch`` pattern on the allocator's name, case-sensitive.
        limit_bytes: Limit on its peak use.
        limit_total_bytes: Limit on its use at the end.
        limit_failures: Limit on the number of failed allocations.
        limit_failed_bytes: Limit on the bytes that failed allocations requested.
    """

    name: str | None = None
    limit_bytes: NotNegative | None = None
    limit_total_bytes: NotNegative | None = None
    limit_failures: NotNegative = 0
    limit_failed_bytes: NotNegative | None = None

    selection: ClassVar[tuple[str, ...]] = ("name",)

    def problem(self) -> str:
        """Return what is missing, or ""."""
        return "the key 'name' is missing" if self.name is None else super().problem()


class _Share(Rule, frozen=True):
    """An upper limit on a size, in bytes or relative to a capacity.

    Attributes:
        limit_bytes: Limit in bytes.
        limit_percent: Limit in percent of the board's capacity.
    """

    limit_bytes: NotNegative | None = None
    limit_percent: Amount | None = None

    def problem(self) -> str:
        """Return what is missing, or ""."""
        if self.limit_bytes is None and self.limit_percent is None:
            return "limit missing: set limit_bytes or limit_percent"
        return super().problem()


class StackLimit(_Share, frozen=True):
    """Limit on the peak use of a stack during the runs; an overflow always fails."""


class TraceLimit(_Share, frozen=True):
    """Limit on the size of the log as sent by the device, or on its share of the log buffer."""


class ArenaLimit(_Share, frozen=True):
    """Limit on the model's use of the arena: its data and the description of its method."""


class CodeLimit(Rule, frozen=True):
    """Limits on the linked firmware, for runs that built it.

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
    """Limited sizes, and the sections that each is the sum of."""

    def problem(self) -> str:
        """Return what is missing, or ""."""
        names = [f"limit_{part}_bytes" for part in self.PARTS]
        if all(getattr(self, name) is None for name in names):
            return f"limit missing: set one of {', '.join(names)}"
        return super().problem()


class LossLimit(Waiver, frozen=True):
    """Allowed losses of a log: events, block or allocator declarations, values, records, and
    damaged events of a partly readable file.

    Runs are dropped in favor of newer ones only if the run asked for it, so any number of them is
    allowed unless ``runs`` sets a limit.
    """

    events: NotNegative = 0
    blocks: NotNegative = 0
    values: NotNegative = 0
    runs: NotNegative | None = None
    records: NotNegative = 0
    damaged: NotNegative = 0


CodeSeverity = Severity | Literal["off"] | Waiver
"""An entry of the ``[severity]`` table."""


class Rules(BudgetTable, frozen=True):
    """The rules of a file, or of a section for some boards and models.

    Attributes:
        time: Limits on operators.
        module: Limits on modules of the model.
        delegate: Limits on backends.
        block: Limits on blocks.
        counter: Limits on hardware counters.
        energy: Limits on energy and current.
        allocator: Limits on allocators.
        stack: Limit on the stack of every core or task that traces.
        trace: Limit on the size of the log.
        code: Limits on the firmware's size.
        arena: Limit on the model's use of the arena.
        losses: Allowed losses.
        severity: Severities of failed checks by code; replace the default of the code.
        history: Settings of the comparison with earlier results.
    """

    time: tuple[TimeLimit, ...] = ()
    module: tuple[ModuleLimit, ...] = ()
    delegate: tuple[DelegateLimit, ...] = ()
    block: tuple[BlockLimit, ...] = ()
    counter: tuple[CounterLimit, ...] = ()
    energy: tuple[EnergyLimit, ...] = ()
    allocator: tuple[AllocatorLimit, ...] = ()
    stack: StackLimit | None = None
    trace: TraceLimit | None = None
    code: CodeLimit | None = None
    arena: ArenaLimit | None = None
    losses: LossLimit = LossLimit()
    severity: dict[str, CodeSeverity] = msgspec.field(default_factory=dict)
    history: HistoryLimits = HistoryLimits()


class Section(Rules, frozen=True):
    """Rules for matching boards and models. With several patterns, one has to match.

    Attributes:
        board: ``fnmatch`` patterns on the name of the board type.
        model: ``fnmatch`` patterns on the name of the model's file.
        unit: ``fnmatch`` patterns on the name of the unit (the physical board).
    """

    board: Patterns = "*"
    model: Patterns = "*"
    unit: Patterns = "*"


class BudgetFile(Rules, frozen=True, kw_only=True):
    """A budget file.

    Attributes:
        schema: Version of this file format, 1.
        extends: Budget files, relative to this one; their rules apply before these.
        boards: Names of your own boards. A section that names a board that is neither one of these
            nor a packaged one is an error.
        sections: Rules for some boards and models only; they apply after these. ``for`` in the
            file.
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    extends: Patterns = ()
    boards: tuple[str, ...] = ()
    sections: tuple[Section, ...] = msgspec.field(default=(), name="for")
