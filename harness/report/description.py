"""An evaluated run as every report shows it: contents, order, texts and units.

``describe`` decides all of that once. The terminal, HTML, Markdown, JUnit and JSON only lay a
``RunDescription`` out; they may show fewer rows of a list, never others or in another order.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from harness.analyze.memory import AllocatorMemory, AllocatorTotals, Memory
from harness.analyze.postmortem import PostmortemDocument
from harness.check.subject import Subject, model_name
from harness.errors import FormatError
from harness.formatting import DisplayUnit, printable
from harness.records.check_codes import Severity
from harness.records.result import Failure
from harness.records.trace import EXECUTION
from harness.records.verdict import Check, Verdict
from harness.report.changes import ChangeTable, describe_changes
from harness.report.counters import CounterTable, cycles_per_instruction, describe_counters
from harness.report.energy import EnergyDescription, describe_energy
from harness.report.facts import (
    ClockFacts,
    DelegateFacts,
    Fact,
    Loss,
    OutputFacts,
    clock_facts,
    clock_lines,
    delegate_facts,
    link_facts,
    output_facts,
    provenance,
    run_losses,
)
from harness.report.operators import OperatorListing, describe_operators
from harness.report.roofline import RooflineTable, describe_roofline
from harness.report.text import counted, number, one_time, percent
from harness.runs.baseline import HistoryRef
from harness.runs.evaluation import EvaluatedRun
from harness.runs.test_sets import test_set_name


@dataclass(frozen=True, slots=True)
class AllocatorRow:
    """An allocator; sizes are in bytes.

    Attributes:
        totals: Exact values.
        memory: What it held over time; None without a call tree.
        name: Its name, or its number.
        count: Allocations that succeeded.
        held: What it held at the end.
        peak: The most it held at any time.
        largest: The largest allocation.
        failures: Allocations it refused.
        refused: Bytes of these.
        capacity: What it has; a dash where unknown, as below.
        used: The peak as a share of the capacity.
        reach: Where the last byte ended that was ever live.
        fragmentation: Of the free bytes between live ones at the peak.
        changes: Allocations, frees and failures.
    """

    totals: AllocatorTotals
    memory: AllocatorMemory | None
    name: str
    count: str
    held: str
    peak: str
    largest: str
    failures: str
    refused: str
    capacity: str
    used: str
    reach: str
    fragmentation: str
    changes: str


def describe_allocators(
    totals: Iterable[AllocatorTotals], memory: Memory | None = None
) -> tuple[AllocatorRow, ...]:
    """Describe allocators, the one with the highest peak first."""
    over_time = {} if memory is None else {item.allocator.id: item for item in memory.allocators}
    rows = [_row(item, over_time.get(item.id)) for item in totals]
    return tuple(sorted(rows, key=_peak, reverse=True))


def _peak(row: AllocatorRow) -> int:
    return row.totals.peak_bytes if row.memory is None else row.memory.peak


def _row(totals: AllocatorTotals, memory: AllocatorMemory | None) -> AllocatorRow:
    capacity = memory.planned if memory is not None else None
    peak = memory.peak if memory is not None else totals.peak_bytes
    return AllocatorRow(
        totals=totals,
        memory=memory,
        name=printable(totals.label),
        count=f"{totals.count:,}",
        held=f"{totals.total_bytes:,}",
        peak=f"{peak:,}",
        largest=f"{totals.largest_bytes:,}",
        failures=f"{totals.failures:,}",
        refused=f"{totals.failed_bytes:,}",
        capacity=_size(capacity),
        used=percent(peak / capacity if capacity else None),
        reach=_size(memory.reach if memory is not None else None),
        fragmentation=percent(memory.peak_gaps.fragmentation, 0) if memory is not None else "-",
        changes=f"{len(memory.rows):,}" if memory is not None else "-",
    )


def _size(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


Outcome = Literal["pass", "fail", "error"]
"""``fail``: a check failed. ``error``: the run failed before its end."""

_SEVERITIES: Final[tuple[Severity, ...]] = ("warning", "note")
"""Severities that do not fail a run, the worse first."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check.

    Attributes:
        check: Exact values.
        outcome: ``pass``, ``fail``, or the severity if it does not hold without failing the run.
        code: Its code.
        rule: Its rule.
        subject: What it was applied to.
        measured: What was measured, with its unit; empty without.
        limit: The limit, likewise.
        reason: Why it passed or failed.
        source: File and line of the rule.
    """

    check: Check
    outcome: str
    code: str
    rule: str
    subject: str
    measured: str
    limit: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class VerdictDescription:
    """How a run ended, and the checks.

    Attributes:
        outcome: How it ended.
        headline: The verdict in a sentence.
        why: Why it did not pass, in a sentence; of a run that passed the headline.
        failed: Failed checks, those farthest beyond their limits first.
        warned: Failed checks of severity warning, then note.
        passed: Checks that hold, in the order of evaluation.
    """

    outcome: Outcome
    headline: str
    why: str
    failed: tuple[CheckRow, ...]
    warned: tuple[CheckRow, ...]
    passed: tuple[CheckRow, ...]

    @property
    def line(self) -> str:
        """PASS or FAIL, and the headline."""
        return f"{'PASS' if self.outcome == 'pass' else 'FAIL'}: {self.headline}"

    @property
    def checks(self) -> tuple[CheckRow, ...]:
        """All checks: failed ones, then warnings and notes, then passed ones."""
        return (*self.failed, *self.warned, *self.passed)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """An evaluated run.

    Attributes:
        run: What is described; pictures are drawn from it.
        verdict: How it ended, and the checks.
        failure: Why it failed before its end, safe to print.
        exit_code: Exit code of the run or of its check.
        title: The path where it was found.
        board: Name of the board type; empty when unknown.
        unit: The physical board.
        model: Name of the model, with the test set if one of several ran; empty when unknown.
        kernels: Whose kernels ran; empty when unknown.
        facts: Where it is from, in order.
        figures: The few numbers to read first.
        operators: Its operators; None without events.
        counters: What hardware counters counted in them; None if nothing was counted.
        energy: What it drew; None without a meter.
        roofline: The operators against what the core can do; None where that is unknown.
        allocators: Its allocators, the one with the highest peak first.
        untold: Why there is neither a call tree nor memory over time; empty if there is.
        changes: What differs from history; None without a comparison.
        losses: Everything that may be missing, also what is not.
        clock_lines: What a reader should know of the clocks.
        clocks: All that is known of them.
        link: How the line did.
        delegates: Backends that the model calls.
        outputs: Outputs of the last execution.
        console: The end of the board's text, line by line.
        postmortem: What the board was doing when it crashed.
    """

    run: EvaluatedRun
    verdict: VerdictDescription
    failure: Failure | None
    exit_code: int
    title: str
    board: str
    unit: str
    model: str
    kernels: str
    facts: tuple[Fact, ...]
    figures: tuple[Fact, ...]
    operators: OperatorListing | None
    counters: CounterTable | None
    energy: EnergyDescription | None
    roofline: RooflineTable | None
    allocators: tuple[AllocatorRow, ...]
    untold: str
    changes: ChangeTable | None
    losses: tuple[Loss, ...]
    clock_lines: tuple[str, ...]
    clocks: tuple[ClockFacts, ...]
    link: tuple[Fact, ...]
    delegates: tuple[DelegateFacts, ...]
    outputs: tuple[OutputFacts, ...]
    console: tuple[str, ...]
    postmortem: PostmortemDocument | None


def describe(run: EvaluatedRun, *, unit: DisplayUnit | None = None) -> RunDescription:
    """Describe ``run``, with times of operators in ``unit`` instead of the one that fits best."""
    subject, result = run.subject, run.result
    verdict = describe_verdict(run.verdict, run.failure)
    model = subject.model if subject is not None else ""
    if not model and result is not None and result.model is not None:
        model = model_name(result.model.file)
    if result is not None and result.model is not None and result.test_set is not None:
        model = f"{model}, {test_set_name(result.model.method, result.test_set)}"
    board = (subject.board if subject is not None else "") or (result.board if result else "")
    untold = _untold(subject)
    trace = None if subject is None else subject.trace
    emulated = subject is not None and subject.emulated_time
    requested = subject.runs_requested if subject is not None else None
    losses = tuple(run_losses(trace, result, requested))
    delegates = delegate_facts(result)
    table = describe_operators(subject, unit) if subject is not None else None
    recorded = result.trace.counters if result is not None and result.trace is not None else ()
    return RunDescription(
        run=run,
        verdict=verdict,
        failure=run.failure and _printable_failure(run.failure),
        exit_code=run.exit_code,
        title=printable(run.title),
        board=printable(board),
        unit=printable(result.unit) if result is not None else "",
        model=printable(model),
        kernels=printable(result.target.software) if result and result.target else "",
        facts=tuple(provenance(run, delegates)),
        figures=tuple(_figures(run, losses, with_memory=not untold)),
        operators=table if table is not None and table.logged else None,
        counters=describe_counters(subject, table, recorded) if subject and table else None,
        energy=describe_energy(result.energy, table) if result and result.energy else None,
        roofline=describe_roofline(subject, table) if subject is not None and table else None,
        allocators=_allocators(subject, with_memory=not untold),
        untold=untold,
        changes=describe_changes(run.comparison) if run.comparison is not None else None,
        losses=losses,
        clock_lines=tuple(clock_lines(subject.trace, subject.qualities, emulated=emulated))
        if subject
        else (),
        clocks=tuple(clock_facts(subject, emulated=emulated)),
        link=tuple(link_facts(result)),
        delegates=tuple(delegates),
        outputs=tuple(output_facts(subject, result)),
        console=tuple(map(printable, run.console.splitlines())),
        postmortem=run.postmortem,
    )


def describe_verdict(verdict: Verdict, failure: Failure | None = None) -> VerdictDescription:
    """Describe a verdict, and the failure of the run if it failed before its end."""
    failed = tuple(map(_check, verdict.worst_failures))
    warnings = sorted(verdict.warnings, key=lambda check: _SEVERITIES.index(check.severity))
    warned = tuple(map(_check, warnings))
    headline = _headline(verdict, failure)
    why = headline
    if failure is not None:
        why = printable(failure.message)
    elif failed:
        first, more = failed[0], len(failed) - 1
        why = f"{first.code} {first.subject}: {first.reason}"
        why += f"; and {counted(more, 'more failed check')}" if more else ""
    return VerdictDescription(
        outcome="error" if failure is not None else "fail" if failed else "pass",
        headline=headline,
        why=why,
        failed=failed,
        warned=warned,
        passed=tuple(_check(check) for check in verdict.checks if check.passed),
    )


def _headline(verdict: Verdict, failure: Failure | None) -> str:
    if failure is not None:
        return f"the run failed: {printable(failure.kind)}: {printable(failure.message)}"
    return verdict.headline


def _check(check: Check) -> CheckRow:
    unit = f" {printable(check.unit)}" if check.unit else ""
    return CheckRow(
        check=check,
        outcome="pass" if check.passed else "fail" if check.failed else check.severity,
        code=check.code,
        rule=printable(check.rule),
        subject=printable(check.subject),
        measured="" if check.measured is None else number(check.measured) + unit,
        limit="" if check.limit is None else number(check.limit) + unit,
        reason=printable(check.reason),
        source=printable(check.source),
    )


def _printable_failure(failure: Failure) -> Failure:
    kind, message, hint = map(printable, (failure.kind, failure.message, failure.hint))
    return Failure(kind, message, hint, failure.owner)


def _untold(subject: Subject | None) -> str:
    """Why there is no call tree, which memory over time needs."""
    try:
        if subject is not None:
            _ = subject.tree
    except FormatError as error:
        return printable(error.message)
    return ""


def _allocators(subject: Subject | None, *, with_memory: bool) -> tuple[AllocatorRow, ...]:
    if subject is None:
        return ()
    return describe_allocators(subject.allocators, subject.memory if with_memory else None)


def _figures(run: EvaluatedRun, losses: Sequence[Loss], *, with_memory: bool) -> list[Fact]:
    found = []
    if (subject := run.subject) is not None:
        executed = next((op for op in subject.operators if op.name == EXECUTION), None)
        if executed is not None and executed.times is not None:
            p50 = executed.times.p50
            text = one_time(None if executed.ns is None else p50, p50)
            found.append(Fact("median execution", text))
            if (ratio := cycles_per_instruction(executed)) is not None:
                found.append(Fact("cycles per instruction", f"{ratio:.2f}"))
        if with_memory and subject.memory.allocators:
            found.append(Fact("peak memory", f"{subject.memory.peak:,} bytes"))
        found.append(Fact("events", f"{len(subject.trace):,}"))
    if run.result is not None:
        done = f"{run.result.runs_completed:,} of {run.result.runs_requested:,}"
        found.append(Fact("executions", done))
        if run.result.target is not None and run.result.target.software:
            found.append(Fact("kernels", printable(run.result.target.software)))
    # What is counted differs, so the numbers are not added.
    lost = [f"{item.count:,} {item.unit}" for item in losses if item.count and item.kind == "lost"]
    found.append(Fact("losses", ", ".join(lost) or "none"))
    return found


def failure_text(run: EvaluatedRun, against: HistoryRef | None = None) -> str:
    """Return the failed checks of a run, what ran, and the command that checks it again."""
    from rich.console import Console

    from harness.report.run import print_failure

    out = io.StringIO()
    console = Console(file=out, color_system=None, force_terminal=False)
    print_failure(console, describe_verdict(run.verdict, run.failure))
    place = str(run.directory or run.title)
    again = ["etharness", "check", place]
    again += ["--budget", run.budget] if run.budget else []
    history = ""
    if against is not None:
        from harness.history.database import without_password  # needs the extra `history`

        history = without_password(against.url)
        again += ["--history", history, "--baseline", str(against.baseline)]
    lines = [
        *out.getvalue().strip().splitlines(),
        *_what_ran(run),
        f"budget: {run.budget or 'none'}",
        *([f"beside: {against.baseline.description} of {history}"] if against else []),
        f"kept in: {place}",
        f"again: {shlex.join(again)}",
    ]
    return "\n".join(lines)


def _what_ran(run: EvaluatedRun) -> list[str]:
    result = run.result
    if result is None:
        return []
    model = Path(result.model.file).name if result.model else "nothing"
    target = result.target
    build = f", firmware {target.build_id}, {target.software}" if target else ""
    where = result.board if result.port is None else f"{result.board} ({result.unit})"
    return [f"{model} on {where}{build}"]
