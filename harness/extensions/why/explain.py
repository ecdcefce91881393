"""``compare`` explains: causes of two runs or two programs, each with what it costs.

The causes are found once (``Causes``) and joined here with times, counters and energy. Terminal,
JSON, HTML and Markdown lay out the same records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from harness.analyze.compare import ComparedSide
from harness.analyze.delegates import delegate_calls
from harness.analyze.statistics import Executions, Statistic
from harness.analyze.workload import InstructionModel, instruction_model
from harness.config.board import load_board
from harness.decode.pte import (
    constant_reader,
    is_bundled_program,
    program_bytes,
    read_delegates,
    read_named_program,
)
from harness.errors import FormatError, NotComparableError, UsageError
from harness.extensions.why.causes import RANKS, Causes, Root
from harness.extensions.why.programs import (
    ProgramFacts,
    facts_of_method,
    facts_of_outline,
    facts_of_records,
)
from harness.extensions.why.sentences import sentence
from harness.files import display_path, find_model, packaged_models, read_model
from harness.printing import print_document
from harness.records.explanation import Explanation, ProgramCause
from harness.records.result import Model, Result, encode
from harness.records.trace import EXECUTION, OPERATOR_CALL
from harness.report.formats import write_file
from harness.report.words import counted, percent, short_size, short_time
from harness.runs.baseline import kept_model

if TYPE_CHECKING:
    from rich.console import Console

    from harness.check.history.samples import History
    from harness.cli.command import OutputOptions
    from harness.runs.source import EvaluatedRun, Source

_ESTIMATED_ON: Final = "qemu-mps2-an386"
"""Board whose coefficients estimate the instructions of two programs alone: a Cortex-M4."""

_LEAST: Final = 0.5
"""Nanoseconds, ticks or instructions: what is smaller is a residue of sums."""

_LONGEST: Final = 1000
"""Characters of a sentence in Markdown."""

_Place = tuple[int, int]


@dataclass(slots=True)
class _Costs:
    """What the instructions of one side cost per execution, by chain and instruction."""

    unit: Literal["ns", "ticks", "instructions"]
    total: float | None
    times: dict[_Place, float] = field(default_factory=dict)
    counts: dict[_Place, dict[str, float]] = field(default_factory=dict)
    joules: dict[_Place, float] = field(default_factory=dict)


def explain_runs(
    sources: Sequence[Source],
    models: Sequence[Path] = (),
    statistic: Statistic = "p50",
    executions: Executions = "all",
) -> Explanation | None:
    """Return why the second of two runs takes another time; None if a program is unknown.

    Args:
        sources: The two runs.
        models: Their programs: none, one of both, or one of each; by default those at the paths
            that the results record, or of the package, if they have the recorded digests.
        statistic: The statistic of times to compare.
        executions: The executions to compare.

    Raises:
        UsageError: A given model cannot be read.
        NotComparableError: A given model is not the one that ran.
    """
    given: Sequence[Path | None] = (*models, *models)[:2] if models else (None, None)
    facts: list[ProgramFacts] = []
    notes = []
    for source, file in zip(sources, given, strict=True):
        model = source.result.model if source.result is not None else None
        if model is None and file is None:
            return None
        known, note = _facts_of_run(model, file)
        if known is None:
            return None
        facts.append(known)
        notes += [note] if note else []
    before, after = (
        _measured(ComparedSide(source.trace, statistic, executions), source.result)
        for source in sources
    )
    return _explanation(Causes(*facts), before, after, tuple(dict.fromkeys(notes)))


def explain_history(run: EvaluatedRun) -> Explanation | None:
    """Return why a run differs from the newest result of its baseline.

    None if both ran the same program, or if a program is unknown. Of earlier programs the history
    has operators, types and shapes; those that are kept for pairs are compared in full.
    """
    result, history = run.result, run.history
    if result is None or result.model is None or run.trace is None or history is None:
        return None
    newest = history.newest_of_baseline(result.unit)
    if newest is None or newest.model_sha256 == result.model.sha256:
        return None
    after, _ = _facts_of_run(result.model, None)
    before = _facts_of_earlier(newest.model_sha256, result.model.method)
    if before is None or after is None or not after.complete:
        outline = history.outlines.get(newest.model_sha256)
        if outline is None or result.model.chains is None:
            return None
        before = facts_of_outline(outline)
        after = facts_of_records(result.model.chains, (), result.model.delegates)
    costs = _recorded(history, history.results.index(newest))
    measured = _measured(ComparedSide(run.trace, "p50", "all"), result)
    return _explanation(Causes(before, after), costs, measured, ())


def _facts_of_earlier(sha256: str, method: str) -> ProgramFacts | None:
    """Return a method of a program that is kept; None if it is not, or has no such method."""
    kept = kept_model(sha256)
    try:
        return None if kept is None else _facts(kept.data, "the baseline's program", method)
    except (FormatError, UsageError):
        return None


def _recorded(history: History, index: int) -> _Costs:
    """Return what the instructions of an earlier result cost."""
    found = _Costs("ns", None)
    for series in history.series:
        metric = series.metric
        known = metric.kind == "operator" and metric.statistic == "p50" and metric.unit == "ns"
        if not known or metric.delegate_int != -1 or metric.delegate_str is not None:
            continue
        if index in series.results:
            value = series.samples[series.results.index(index)].value
            place = (metric.chain, metric.instruction)
            if metric.name == EXECUTION:
                found.total = value
            elif metric.chain >= 0:
                found.times[place] = max(value, found.times.get(place, 0.0))
    return found


def _facts_of_run(model: Model | None, file: Path | None) -> tuple[ProgramFacts | None, str]:
    """Return the program of a run, and what is not known of it."""
    data = _found(model, file)
    method = model.method if model is not None else ""
    if data is not None:
        return _facts(data, str(file or (model.file if model else "")), method), ""
    assert model is not None
    if model.chains is None:
        return None, ""
    facts = facts_of_records(model.chains, [*model.planned.values()], model.delegates)
    return facts, (
        f"{model.file} is not at hand: layouts, arguments and constants are not compared; give the "
        "programs with --model"
    )


def _found(model: Model | None, file: Path | None) -> bytes | None:
    """Return the program of a run; None if it is not at hand.

    Raises:
        NotComparableError: The given file is not the one that ran.
    """
    if file is not None:
        data = program_bytes(read_model(find_model(file)))
        if model is not None and sha256(data).hexdigest() != model.sha256:
            raise NotComparableError(
                f"{display_path(file)} is not the program that ran: its SHA-256 differs from that "
                "of the result",
                hint=f"give the file that ran as {model.file}",
            )
        return data
    assert model is not None
    if (kept := kept_model(model.sha256)) is not None:
        return kept.data
    for path in (Path(model.file), *packaged_models().values()):
        if not path.is_file() or path.stat().st_size < model.nbytes:
            continue
        data = read_model(path)
        data = program_bytes(data) if is_bundled_program(data) else data
        if sha256(data).hexdigest() == model.sha256:
            return data
    return None


def _facts(
    data: bytes, name: str, method: str = "", model: InstructionModel | None = None
) -> ProgramFacts:
    """Return a method of a program, or of the one within a bundled program.

    Raises:
        FormatError: It is not a program.
        UsageError: It has no such method.
    """
    program = read_named_program(data, name)
    found = program.method(method) if method else next(iter(program.methods), None)
    if found is None:
        has = ", ".join(one.name for one in program.methods) or "none"
        raise UsageError(f"{name} has no method {method!r}", hint=f"its methods: {has}")
    calls = delegate_calls(data, found)
    blobs = [one.blob for one in read_delegates(data)[found.name]] if calls else ()
    return facts_of_method(found, constant_reader(data), model, calls, blobs)


def explain_programs(
    before: bytes, after: bytes, names: Sequence[str] = ("before", "after"), method: str = ""
) -> Explanation:
    """Return what changed between two programs, with estimates of their instructions.

    Args:
        before: The first program, as in its file.
        after: The second program.
        names: What errors and notes call them.
        method: The method to compare; "" for the first of each.

    Raises:
        FormatError: One of them is not a program.
        UsageError: One of them has no such method.
    """
    board, _ = load_board(_ESTIMATED_ON)
    model = instruction_model(board)
    facts = [
        _facts(data, name, method, model) for data, name in zip((before, after), names, strict=True)
    ]
    costs = [*map(_estimated, facts)]
    notes = [
        f"{name}: {counted(missing, 'operator')} without an estimate"
        for name, side in zip(names, facts, strict=True)
        if (missing := sum(step.estimate is None for chain in side.chains for step in chain))
    ]
    return _explanation(Causes(*facts), costs[0], costs[1], tuple(notes))


def compare_programs(
    paths: Sequence[Path], method: str, reports: Sequence[Path], output: OutputOptions
) -> int:
    """Compare two ``.pte`` files, and show what changed; return the exit code.

    Raises:
        UsageError: A report is not JSON or Markdown, or a file cannot be read.
        FormatError: A file is not a program.
    """
    for file in reports:
        if file.suffix.lower() not in (".json", ".md"):
            raise UsageError(
                f"{file}: two programs have no report with the suffix {file.suffix!r}",
                hint="name a file that ends in .json or .md, or compare two runs",
            )
    names = [display_path(path) for path in paths]
    before, after = (read_model(find_model(path)) for path in paths)
    explanation = explain_programs(before, after, names, method)
    document = encode(ProgramsDocument(names[0], names[1], explanation))
    for file in reports:
        write_file(file, markdown(explanation) if file.suffix.lower() == ".md" else document)
    if output.json:
        print_document(document)
    else:
        print_explanation(output.console(), explanation)
    return 0


class ProgramsDocument(msgspec.Struct, frozen=True):
    """What ``etharness compare A.pte B.pte --json`` prints."""

    before: str
    after: str
    why: Explanation


def _estimated(facts: ProgramFacts) -> _Costs:
    times = {
        (step.chain, step.index): step.estimate
        for chain in facts.chains
        for step in chain
        if step.estimate is not None
    }
    return _Costs("instructions", sum(times.values()), times)


def _measured(side: ComparedSide, result: Result | None) -> _Costs:
    """Return what the instructions of a run cost per execution.

    An instruction has several events, each within another: the longest one is its time, but for the
    scope around its kernel, which histories do not have.
    """
    operators = [op for op in side.operators if not op.loading]
    kernels = {(op.chain, op.instruction) for op in operators if op.name != OPERATOR_CALL}
    unit: Literal["ns", "ticks"] = "ns"
    if any(op.clock.hz is None for op in operators if op.delegate_int == -1):
        unit = "ticks"
    found = _Costs(unit, None)
    for op in operators:
        time = side.time(op)
        own = op.delegate_int == -1 and op.delegate_str is None
        if time is None or not own or (op.clock.hz is None) != (unit == "ticks"):
            continue
        if op.name == EXECUTION:
            found.total = time
        place = (op.chain, op.instruction)
        if op.name == OPERATOR_CALL and place in kernels:
            continue
        if op.chain >= 0 and time * side.per_run(op) >= found.times.get(place, 0):
            found.times[place] = time * side.per_run(op)
            found.counts[place] = {
                name: item.p50 * side.per_run(op) for name, item in op.counters.items()
            }
    energy = result.energy if result is not None else None
    for item in energy.operators if energy is not None else ():
        if item.joules is not None and item.chain >= 0:
            place = (item.chain, item.instruction)
            found.joules[place] = max(item.joules, found.joules.get(place, 0.0))
    return found


def _explanation(
    causes: Causes, before: _Costs, after: _Costs, notes: tuple[str, ...]
) -> Explanation:
    """Join causes with their costs: each instruction counts for the first cause that changes it."""
    timed = before.unit == after.unit and None not in (before.total, after.total)
    taken: tuple[set[_Place], set[_Place]] = (set(), set())
    found = [_cause(root, causes, (before, after), taken, timed=timed) for root in causes.roots]
    ordered = sorted(
        zip(found, causes.roots, strict=True),
        key=lambda pair: (-abs(pair[0].difference or 0.0), RANKS[pair[0].kind]),
    )
    unexplained = unchanged = None
    if timed and before.total is not None and after.total is not None:
        explained = sum(cause.difference or 0.0 for cause in found)
        unexplained = after.total - before.total - explained
        rest = [
            sum(time for place, time in side.times.items() if place not in used)
            for side, used in zip((before, after), taken, strict=True)
        ]
        unchanged = rest[1] - rest[0]
    pools = zip_longest(causes.old.planned, causes.new.planned, fillvalue=0)
    return Explanation(
        unit=after.unit,
        before=before.total,
        after=after.total,
        unexplained=unexplained,
        unchanged=unchanged,
        causes=tuple(cause for cause, _ in ordered),
        memory={
            f"planned_{pool}": (old, new) for pool, (old, new) in enumerate(pools, 1) if old != new
        },
        notes=notes,
    )


def _cause(
    root: Root,
    causes: Causes,
    costs: tuple[_Costs, _Costs],
    taken: tuple[set[_Place], set[_Place]],
    *,
    timed: bool,
) -> ProgramCause:
    sides = (root.before, root.after)
    places = [
        [(step.chain, step.index) for step in steps if (step.chain, step.index) not in used]
        for steps, used in zip(sides, taken, strict=True)
    ]
    for used, these in zip(taken, places, strict=True):
        used.update(these)
    sums = [
        [sum(values.get(place, 0.0) for place in these) for values in (side.times, side.joules)]
        for side, these in zip(costs, places, strict=True)
    ]
    difference, joules = (after - before for before, after in zip(*sums, strict=True))
    total = costs[0].total
    return ProgramCause(
        kind=root.kind,
        sentence=sentence(root, causes),
        operators_before=tuple(step.title for step in root.before),
        operators=tuple(step.title for step in root.after),
        difference=difference if timed else None,
        share=difference / total if timed and total else None,
        counters=_counter_differences(costs, places),
        joules=joules if all(side.joules for side in costs) else None,
    )


def _counter_differences(
    costs: tuple[_Costs, _Costs], places: Sequence[Sequence[_Place]]
) -> dict[str, float]:
    """Return the difference of each counter that both runs recorded."""
    totals: list[dict[str, float]] = []
    for side, these in zip(costs, places, strict=True):
        total: dict[str, float] = {}
        for place in these:
            for name, value in side.counts.get(place, {}).items():
                total[name] = total.get(name, 0.0) + value
        totals.append(total)
    names = [{name for counts in side.counts.values() for name in counts} for side in costs]
    return {
        name: totals[1].get(name, 0.0) - totals[0].get(name, 0.0)
        for name in sorted(names[0] & names[1])
        if totals[0].get(name, 0.0) != totals[1].get(name, 0.0)
    }


def difference_text(difference: float, explanation: Explanation) -> str:
    """Return a difference as a share of the first method's time, and as a time."""
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    size = abs(difference)
    text = short_time(size) if explanation.unit == "ns" else f"{size:,.0f} {explanation.unit}"
    if not explanation.before:
        return f"{sign}{text}"
    return f"{sign}{percent(size / explanation.before)} ({sign}{text})"


def lines_of(explanation: Explanation) -> list[str]:
    """Return the causes, the largest first, and what remains; one line each."""
    lines = []
    for cause in explanation.causes:
        cost = ""
        if cause.difference is not None:
            cost = f"{difference_text(cause.difference, explanation)}: "
        extra = [f"{name} {value:+,.0f}" for name, value in cause.counters.items()]
        if cause.joules is not None:
            extra.append(f"{cause.joules:+.3g} J")
        lines.append(cost + cause.sentence + (f" [{', '.join(extra)}]" if extra else ""))
    rest = explanation.unexplained or 0.0
    if explanation.causes and abs(rest) >= _LEAST:
        where = ""
        if explanation.unchanged:
            where = f", of it {difference_text(explanation.unchanged, explanation)} in operators "
            where += "that did not change"
        lines.append(f"{difference_text(rest, explanation)}: unexplained{where}")
    for pool, (before, after) in explanation.memory.items():
        lines.append(f"{pool}: {short_size(after)} instead of {short_size(before)}")
    return lines


def headline(explanation: Explanation) -> str:
    """Return what the methods take, and the difference."""
    before, after = explanation.before, explanation.after
    parts = []
    if before is not None and after is not None:
        parts.append(f"{difference_text(after - before, explanation)} per execution")
        if explanation.unit == "instructions":
            parts[0] += " (estimated for a Cortex-M4)"
    if not explanation.causes:
        parts.append("the program did not change")
    return f"Why: {'; '.join(parts)}" if parts else "Why"


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Print the causes, the largest first, and what remains."""
    from harness.report.terminal import show_line

    show_line(console, headline(explanation), style="bold")
    for line in lines_of(explanation):
        show_line(console, f"  {line}")
    for note in explanation.notes:
        show_line(console, f"  note: {note}", style="yellow")
    show_line(console)


def markdown(explanation: Explanation) -> bytes:
    """Return the causes as a comment on a pull request."""
    from harness.report.markdown import escaped

    notes = [f"note: {note}" for note in explanation.notes]
    lines = [f"**{escaped(headline(explanation))}**", ""]
    lines += [f"- {escaped(line, _LONGEST)}" for line in (*lines_of(explanation), *notes)]
    return ("\n".join(lines) + "\n").encode()
