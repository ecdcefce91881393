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

import click
import msgspec
from click.core import ParameterSource

from harness.analyze.compare import ComparedSide
from harness.analyze.delegates import delegate_calls
from harness.analyze.statistics import Executions, Statistic
from harness.analyze.workload import InstructionModel, instruction_model
from harness.config.board import load_board
from harness.decode.pte import (
    constant_reader,
    is_bundled_program,
    is_program_file,
    program_bytes,
    program_that_ran,
    read_delegates,
    read_named_program,
)
from harness.errors import FormatError, NotComparableError, UsageError
from harness.extensions.why.alignment import Unjoined, join
from harness.extensions.why.causes import RANKS, Causes, Root
from harness.extensions.why.programs import (
    ProgramFacts,
    facts_of_method,
    facts_of_outline,
    facts_of_records,
)
from harness.extensions.why.sentences import sentence, size_change
from harness.files import display_path, find_model, packaged_models, read_model
from harness.formatting import printable
from harness.printing import print_document
from harness.records.explanation import Explanation, ProgramCause
from harness.records.result import Model, Result, encode
from harness.records.trace import EXECUTION, is_wrapper
from harness.report.formats import write_file
from harness.report.words import counted, percent, short_time
from harness.runs.baseline import kept_model

if TYPE_CHECKING:
    from rich.console import Console

    from harness.check.history.samples import History
    from harness.cli.command import OutputOptions
    from harness.runs.source import EvaluatedRun, Source

_ESTIMATED_ON: Final = "qemu-mps2-an386"
"""Board whose coefficients estimate the instructions of two programs alone: a Cortex-M4."""

_OF_PROGRAMS: Final = ("method", "reports", "as_json", "verbose", "quiet", "no_progress")
"""Options of ``compare`` that two programs heed."""

_LEAST: Final = 0.5
"""Nanoseconds, ticks or instructions: what is smaller is a residue of sums."""

_SMALL: Final = 0.0005
"""Share that percentages with one digit show as zero."""

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
) -> Explanation:
    """Return why the second of two runs takes another time; notes say what is not known.

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
    ran = [source.result.model if source.result is not None else None for source in sources]
    sides = [_facts_of_run(model, file) for model, file in zip(ran, given, strict=True)]
    notes = [note for _, note in sides if note]
    before, after = (
        _measured(ComparedSide(source.trace, statistic, executions), source.result)
        for source in sources
    )
    old, new = (facts for facts, _ in sides)
    methods = [printable(model.method) for model in ran if model is not None]
    if other := len({*methods}) > 1:
        notes.insert(0, f"the first run executed the method {methods[0]}, the second {methods[1]}")
    digests = {model.sha256 if model is not None else "" for model in ran}
    same = len(digests) == 1 and "" not in digests
    # Methods of one program did not change into each other.
    known = old is not None and new is not None and not (same and other)
    causes = Causes(old, new) if known else None
    notes = [*dict.fromkeys(notes)]
    return _explanation(causes, before, after, tuple(notes), same=same and not other)


def joined_instructions(sources: Sequence[Source]) -> dict[_Place, _Place] | None:
    """Return instructions of the second run's program with their counterparts in the first.

    None if a program is unknown.
    """
    models = [source.result.model if source.result is not None else None for source in sources]
    (old, _), (new, _) = (_facts_of_run(model, None) for model in models)
    if old is None or new is None:
        return None
    return {
        (pair[1].chain, pair[1].index): (pair[0].chain, pair[0].index)
        for chains in zip(old.chains, new.chains, strict=False)
        for pair in join(*chains)
        if not isinstance(pair, Unjoined)
    }


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
    notes: tuple[str, ...] = ()
    if before is None or after is None or not after.complete:
        outline = history.outlines.get(newest.model_sha256)
        if outline is None or result.model.chains is None:
            return None
        before = facts_of_outline(outline)
        after = facts_of_records(result.model.chains, (), result.model.delegates)
        notes = (
            "one of both programs is not at hand: layouts, arguments, constants and planned "
            "memory are not compared",
        )
    costs = _recorded(history, history.results.index(newest))
    measured = _measured(ComparedSide(run.trace, "p50", "all"), result)
    return _explanation(Causes(before, after), costs, measured, notes, same=False)


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
    if model is None and file is None:
        return None, (
            "causes are unknown: what ran is not recorded; compare run directories, or give the "
            "programs with --model"
        )
    data = _found(model, file)
    method = model.method if model is not None else ""
    if data is not None:
        return _facts(data, str(file or (model.file if model else "")), method), ""
    assert model is not None
    if model.chains is None:
        return None, f"causes are unknown: {model.file} is not at hand; give it with --model"
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
    if (ran := program_that_ran(model.file, model.data or (), model.sha256)) is not None:
        return ran
    for path in packaged_models().values():
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
    """Return a method of a program, or of the one within a bundled program; by default the first.

    Raises:
        FormatError: It is not a program.
        UsageError: It has no such method.
    """
    program = read_named_program(data, name)
    method = method or next((one.name for one in program.methods), "")
    found = program.method(method)
    if found is None:
        has = ", ".join(one.name for one in program.methods) or "none"
        raise UsageError(f"{name} has no method {method!r}", hint=f"its methods: {has}")
    calls = delegate_calls(data, found)
    blobs = [one.blob for one in read_delegates(data)[found.name]] if calls else ()
    return facts_of_method(found, constant_reader(data), model, calls, blobs)


def explain_programs(
    before: bytes, after: bytes, names: Sequence[str] = ("before", "after"), method: str = ""
) -> tuple[Explanation, ...]:
    """Return what changed between two programs, by method, with estimates of their instructions.

    Methods are paired by their names. A method that only one of both has is a cause; two programs
    with one method each are compared whatever these are called.

    Args:
        before: The first program, as in its file.
        after: The second program.
        names: What errors and notes call them.
        method: The method to compare; "" for all.

    Raises:
        FormatError: One of them is not a program.
        UsageError: One of them has no such method.
    """
    board, _ = load_board(_ESTIMATED_ON)
    model = instruction_model(board)
    programs = before, after
    listed = [
        [method] if method else [one.name for one in read_named_program(data, name).methods]
        for data, name in zip(programs, names, strict=True)
    ]
    found = []
    pairs = [(one if one in listed[0] else "", one) for one in listed[1]]
    pairs += [(one, "") for one in listed[0] if one not in listed[1]]
    renamed = len(listed[0]) == len(listed[1]) == 1
    for pair in [(listed[0][0], listed[1][0])] if renamed else pairs:
        facts = [
            _facts(data, name, one, model) if one else None
            for data, name, one in zip(programs, names, pair, strict=True)
        ]
        notes = [
            f"{name}: {counted(missing, 'operator')} without an estimate"
            for name, side in zip(names, facts, strict=True)
            if side is not None
            if (missing := sum(step.estimate is None for chain in side.chains for step in chain))
        ]
        if renamed and pair[0] != pair[1]:
            notes.insert(0, f"the method {pair[1]} is compared with {pair[0]}, each the only one")
        explained = _explanation(
            Causes(facts[0], facts[1]),
            _estimated(facts[0]),
            _estimated(facts[1]),
            tuple(notes),
            method="" if len(pairs) == 1 or renamed else pair[1] or pair[0],
            same=program_bytes(before) == program_bytes(after),
        )
        found.append(msgspec.structs.replace(explained, left_out=_left_out(facts)))
    return tuple(found)


def _left_out(sides: Sequence[ProgramFacts | None]) -> tuple[str, ...]:
    """Return the backends whose calls have no estimate."""
    chains = [chain for side in sides if side is not None for chain in side.chains]
    steps = [step for chain in chains for step in chain if step.delegated]
    return tuple(sorted({step.name for step in steps if step.estimate is None}))


def compare_programs(
    paths: Sequence[Path], method: str, reports: Sequence[Path], output: OutputOptions
) -> int:
    """Compare two ``.pte`` files, and show what changed; return the exit code.

    Raises:
        UsageError: A file cannot be read, or an option is for runs.
        FormatError: A file is not a program.
    """
    names = [display_path(path) for path in paths]
    kinds = [is_program_file(path) for path in paths]
    if not all(kinds):
        program, other = names if kinds[0] else names[::-1]
        raise UsageError(
            f"{program} is a program, and {other} is not: a program has no times",
            hint="compare two programs, or two runs: `etharness run --model PROGRAM -o RUN` makes "
            "a run of a program",
        )
    _refuse_options_of_runs()
    before, after = (read_model(find_model(path)) for path in paths)
    explanations = explain_programs(before, after, names, method)
    document = encode(ProgramsDocument(names[0], names[1], explanations))
    for file in reports:
        is_markdown = file.suffix.lower() == ".md"
        write_file(file, markdown(explanations) if is_markdown else document)
    if output.json:
        print_document(document)
    else:
        print_explanations(output.console(), explanations)
    return 0


def _refuse_options_of_runs() -> None:
    """Raise an error if an option was given that two programs cannot heed."""
    context = click.get_current_context()
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.name in _OF_PROGRAMS:
            continue
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option.opts[-1]} is for two runs, not for two programs",
                hint="leave it out; instructions of programs are estimated, not measured",
            )


class ProgramsDocument(msgspec.Struct, frozen=True):
    """What ``etharness compare A.pte B.pte --json`` prints; ``why`` is by method."""

    before: str
    after: str
    why: tuple[Explanation, ...]


def _estimated(facts: ProgramFacts | None) -> _Costs:
    """Return the estimates of a method: no cost without it, no total if no kernel has one."""
    steps = [step for chain in (facts.chains if facts is not None else ()) for step in chain]
    times = {(s.chain, s.index): s.estimate for s in steps if s.estimate is not None}
    unknown = not times and any(step.call == "kernel" for step in steps)
    return _Costs("instructions", None if unknown else sum(times.values()), times)


def _measured(side: ComparedSide, result: Result | None) -> _Costs:
    """Return what the instructions of a run cost per execution.

    An instruction has several events, each within another: the longest one is its time, but for the
    scope around its kernel, which histories do not have.
    """
    operators = [op for op in side.operators if not op.loading]
    kernels = {(op.chain, op.instruction) for op in operators if not is_wrapper(op.name)}
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
        if is_wrapper(op.name) and place in kernels:
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
    causes: Causes | None,
    before: _Costs,
    after: _Costs,
    notes: tuple[str, ...],
    *,
    same: bool,
    method: str = "",
) -> Explanation:
    """Join causes with their costs: each instruction counts for the first cause that changes it."""
    timed = before.unit == after.unit and None not in (before.total, after.total)
    taken: tuple[set[_Place], set[_Place]] = (set(), set())
    roots = causes.roots if causes is not None else ()
    found = [
        _cause(root, causes, (before, after), taken, timed=timed, method=method)
        for root in roots
        if causes is not None
    ]
    ordered = sorted(
        zip(found, roots, strict=True),
        # Other scales are the same work: with few runs, chance alone makes their time differ.
        key=lambda pair: (
            pair[0].kind == "scale",
            -abs(pair[0].difference or 0.0),
            RANKS[pair[0].kind],
        ),
    )
    unexplained = unchanged = None
    if causes is not None and timed and before.total is not None and after.total is not None:
        explained = sum(cause.difference or 0.0 for cause in found)
        unexplained = after.total - before.total - explained
        rest = [
            sum(time for place, time in side.times.items() if place not in used)
            for side, used in zip((before, after), taken, strict=True)
        ]
        unchanged = rest[1] - rest[0]
    planned = (causes.old.planned, causes.new.planned) if causes is not None else ((), ())
    pools = zip_longest(*planned, fillvalue=0)
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
        method=method,
        known=causes is not None,
        same=same,
    )


def _cause(
    root: Root,
    causes: Causes,
    costs: tuple[_Costs, _Costs],
    taken: tuple[set[_Place], set[_Place]],
    *,
    timed: bool,
    method: str,
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
    timed = timed and (any(places) or not any(sides))  # others may have all of its operators
    where = f"in {printable(method)}, " if method and root.kind != "method" else ""
    return ProgramCause(
        kind=root.kind,
        sentence=where + sentence(root, causes),
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
    share = size / explanation.before
    if 0 < share < _SMALL:
        return f"under {percent(_SMALL)} ({sign}{text})"
    return f"{sign}{percent(share)} ({sign}{text})"


def text_of(explanation: Explanation) -> tuple[str, ...]:
    """Return all that terminal, HTML and Markdown say: first what the methods take, then lines.

    These are the causes, the largest first; what they leave unexplained; memory; and notes.
    """
    lines = [_headline(explanation)]
    for cause in explanation.causes:
        cost = ""
        if cause.difference is not None:
            cost = f"{difference_text(cause.difference, explanation)}: "
        elif explanation.unexplained is not None:
            cost = "counted with another cause: "
        extra = [f"{name} {value:+,.0f}" for name, value in cause.counters.items()]
        if cause.joules is not None:
            extra.append(f"{cause.joules:+.3g} J")
        lines.append(cost + cause.sentence + (f" [{', '.join(extra)}]" if extra else ""))
    rest = explanation.unexplained or 0.0
    if explanation.causes and abs(rest) >= _LEAST:
        where = ""
        if explanation.unchanged:
            unchanged = difference_text(explanation.unchanged, explanation)
            where = f" (operators that did not change: {unchanged})"
        lines.append(f"{difference_text(rest, explanation)}: unexplained{where}")
    for pool, (before, after) in explanation.memory.items():
        lines.append(f"{pool}: {size_change(before, after)}")
    return (*lines, *(f"note: {note}" for note in explanation.notes))


def _headline(explanation: Explanation) -> str:
    before, after = explanation.before, explanation.after
    parts = []
    if before is not None and after is not None:
        parts.append(f"{difference_text(after - before, explanation)} per execution")
        if explanation.left_out:
            parts[0] += f" on the CPU, without {printable(' and '.join(explanation.left_out))}"
        if explanation.unit == "instructions":
            parts[0] += " (estimated for a Cortex-M4)"
    if explanation.same:
        parts.append("the program did not change")
    elif explanation.known and not explanation.causes:
        what = "method was found" if explanation.method else "program was found, but files differ"
        parts.append(f"no change of the {what}")
    why = f"Why, method {printable(explanation.method)}" if explanation.method else "Why"
    return f"{why}: {'; '.join(parts)}" if parts else why


def print_explanations(console: Console, explanations: Sequence[Explanation]) -> None:
    """Print what is said of each method."""
    from harness.report.terminal import show_line

    for first, *lines in map(text_of, explanations):
        show_line(console, first, style="bold")
        for line in lines:
            show_line(console, f"  {line}", style="yellow" if line.startswith("note: ") else None)
        show_line(console)


def markdown(explanations: Sequence[Explanation], warnings: Sequence[str] = ()) -> bytes:
    """Return the causes as a comment on a pull request, below warnings of the comparison."""
    from harness.report.markdown import sentences_text

    blocks = [*([text] for text in warnings), *map(text_of, explanations)]
    return "".join(map(sentences_text, blocks)).encode()
