"""Budget: the tables of a budget file, and the rules for one model on one board merged from them.

There is a class for each kind of limit. Every field is optional, because a table may change an
earlier rule with the same id or selection; rules are checked to be complete once all tables are
merged, and ``problem`` of each returns what is missing.

A file is read as if the files that it extends were included at its top, each once. Later rules
override earlier ones: first a file's own rules, then its sections for the board and the model, in
order. A rule in a later file or section changes the earlier rule with the same id, or, without an
id, with the same selection; fields that it does not set keep their earlier value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from harness.analyze.statistics import Executions
from harness.check.history.samples import HistoryLimits
from harness.config.board import Strict, board_names
from harness.config.toml_file import Document, Keys, read_document
from harness.errors import UsageError, did_you_mean
from harness.records.verdict import CODES, Severity

NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Statistic = Literal["count", "total", "avg", "p10", "p50", "p90", "min", "max", "std"]
CountStatistic = Literal["total", "avg", "p10", "p50", "p90", "min", "max"]
Patterns = str | tuple[str, ...]

UNITS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6}
"""Units of time, and the nanoseconds in each."""

_KINDS: Final = (*UNITS, "ticks", "percent", "count")
"""Suffixes of the field names of time limits."""

_LIMIT: Final = "limit_"
_AT_LEAST: Final = "at_least_"
_UPPER: Final = tuple(f"{_LIMIT}{kind}" for kind in _KINDS)
_LOWER: Final = tuple(f"{_AT_LEAST}{kind}" for kind in _KINDS)
GROUPS: Final = (
    *(_UPPER, _LOWER, ("limit_count", "limit_ratio"), ("at_least_count", "at_least_ratio")),
    ("severity", "reason", "expires"),
)
"""Fields that belong together: a table with one of them replaces all of an earlier table."""


class Waiver(Strict, frozen=True):
    """Another severity for a failed check, optionally until a date.

    Attributes:
        severity: Replaces the severity of the code; ``off`` removes the check.
        reason: Why this is acceptable.
        expires: Last day of the waiver; afterwards the severity of the code applies again.
    """

    severity: Severity | Literal["off"] | None = None
    reason: str = ""
    expires: date | None = None

    needed: ClassVar[tuple[str, ...]] = ()
    """Fields that a table must set."""

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

    @classmethod
    def limit_names(cls) -> list[str]:
        """Return the fields that are limits, in the order of the class."""
        return [name for name in cls.__struct_fields__ if name.startswith((_LIMIT, _AT_LEAST))]

    def limits(self) -> Iterator[tuple[str, float, str]]:
        """Yield the limits that are set: field name, value, and the unit at its end."""
        for name in self.limit_names():
            if (value := getattr(self, name)) is not None:
                yield name, float(value), name.rpartition("_")[2]

    def contradiction(self) -> tuple[str, str] | None:
        """Return a lower limit beyond the upper one, and the field at fault; None without."""
        found = {limit[0].startswith(_LIMIT): limit for limit in self.limits()}
        if len(found) < 2:
            return None
        upper, limit, unit = found[True]
        lower, least, own = found[False]
        if unit != own and not {unit, own} <= UNITS.keys():
            return None  # they do not compare
        if least * UNITS.get(own, 1.0) <= limit * UNITS.get(unit, 1.0):
            return None
        return f"{lower} = {least:g} is more than {upper} = {limit:g}", lower

    def problem(self) -> str:
        """Return what is missing, or ""."""
        names = self.limit_names()
        if names and not any(True for _ in self.limits()):
            choice = " or ".join(names) if len(names) == 2 else f"one of {', '.join(names)}"
            return f"limit missing: set {choice}"
        return super().problem()


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
        for names in (_UPPER, _LOWER):
            given = [name for name in names if getattr(self, name) is not None]
            if len(given) > 1:
                raise ValueError(f"give one of {' and '.join(given)}, not both")

    def problem(self) -> str:
        """Return what is missing, or ""."""
        units = [unit for _, _, unit in self.limits()]
        if any((unit == "count") != (self.statistic == "count") for unit in units):
            return "limit_count and at_least_count require statistic = 'count', and vice versa"
        if units and self.of is not None and "percent" not in units:
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
    needed = ("event",)


class ModuleLimit(TimeRule, frozen=True):
    """Limits on the time of each module of the model in an execution, submodules included.

    Attributes:
        module: ``fnmatch`` pattern on the module's path.
    """

    module: str | None = None

    selection: ClassVar[tuple[str, ...]] = ("module", "block", "statistic", "executions")
    needed = ("module",)


class DelegateLimit(TimeRule, frozen=True):
    """Limits on the time that the calls of each backend take in an execution.

    Attributes:
        backend: ``fnmatch`` pattern on the backend's name.
    """

    backend: str | None = None

    selection: ClassVar[tuple[str, ...]] = ("backend", "block", "statistic", "executions")
    needed = ("backend",)


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
    needed = ("counter", "event")

    def problem(self) -> str:
        """Return what is missing, or ""."""
        if any((unit == "ratio") != (self.of is not None) for _, _, unit in self.limits()):
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
    needed = ("event",)


class SampleLimit(Rule, frozen=True):
    """Limits on every sample of the application's counters (``etd_marks.h``).

    Attributes:
        name: ``fnmatch`` pattern on the counter's name, case-sensitive.
        limit_value: Largest value.
        at_least_value: Smallest value.
    """

    name: str | None = None
    limit_value: float | None = None
    at_least_value: float | None = None

    selection: ClassVar[tuple[str, ...]] = ("name",)
    needed = ("name",)


class AccuracyLimit(Rule, frozen=True):
    """Limits on how right the model is over the samples of ``--dataset``.

    Attributes:
        at_least_top1: Smallest share of samples with the right class, from 0 to 1.
        at_least_auc: Smallest area under the ROC curve.
        limit_mean_error: Largest mean absolute error of an element of the outputs.
        limit_rms_error: Largest root of the mean square of the errors.
        limit_max_error: Largest error of any element.
    """

    at_least_top1: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    at_least_auc: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    limit_mean_error: Amount | None = None
    limit_rms_error: Amount | None = None
    limit_max_error: Amount | None = None


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
    needed = ("name",)


class _Share(Rule, frozen=True):
    """An upper limit on a size, in bytes or relative to a capacity.

    Attributes:
        limit_bytes: Limit in bytes.
        limit_percent: Limit in percent of the board's capacity.
    """

    limit_bytes: NotNegative | None = None
    limit_percent: Amount | None = None


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


class Rules(Strict, frozen=True):
    """The rules of a file, or of a section for some boards and models.

    Attributes:
        time: Limits on operators.
        module: Limits on modules of the model.
        delegate: Limits on backends.
        block: Limits on blocks.
        counter: Limits on hardware counters.
        energy: Limits on energy and current.
        sample: Limits on counters that the application samples.
        allocator: Limits on allocators.
        stack: Limit on the stack of every core or task that traces.
        trace: Limit on the size of the log.
        code: Limits on the firmware's size.
        arena: Limit on the model's use of the arena.
        accuracy: Limits on the model's accuracy over samples.
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
    sample: tuple[SampleLimit, ...] = ()
    allocator: tuple[AllocatorLimit, ...] = ()
    stack: StackLimit | None = None
    trace: TraceLimit | None = None
    code: CodeLimit | None = None
    arena: ArenaLimit | None = None
    accuracy: AccuracyLimit | None = None
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


_TABLES: Final = get_type_hints(Rules)

LISTS: Final[dict[str, type[Rule]]] = {
    kind: get_args(hint)[0] for kind, hint in _TABLES.items() if get_origin(hint) is tuple
}
"""Kinds of rules that may occur several times, and their classes."""

SINGLES: Final = tuple(kind for kind in _TABLES if kind not in LISTS and kind != "severity")
"""Kinds of rules that occur once."""

_Tables = dict[str, Any]


class Budget(Rules, frozen=True):
    r"""The rules for one board and model.

    Attributes:
        schema: Version of the file format.
        files: The files that the rules come from, in the order in which they were read.
        lines: ``file:line`` of each rule and each of its fields, relative to the first file.

    Examples:
        >>> import harness
        >>> from pathlib import Path
        >>> text = 'schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 9_000_000\n'
        >>> _ = Path("budget.toml").write_text(text)
        >>> budget = harness.Budget.load("budget.toml", board="native")
        >>> budget.time[0].event
        'Method::execute'
        >>> harness.run("kws_int8", board="native").check(budget).passed
        True
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    files: tuple[str, ...] = ()
    lines: Mapping[Keys, str] = msgspec.field(default_factory=dict)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], board: str = "", model: str = "", unit: str = ""
    ) -> Budget:
        """Read a budget file and the files it extends, for one board and model.

        Args:
            path: The file.
            board: Name of the board type; if empty, only ``*`` matches. The same holds for the
                others.
            model: Name of the model's file.
            unit: Name of the unit (the physical board).

        Raises:
            UsageError: A file is missing or invalid, or files extend each other in a cycle; the
                message names file, line and key.
        """
        return cls.merged(read_files(Path(path)), board, model, unit)

    @classmethod
    def merged(
        cls, files: Sequence[BudgetSource], board: str = "", model: str = "", unit: str = ""
    ) -> Budget:
        """Merge a budget file and those it extends, as ``read_files`` returns them.

        Raises:
            UsageError: As ``load``.
        """
        _check_boards(files, board)
        drafts = _Drafts()
        for file in files:
            drafts.layer(file, file.document.data, ())
            for index, section in enumerate(file.content.sections):
                if _is_for(section, board, model, unit):
                    drafts.layer(file, file.document.data["for"][index], ("for", index))
        return drafts.budget(files[-1].document.path, tuple(file.name for file in files))

    def source(self, *keys: str | int) -> str:
        """Return ``file:line`` of a rule or field, or of the table around it; "" if in no file."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, "")

    def waiver(self, code: str) -> Waiver:
        """Return the entry for a code in the ``[severity]`` table."""
        entry = self.severity.get(code)
        return entry if isinstance(entry, Waiver) else Waiver(severity=entry)


@dataclass(frozen=True, slots=True)
class BudgetSource:
    """A budget file, one of a chain of files that extend each other.

    Attributes:
        document: Its text and tables.
        content: Its rules.
        name: Its path relative to the first file of the chain.
    """

    document: Document
    content: BudgetFile
    name: str


def read_files(path: Path) -> list[BudgetSource]:
    """Read a budget file and all files it extends, each once, in the order in which they apply.

    The file itself comes last.

    Raises:
        UsageError: As ``Budget.load``.
    """
    files: dict[Path, BudgetSource] = {}
    _read_into(files, path, path.parent, ())
    return list(files.values())


def _read_into(
    files: dict[Path, BudgetSource], path: Path, home: Path, chain: tuple[Path, ...]
) -> None:
    document = read_document(path)
    content = document.as_(BudgetFile)
    _check_codes(document, content)
    chain = (*chain, path)
    for index, name in enumerate(_patterns(content.extends)):
        place = document.where(("extends", index))
        extended = Path(os.path.normpath(path.parent / name))
        steps = ", which extends ".join(map(str, (*chain, extended)))
        if Path(name).is_absolute():
            raise UsageError(
                f"{place}: {name!r} is an absolute path",
                hint="write the path relative to this file",
            )
        if extended.resolve() in {each.resolve() for each in chain}:
            raise UsageError(
                f"{place}: budgets extend each other in a cycle: {steps}",
                hint="remove one of these extends",
            )
        if extended.resolve() in files:
            continue
        if not extended.is_file():
            raise UsageError(
                f"{place}: file not found: {steps}", hint="paths are relative to the budget file"
            )
        _read_into(files, extended, home, chain)
    relative = Path(os.path.relpath(path, home)).as_posix()
    files[path.resolve()] = BudgetSource(document, content, relative)


def _check_codes(document: Document, content: BudgetFile) -> None:
    """Raise UsageError for severities of unknown codes, and of codes with a fixed severity."""
    parts: list[tuple[Keys, Rules]] = [((), content)]
    parts += [(("for", index), part) for index, part in enumerate(content.sections)]
    for above, part in parts:
        for code, entry in part.severity.items():
            where = document.where((*above, "severity", code))
            if code not in CODES:
                raise UsageError(
                    f"{where}: unknown check code {code!r}",
                    hint=f"{did_you_mean(code, CODES)}codes are {', '.join(CODES)}",
                )
            if CODES[code].fixed:
                raise UsageError(
                    f"{where}: the severity of {code} cannot be changed",
                    hint=f"remove this line; `etharness explain {code}` explains the check",
                )
            if isinstance(entry, Waiver) and entry.severity is None:
                raise UsageError(
                    f"{where}: severity missing for {code}",
                    hint='add severity = "error", "warning", "note" or "off"',
                )


def _check_boards(files: Sequence[BudgetSource], board: str) -> None:
    """Raise UsageError for a section of a board that nobody knows: a typing error, most likely.

    Known are the packaged boards, the one that the budget is for, and those in ``boards`` of the
    files.
    """
    own = [name for file in files for name in file.content.boards]
    known = dict.fromkeys([*board_names(), board, *own, ""])
    for file in files:
        for index, section in enumerate(file.content.sections):
            for place, pattern in enumerate(_patterns(section.board)):
                if any(fnmatchcase(name, pattern) for name in known):
                    continue
                where = file.document.where(("for", index, "board", place))
                raise UsageError(
                    f"{where}: {pattern!r} matches no known board",
                    hint=f"{did_you_mean(pattern, list(known))}`etharness boards` lists those of "
                    "the package; name a board of your own in boards = [...] at the top of the "
                    "file",
                )


def _is_for(section: Section, board: str, model: str, unit: str) -> bool:
    asked = ((section.board, board), (section.model, model), (section.unit, unit))
    return all(
        any(fnmatchcase(name, pattern) for pattern in _patterns(patterns))
        for patterns, name in asked
    )


def _patterns(patterns: Patterns) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else patterns


@dataclass(frozen=True)
class _Draft:
    """A rule while files are merged.

    Attributes:
        data: The fields set so far.
        lines: ``file:line:column`` of each field; "" is the table.
        layer: Number of the last file or section that changed it.
    """

    data: _Tables = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    layer: int = -1

    def changed(self, data: Mapping[str, Any], lines: Mapping[str, str], layer: int) -> _Draft:
        """Return the rule with the fields of a later table."""
        replaced = {name for group in GROUPS if any(n in data for n in group) for name in group}
        kept = {name: value for name, value in self.data.items() if name not in replaced}
        merged = {**kept, **data}
        if "of" not in data and not any(name.endswith(("_percent", "_ratio")) for name in merged):
            merged.pop("of", None)  # belonged to a limit that was replaced
        return _Draft(merged, {**self.lines, **lines}, layer)


class _Drafts:
    """All rules while files are merged."""

    def __init__(self) -> None:
        self._lists: dict[str, list[_Draft]] = {kind: [] for kind in LISTS}
        self._singles: dict[str, _Draft] = {}
        self._severity: dict[str, tuple[Any, str]] = {}
        self._layers = 0

    def layer(self, file: BudgetSource, data: Mapping[str, Any], above: Keys) -> None:
        """Merge the rules of a file, or of its section at the keys ``above``."""
        self._layers += 1
        for kind in LISTS:
            for index, table in enumerate(data.get(kind, ())):
                lines = _lines(file, (*above, kind, index), table)
                self._add(file, kind, table, lines)
        for kind in SINGLES:
            if kind in data:
                lines = _lines(file, (*above, kind), data[kind])
                draft = self._singles.get(kind, _Draft())
                self._singles[kind] = draft.changed(data[kind], lines, self._layers)
        for code, entry in data.get("severity", {}).items():
            line = file.document.line((*above, "severity", code))
            self._severity[code] = entry, f"{file.name}:{line}"

    def _add(self, file: BudgetSource, kind: str, table: _Tables, lines: dict[str, str]) -> None:
        drafts = self._lists[kind]
        matching = [n for n, draft in enumerate(drafts) if _is_same_rule(kind, draft, table)]
        if "id" in table and any(drafts[n].layer == self._layers for n in matching):
            where = file.document.path.parent / Path(lines[""]).name
            raise UsageError(
                f"{where}: duplicate id {table['id']!r} in [[{kind}]]",
                hint="give each rule of a file its own id",
            )
        earlier = [n for n in matching if drafts[n].layer < self._layers]
        if not earlier:
            drafts.append(_Draft().changed(table, lines, self._layers))
            return
        first, *others = earlier
        drafts[first] = drafts[first].changed(table, lines, self._layers)
        for number in reversed(others):
            del drafts[number]

    def budget(self, path: Path, files: tuple[str, ...]) -> Budget:
        """Return the merged rules, after checking that each is complete."""
        data: _Tables = {"files": files}
        places: dict[Keys, str] = {}
        for kind, drafts in self._lists.items():
            data[kind] = [draft.data for draft in drafts]
            for index, draft in enumerate(drafts):
                places |= _placed((kind, index), draft.lines)
        for kind, draft in self._singles.items():
            data[kind] = draft.data
            places |= _placed((kind,), draft.lines)
        data["severity"] = {code: entry for code, (entry, _) in self._severity.items()}
        places |= {("severity", code): line for code, (_, line) in self._severity.items()}
        budget = msgspec.structs.replace(msgspec.convert(data, Budget), lines=places)
        for keys, rule in each_rule(budget):
            missing = [name for name in rule.needed if getattr(rule, name) is None]
            if problem := f"the key {missing[0]!r} is missing" if missing else rule.problem():
                where = self._where(path, keys)
                raise UsageError(f"{where}: [{keys[0]}] {problem}", hint=self._id_hint(keys))
            if isinstance(rule, Rule) and (found := rule.contradiction()):
                text, field = found
                what = "time" if isinstance(rule, TimeRule) else "count"
                raise UsageError(
                    f"{self._where(path, keys, field)}: [{keys[0]}] {text}",
                    hint=f"no {what} can keep to both: lower the first, or raise the second",
                )
        return budget

    def _where(self, path: Path, keys: Keys, field: str = "") -> str:
        """Return ``file:line:column`` of a rule or of one of its fields."""
        kind = str(keys[0])
        draft = self._lists[kind][int(keys[1])] if kind in LISTS else self._singles[kind]
        return os.path.normpath(path.parent / draft.lines[field])

    def _id_hint(self, keys: Keys) -> str:
        """Return a hint for an incomplete rule whose id matches no earlier rule."""
        kind = str(keys[0])
        own = self._lists[kind][int(keys[1])].data.get("id") if kind in LISTS else None
        if own is None:
            return ""
        others = [draft.data.get("id") for draft in self._lists[kind]]
        known = [name for name in others if name is not None and name != own]
        guess = did_you_mean(own, known).strip()
        return f"no earlier rule has the id {own!r}{': ' if guess else ''}{guess}"


def each_rule(budget: Budget) -> Iterator[tuple[Keys, Waiver]]:
    """Yield every rule of a budget, with its keys for ``Budget.source``."""
    for kind in LISTS:
        for index, rule in enumerate(getattr(budget, kind)):
            yield (kind, index), rule
    for kind in SINGLES:
        if isinstance(rule := getattr(budget, kind), Waiver):
            yield (kind,), rule


def _is_same_rule(kind: str, draft: _Draft, table: _Tables) -> bool:
    """Return whether a table changes this rule: same id, or, without an id, same selection."""
    if "id" in table:
        return bool(draft.data.get("id") == table["id"])
    class_ = LISTS[kind]
    mine, other = (msgspec.convert(data, class_) for data in (draft.data, table))
    return all(getattr(mine, name) == getattr(other, name) for name in class_.selection)


def _lines(file: BudgetSource, keys: Keys, table: Mapping[str, Any]) -> dict[str, str]:
    places = {"": keys, **{name: (*keys, name) for name in table}}
    found = {name: file.document.where(place) for name, place in places.items()}
    return {
        name: f"{file.name}{text[len(str(file.document.path)) :]}" for name, text in found.items()
    }


def _placed(keys: Keys, lines: Mapping[str, str]) -> dict[Keys, str]:
    """Return ``file:line`` of a rule and its fields, as checks cite them."""
    return {
        (*keys, name) if name else keys: place.rpartition(":")[0] for name, place in lines.items()
    }
