"""Writes a first budget from measured runs: the plugin ``suggest`` of ``etharness.budgets``."""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from harness.analyze.statistics import Operator
from harness.check.budget import BlockLimit, CounterLimit, Statistic, TimeLimit, TimeRule
from harness.check.evaluate import evaluate
from harness.check.limits import Durations, LimitTarget, matching, selected_operators
from harness.check.subject import Subject
from harness.cli.command import OutputOptions
from harness.config.board import board_names
from harness.errors import UsageError, write_error
from harness.records.trace import EXECUTION, is_wrapper
from harness.report.words import counted
from harness.runs.evaluation import load_rules
from harness.runs.source import Source, subject_of

_TIMES: Final = (("ms", 1e6), ("us", 1e3), ("ns", 1.0))
_ROUNDING: Final = 1 / 20
"""Share of the margin that rounding up may add."""

_INSTRUCTIONS: Final = "instret"
"""The counter of executed instructions."""

_WIDTH: Final = 100

_ARRAYS: Final = ("block", "time", "counter", "allocator")
"""Tables of which a budget has several."""

_QUIET: Final = 1 / 4
"""Spread of the runs, as a part of the margin, up to which the margin alone covers it."""

_SLOW_PHASE: Final = 1.25
"""Room for a phase in which a busy host is slower than in any of the runs (docs/budgets.md)."""


def write_suggestion(
    file: Path,
    paths: Sequence[Path],
    load: Callable[[Path], Source],
    margin: float,
    share: float,
    output: OutputOptions,
) -> int:
    """Write a budget suggested from measurements, and check the same runs by it.

    Args:
        file: The budget file to write; an existing file is not replaced.
        paths: Run directories or traces.
        load: Reads the traces of a path.
        margin: As for `suggest`.
        share: As for `suggest`.
        output: How to print the checks of its limits.

    Returns:
        The exit code, 1 if a check failed.

    Raises:
        UsageError: The file exists or cannot be written, or a path contains no execution.
        DamagedError: A file of a run is damaged.
    """
    if file.exists():
        raise UsageError(f"{file} already exists", hint="name another file with --suggest")
    sources = [load(path).require_sound() for path in paths]
    subjects = [subject_of(source.trace, source.result) for source in sources]
    for path, subject in zip(paths, subjects, strict=True):
        if not any(run.executes for run in subject.runs):
            raise UsageError(
                f"{path} contains no execution to suggest limits from",
                hint="`etharness decode` shows its events",
            )
    try:
        file.write_text(suggest(subjects, margin, share), encoding="utf-8")
    except OSError as error:
        raise write_error(error, f"cannot write the budget {file}") from error
    verdicts = [evaluate(subject, load_rules(file, subject)) for subject in subjects]
    checks = [check for verdict in verdicts for check in verdict.checks if check.source]
    unmet = sum(not check.passed for check in checks)
    if output.json:
        output.print_json(checks)
    elif output.verbosity >= 0:
        passed = f"{unmet} failed" if unmet else "all passed"
        output.print_line(
            f"{file}: {counted(len(checks), 'check')} of the measured values, {passed}"
        )
    return 1 if unmet else 0


def suggest(
    subjects: Sequence[Subject],
    margin: float = 0.2,
    share: float = 0.05,
    statistic: Statistic = "p50",
) -> str:
    """Return the text of a budget file that these subjects pass.

    Args:
        subjects: One or more. Subjects with the same board and model share a section.
        margin: Relative margin of the limits above the measured values. With 0, limits are exact,
            and time limits are in ticks if there is one clock.
        share: Smallest share of the execution time for which an operator gets its own limit.
        statistic: The limited statistic. Where the runs differ by more than the margin covers, it
            is ``min`` instead, which other programs of a busy host disturb least.
    """
    groups: dict[tuple[str, str], list[Subject]] = {}
    for subject in subjects:
        groups.setdefault((subject.board, subject.model), []).append(subject)
    lines = [
        "# A first budget, written by `etharness check --suggest`. Limits are the measured values",
        f"# plus {_percent(margin)}; time limits apply to the {statistic}.",
        "# `etharness explain budgets` describes all rules.",
        "schema = 1",
    ]
    own = sorted({board for board, _ in groups} - {"", *board_names()})
    lines += [f"boards = {_toml(tuple(own))}"] if own else []
    for (board, model), group in sorted(groups.items()):
        prefix = ""
        lines += ["", _comment(group)]
        if len(groups) > 1 or board or model:
            prefix = "for."
            lines += ["[[for]]", f"board = {_pattern(board)}", f"model = {_pattern(model)}"]
        found = _Group(group, prefix, margin, share, statistic)
        lines += [f"# {line}" for line in found.about_noise()]
        for table in found.tables():
            lines += ["", *table]
    return "\n".join(lines) + "\n"


class _Group:
    """Runs of one model on one board."""

    def __init__(
        self,
        subjects: Sequence[Subject],
        prefix: str,
        margin: float,
        share: float,
        statistic: Statistic,
    ) -> None:
        self._subjects, self._prefix = subjects, prefix
        self._margin, self._share, self._statistic = margin, share, statistic
        self._times = [Durations(subject) for subject in subjects]

    @cached_property
    def _spread(self) -> float:
        """How much slower the slowest median is than the fastest execution; median of operators.

        Pooled, because operators share the host: what slows one of them slows the others next time.
        """
        medians: dict[tuple[Any, ...], float] = {}
        fastest: dict[tuple[Any, ...], float] = {}
        for subject in self._subjects:
            for op in filter(_is_work, subject.operators):
                if (times := op.times) is not None and times.min > 0:
                    medians[op.signature] = max(times.p50, medians.get(op.signature, 0.0))
                    fastest[op.signature] = min(times.min, fastest.get(op.signature, times.min))
        ratios = [medians[key] / fastest[key] - 1 for key in medians]
        return median(ratios) if ratios else 0.0

    @property
    def _noisy(self) -> bool:
        """Whether the spread is too large for limits on the measured statistic."""
        return self._margin > 0 and self._spread > _QUIET * self._margin

    def about_noise(self) -> Iterator[str]:
        """Yield lines on the spread, if it changes the limits."""
        if self._noisy:
            yield f"Executions differ by {_percent(round(self._spread, 2))}, as on a busy host:"
            yield "time limits apply to the fastest execution of a run (min), and leave room for a"
            yield "slower phase of the host."

    def tables(self) -> Iterator[list[str]]:
        """Yield the suggested tables, times first."""
        blocks = dict.fromkeys(
            run.name for subject in self._subjects for run in subject.runs if run.executes
        )
        for block in blocks:
            yield from self._of_block(block)
        yield from self._allocators()
        yield from self._sizes()

    def _table(self, name: str, fields: dict[str, Any], comment: str) -> list[str]:
        """Return the lines of a table of the budget file."""
        header = f"{self._prefix}{name}"
        lines = [f"# {comment}"] if comment else []
        lines.append(f"[[{header}]]" if name in _ARRAYS else f"[{header}]")
        return lines + [f"{field} = {_toml(value)}" for field, value in fields.items()]

    def _of_block(self, block: str) -> Iterator[list[str]]:
        """Yield limits for the whole execution, its largest operators, and the rest."""
        escaped = _escaped(block)
        yield from self._rule("block", BlockLimit(block=escaped), "the whole execution")
        operators = [op for op in self._operators(block) if _is_work(op)]
        large = self._large(operators, block)
        keys = {op.signature for op in large}
        names = dict.fromkeys(op.name for op in large)
        for op in large:
            rule = TimeLimit(
                block=escaped,
                event=_escaped(op.name),
                chain=op.chain,
                instruction=op.instruction,
                delegate=_delegate(op),
            )
            yield from self._rule("time", rule, "")
        for name in names:
            if any(op.name == name and op.signature not in keys for op in operators):
                rule = TimeLimit(block=escaped, event=_escaped(name), per="execution")
                yield from self._rule("time", rule, "all of this name")
        left_out = [*names, *dict.fromkeys(op.name for op in self._scopes(block))]
        if any(op.name not in left_out for op in operators):
            rule = TimeLimit(block=escaped, event="*", leaving_out=tuple(map(_escaped, left_out)))
            yield from self._rule("time", rule, "each of the others")
        yield from self._counters(block, large)

    def _counters(self, block: str, large: Sequence[Operator]) -> Iterator[list[str]]:
        """Yield limits on every counter for the whole execution, and on instructions of operators.

        Instructions are the same in every run, where times are not.
        """
        names = [counter.name for counter in self._subjects[0].trace.counters]
        wholes = [op for op in self._operators(block) if op.name == EXECUTION]
        chosen = [(op, name) for op in wholes[:1] for name in names if name.isprintable()]
        chosen += [(op, _INSTRUCTIONS) for op in large if _INSTRUCTIONS in names]
        for op, name in chosen:
            rule = CounterLimit(
                counter=name,
                event=_escaped(op.name),
                chain=op.chain,
                instruction=op.instruction,
                delegate=_delegate(op),
                block=_escaped(block),
                statistic="max",
            )
            runs = [self._counted(rule, subject) for subject in self._subjects]
            found = [op for operators in runs for op in operators]
            if not found or any(len(op.rows) > op.counters[name].count for op in found):
                continue  # with a count missing, no limit holds
            most = max(op.counters[name].max for op in found)
            fields = _fields(rule) | {"limit_count": math.ceil(self._above(most))}
            if not all(runs):
                fields["optional"] = True
            yield self._table("counter", fields, f"measured {most:,.0f}")

    def _counted(self, rule: CounterLimit, subject: Subject) -> list[Operator]:
        selected = selected_operators(rule, subject)
        return [op for op in selected if rule.counter in op.counters]

    def _operators(self, block: str) -> list[Operator]:
        """Return every operator of the blocks with this name, once."""
        found: dict[tuple[Any, ...], Operator] = {}
        for subject in self._subjects:
            for op in subject.operators:
                if op.block == block:
                    found.setdefault(op.signature, op)
        return list(found.values())

    def _scopes(self, block: str) -> list[Operator]:
        return [op for op in self._operators(block) if not _is_work(op)]

    def _large(self, operators: Sequence[Operator], block: str) -> list[Operator]:
        """Return operators that reach the share of the execution time in any run."""
        shares: dict[tuple[Any, ...], float] = {}
        for subject in self._subjects:
            for op in subject.operators:
                if op.block == block and op.share is not None:
                    shares[op.signature] = max(op.share, shares.get(op.signature, 0.0))
        large = [op for op in operators if shares.get(op.signature, 0.0) >= self._share]
        return sorted(large, key=lambda op: -shares.get(op.signature, 0.0))

    def _rule(self, kind: str, rule: TimeRule, about: str) -> Iterator[list[str]]:
        """Yield the rule with a limit that all runs meet, if the times are known."""
        statistic: Statistic = "min" if self._noisy else self._statistic
        rule = msgspec.structs.replace(rule, statistic=statistic)
        found = [matching(rule, times)[0] for times in self._times]
        targets = [target for targets in found for target in targets]
        for unit in ("ticks", "ns") if self._margin == 0 else ("ns", "ticks"):
            values = [target.values.measure(rule.statistic, unit) for target in targets]
            known = [value for value in values if value is not None]
            if not values or len(known) < len(values):
                continue
            measured, slow = max(known), _slow(found, unit) if self._noisy else 0.0
            field, limit = self._limit(max(measured, slow), unit)
            fields = _fields(rule) | {field: limit}
            if not all(found):
                fields["optional"] = True
            comment = f"measured {_time(measured, unit)}"
            comment += f", slow executions {_time(slow / _SLOW_PHASE, unit)}" if slow else ""
            yield self._table(kind, fields, f"{about}: {comment}" if about else comment)
            return

    def _limit(self, measured: float, unit: str) -> tuple[str, float]:
        if unit == "ticks":
            return "limit_ticks", self._above(measured)
        if self._margin == 0:
            return "limit_ns", measured
        wanted = measured * (1 + self._margin)
        name, size = _unit(wanted)
        return f"limit_{name}", self._above(measured / size)

    def _above(self, measured: float) -> float:
        """Return a readable number that is larger by the margin."""
        if not self._margin:
            return measured
        return readable(measured * (1 + self._margin), self._margin * _ROUNDING)

    def _bytes(self, measured: float) -> int:
        return math.ceil(self._above(measured))

    def _allocators(self) -> Iterator[list[str]]:
        totals: dict[str, list[Any]] = {}
        for subject in self._subjects:
            for item in subject.allocators:
                if item.count or item.failures:
                    totals.setdefault(item.label, []).append(item)
        for label, items in totals.items():
            peak = max(item.peak_bytes for item in items)
            fields: dict[str, Any] = {"name": _Escaped(label), "limit_bytes": self._bytes(peak)}
            if failures := max(item.failures for item in items):
                fields["limit_failures"] = failures
            if len(items) < len(self._subjects):
                fields["optional"] = True
            yield self._table("allocator", fields, f"measured {peak:,} bytes")

    def _sizes(self) -> Iterator[list[str]]:
        subjects = self._subjects
        stacks = [stack for subject in subjects for stack in subject.trace.stacks]
        if all(subject.trace.stacks for subject in subjects):
            if any(stack.overflowed for stack in stacks):
                comment = "a stack was used completely and may have overflowed: enlarge it"
                yield self._table("stack", {"limit_percent": 99, "severity": "off"}, comment)
            else:
                yield self._size("stack", max(stack.used for stack in stacks))
        taken = [subject.arena_used for subject in subjects if subject.arena_used is not None]
        if len(taken) == len(subjects):
            yield self._size("arena", max(taken))
        if all(subject.image for subject in subjects):
            flash = max(subject.image["text"] + subject.image["data"] for subject in subjects)
            ram = max(subject.image["data"] + subject.image["bss"] for subject in subjects)
            fields = {"limit_flash_bytes": self._bytes(flash), "limit_ram_bytes": self._bytes(ram)}
            yield self._table("code", fields, f"measured {flash:,} and {ram:,} bytes")
        yield from self._losses()

    def _size(self, name: str, measured: int) -> list[str]:
        fields = {"limit_bytes": self._bytes(measured)}
        return self._table(name, fields, f"measured {measured:,} bytes")

    def _losses(self) -> Iterator[list[str]]:
        names = ("events", "blocks", "values", "records", "damaged")
        lost = {
            name: max(getattr(subject.trace.losses, name) for subject in self._subjects)
            for name in names
        }
        if any(lost.values()):
            comment = "these runs have losses: enlarge the log buffer, run again, delete this"
            yield self._table("losses", {name: n for name, n in lost.items() if n}, comment)


class _Escaped(str):
    """A name that is written as a pattern matching exactly this name."""


def _fields(rule: TimeRule | CounterLimit) -> dict[str, Any]:
    """Return the fields of a rule that differ from their defaults, by their names in the file."""
    fields = {}
    for field in msgspec.structs.fields(rule):
        value = getattr(rule, field.name)
        if value != field.default or field.name == "event":
            fields[field.encode_name] = value
    if isinstance(rule, TimeLimit | CounterLimit):
        order = ("counter", "event", "except", "chain", "instruction", "delegate", "per", "block")
        fields = {name: fields[name] for name in order if name in fields} | fields
    return fields


def _slow(runs: Sequence[Sequence[LimitTarget]], unit: str) -> float:
    """Return what a slow execution takes, with room for a slower phase of the host.

    It is the slowest median of a run, or the 90th percentile of a typical run if that is longer.
    The 90th percentile of a single run may be one preemption, so the median of the runs counts.
    """

    def slowest(statistic: str, targets: Sequence[LimitTarget]) -> float:
        return max(
            (target.values.measure(statistic, unit) or 0.0 for target in targets), default=0.0
        )

    measured = [targets for targets in runs if targets]
    medians = [slowest("p50", targets) for targets in measured]
    tails = [slowest("p90", targets) for targets in measured]
    return _SLOW_PHASE * max(max(medians), median(tails))


def _is_work(op: Operator) -> bool:
    """Return whether an operator is an instruction's event, not a scope that repeats its time."""
    return op.chain != -1 and op.name != EXECUTION and not is_wrapper(op.name)


def _delegate(op: Operator) -> str | None:
    if op.delegate_str is not None:
        return _escaped(op.delegate_str)
    return None if op.delegate_int == -1 else str(op.delegate_int)


def readable(value: float, more: float) -> float:
    """Return the number with the fewest digits in ``[value, value * (1 + more)]``."""
    if value <= 0:
        return 0.0
    exponent = math.floor(math.log10(value))
    for digits in range(1, 16):
        places = digits - 1 - exponent
        rounded = float(round(math.ceil(value * 10.0**places) / 10.0**places, max(places, 0)))
        if value <= rounded <= value * (1 + more):
            return rounded
    return value


def _escaped(name: str) -> str:
    """Return a pattern that matches a name; ``?`` stands for lone surrogates, invalid in TOML."""
    return "".join("?" if 0xD800 <= ord(c) <= 0xDFFF else c for c in glob.escape(name))


def _pattern(name: str) -> str:
    return _toml(_escaped(name))


def _toml(value: Any) -> str:
    if isinstance(value, _Escaped):
        return _pattern(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        items = [_toml(item) for item in value]
        whole = f"[{', '.join(items)}]"
        return whole if len(whole) < _WIDTH else "[\n" + "".join(f"    {i},\n" for i in items) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return f"{value:_}" if isinstance(value, int) else repr(value)


def _time(value: float, unit: str) -> str:
    if unit == "ticks":
        return f"{value:,.15g} ticks"
    name, size = _unit(value)
    return f"{value / size:,.6g} {name}"


def _unit(nanoseconds: float) -> tuple[str, float]:
    """Return the largest unit that is no longer than this time, and its nanoseconds."""
    return next((unit for unit in _TIMES if nanoseconds >= unit[1]), _TIMES[-1])


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def _comment(group: Sequence[Subject]) -> str:
    days = sorted({str(subject.day) for subject in group if subject.day is not None})
    executions = sum(run.executes for subject in group for run in subject.runs)
    when = f", {days[0]}" if days else ""
    when += f" to {days[-1]}" if len(days) > 1 else ""
    return f"# {counted(len(group), 'run')} with {counted(executions, 'execution')}{when}"
