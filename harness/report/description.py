"""An evaluated run as every report shows it: contents, order, texts and units."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from harness.analyze.blocks import FULL_LOG_HINT, full_log
from harness.analyze.memory import AllocatorMemory, AllocatorTotals, Memory
from harness.analyze.ticks import Timeline, default_jitter, suspected_widths, unwrap
from harness.errors import FormatError
from harness.formatting import DisplayUnit, printable, stack_use, time_unit, with_printable_text
from harness.plugins import DATASETS, EXPLANATIONS, INSTANTS, SECTIONS, load_plugin, plugin_names
from harness.records.explanation import Explanation
from harness.records.result import (
    ClockQuality,
    Failure,
    Model,
    Result,
    bytes_carried,
    corrupt_frames,
)
from harness.records.trace import Kind, Trace, type_name
from harness.records.verdict import Check, Severity, Verdict
from harness.report.changes import ChangeTable, describe_changes
from harness.report.delegates import delegate_table
from harness.report.operators import (
    CounterTable,
    OperatorListing,
    RooflineTable,
    describe_counters,
    describe_energy,
    describe_operators,
    describe_roofline,
)
from harness.report.words import ReportTable, counted, verdict_word
from harness.runs.source import EvaluatedRun, test_set_name

if TYPE_CHECKING:
    from harness.check.subject import Subject
    from harness.records.nightly import NightDocument
    from harness.runs.history import HistoryRef


class ClockQualityDocument(msgspec.Struct, frozen=True):
    """A clock of a trace.

    ``hz`` is null when its rate is unknown. ``backward_steps`` counts events that ended a little
    before the one logged before them, ``reversed_events`` those that ended a little before they
    began: up to ``jitter`` ticks that is read so and not as nearly a whole wrap. Where readings
    look like those of a narrower counter, ``suspected_bits`` is its width and ``suspicion`` says
    why; else both are null. ``quality`` says how well it is known when its events were, null
    without readings of it. ``emulated``: it counts the steps of an emulator, so its rate against
    real time means nothing.
    """

    name: str
    bits: int
    down: bool
    hz: float | None
    jitter: int
    backward_steps: int
    reversed_events: int
    suspected_bits: int | None
    suspicion: str | None
    quality: ClockQuality | None
    emulated: bool


def clock_documents(
    trace: Trace,
    qualities: Sequence[ClockQuality] = (),
    later_dumps: Sequence[int] = (),
    *,
    emulated: bool = False,
) -> list[ClockQualityDocument]:
    """Describe every clock of a trace, in which further dumps begin at rows ``later_dumps``."""
    return _clock_documents(trace, qualities, _timeline(trace), later_dumps, emulated=emulated)


def _clock_documents(
    trace: Trace,
    qualities: Sequence[ClockQuality],
    timeline: Timeline | None,
    later_dumps: Sequence[int] = (),
    *,
    emulated: bool = False,
) -> list[ClockQualityDocument]:
    known = {quality.clock: quality for quality in qualities}
    suspected = {found.number: found for found in suspected_widths(trace, later_dumps)}
    return [
        ClockQualityDocument(
            name=domain.name,
            bits=domain.bits,
            down=domain.down,
            hz=None if domain.hz is None else float(domain.hz),
            jitter=default_jitter(domain),
            backward_steps=timeline.backward_steps[number] if timeline else 0,
            reversed_events=timeline.reversed_events[number] if timeline else 0,
            suspected_bits=suspected[number].bits if number in suspected else None,
            suspicion=printable(suspected[number].advice) if number in suspected else None,
            quality=known.get(domain.name),
            emulated=emulated,
        )
        for number, domain in enumerate(trace.clocks)
    ]


def clock_lines(
    trace: Trace, qualities: Sequence[ClockQuality] = (), *, emulated: bool = False
) -> Iterator[str]:
    """Return a line for each clock that needs attention."""
    timeline = _timeline(trace)
    if timeline is None:
        yield "clocks: events span more than can be: width or direction of a counter may be wrong"
    elif timeline.placed or timeline.unplaced:
        yield from (f"clocks: {text}" for text in tracer_lines(trace))
    for clock in _clock_documents(trace, qualities, timeline):
        if clock.backward_steps or clock.reversed_events:
            line = (
                f"clock {clock.name}: time steps back {counted(clock.backward_steps, 'time')}; "
                f"events that end before they begin: {clock.reversed_events}"
            )
            small = clock.jitter < 1 << (clock.bits - 1)
            yield f"{line}, each by at most {clock.jitter:,} ticks" if small else line
        if clock.quality is not None:
            yield f"clock {clock.name}: {_on_host(clock.quality, emulated=emulated)}"


def tracer_lines(trace: Trace) -> list[str]:
    """Return a line for each tracer that is placed among others, or is not, with the reason."""
    timeline = _timeline(trace)
    if timeline is None:
        return []
    unplaced = [f"{text}; it may have logged at other times (I30)" for text in timeline.unplaced]
    return [printable(text) for text in (*unplaced, *timeline.placed)]


def _timeline(trace: Trace) -> Timeline | None:
    try:
        return unwrap(trace)
    except FormatError:
        return None


EMULATED: Final = "emulated time: it counts steps of the simulator, not real time"
"""What reports say of the clocks of an emulator."""


def _on_host(quality: ClockQuality, *, emulated: bool) -> str:
    if emulated:
        return EMULATED
    if quality.half_width_ns is None:
        return f"not placed on the host's clock: {quality.unknown}"
    unit = time_unit([quality.half_width_ns])
    width = f"{unit.text(quality.half_width_ns)} {unit.name}"
    text = f"on the host's clock within +-{width}, from {quality.readings} readings"
    # Not for the host's own clock.
    if quality.rate_ppm is not None and any(quality.rate_ppm):
        low, high = quality.rate_ppm
        text += f"; its rate is {low:+,.1f} to {high:+,.1f} ppm off the declared one"
    if quality.bounded < quality.events:
        text += f"; except {counted(quality.events - quality.bounded, 'event')}: {quality.unknown}"
    if quality.silent_wraps:
        text += (
            f"; {counted(quality.unsettled, 'event')} may hide "
            f"{counted(quality.silent_wraps, 'wrap')} of the counter"
        )
    return text


class Fact(NamedTuple):
    """A label and its text.

    Attributes:
        label: What it is.
        text: Its value with its unit, safe to print.
        essential: A terminal shows it, too; pages show all facts.
    """

    label: str
    text: str
    essential: bool = False


LossKind = Literal["lost", "by request", "harmless"]
"""``lost`` makes totals lower bounds; ``harmless`` was sent again, or is missing from a copy."""


class Loss(msgspec.Struct, frozen=True):
    """A number of things that a trace or its copies may lack.

    Attributes:
        what: What is missing, and why.
        count: How many.
        unit: What is counted.
        kind: What it means for the numbers of a report.
        note: Where it is missing, and what to try, if that is known.
    """

    what: str
    count: int
    unit: str
    kind: LossKind = "lost"
    note: str = ""

    @property
    def text(self) -> str:
        """The loss in a sentence."""
        return self.note or f"{self.count:,} {self.what}"


def trace_losses(trace: Trace, requested: int | None = None) -> list[Loss]:
    """Everything that may be missing from a trace, also what is not.

    Args:
        trace: The trace.
        requested: Number of executions that the run asked for, if known.
    """
    lost, note = trace.losses, ""
    if lost.events and (full := full_log(trace, requested)):
        are = "is" if lost.events == 1 else "are"
        note = f"log {full}; {counted(lost.events, 'event')} after it {are} lost; {FULL_LOG_HINT}"
    filtered = "events filtered out by the target, as requested"
    return [
        Loss("events dropped by the target", lost.events, "events", note=note),
        Loss("block and allocator declarations dropped", lost.blocks, "declarations"),
        Loss("values dropped, or recorded without their bytes", lost.values, "values"),
        Loss("executions overwritten by newer ones, as requested", lost.runs, "runs", "by request"),
        Loss("chunks of the log that did not arrive", lost.chunks, "chunks"),
        Loss("records in these chunks", lost.records, "records"),
        Loss("events lost to damage of the file, at least", lost.damaged, "damaged events"),
        Loss(filtered, trace.filtered_events, "events", "by request"),
    ]


def run_losses(
    trace: Trace | None, result: Result | None, requested: int | None = None
) -> Iterator[Loss]:
    """Everything that may be missing from a run, also what is not; arguments as above."""
    requested = requested if result is None else result.runs_requested
    yield from trace_losses(Trace.unset(0) if trace is None else trace, requested)
    if result is None:
        return
    missing = max(result.runs_requested - result.runs_completed, 0)
    yield Loss("executions requested and not completed", missing, "executions")
    corrupt, retries = corrupt_frames(result.link), result.link.get("retries", 0)
    yield Loss("frames damaged on the line, and sent again", corrupt, "frames", "harmless")
    yield Loss("requests repeated", retries, "requests", "harmless")
    left_out = result.console_left_out
    console = "bytes of console output left out of console.log"
    yield Loss(console, left_out, "bytes", "harmless")
    if summary := result.trace:
        allocations, values = summary.etdp_left_out_allocations, summary.etdp_left_out_values
        copy = "left out of the ED00 copy"
        yield Loss(f"allocations {copy}", allocations, "allocations", "harmless")
        yield Loss(f"values {copy}", values, "values", "harmless")
        counts = summary.etdp_left_out_counts
        yield Loss(f"counts of hardware counters {copy}", counts, "events", "harmless")


def link_line(counts: Mapping[str, int]) -> tuple[str, str]:
    """Return name and text of what was transferred: over a link, or by a debug probe."""
    if "halts" in counts:
        halted, longest = counts["halted_us"] / 1000, counts["longest_halt_us"] / 1000
        line = f"{counts['probe_bytes']:,} bytes read, {counts['halts']} halts"
        return "probe", f"{line} of {halted:,.1f} ms in all, the longest {longest:,.1f} ms"
    carried, corrupt = bytes_carried(counts), corrupt_frames(counts)
    return (
        "link",
        f"{carried:,} bytes, {corrupt} corrupt frames, {counts.get('retries', 0)} retries",
    )


def provenance(run: EvaluatedRun) -> Iterator[Fact]:
    """What ran where, and everything that tells this run from another one."""
    result = run.result
    if result is None:
        yield Fact("result", "none: this is a trace alone")
    else:
        yield from _hardware(result)
        if result.model is not None:
            yield from _program(result.model)
        done = f"{result.runs_completed:,} of {result.runs_requested:,}"
        yield Fact("executions", done, essential=True)
        if (trace := result.trace) is not None:
            log = f"{trace.events:,} events of {trace.blocks:,} blocks in {trace.log_bytes:,} bytes"
            yield Fact("trace", f"{log}, digest verified", essential=True)
            yield Fact("sha256 of the log", trace.sha256)
            if trace.values:
                values = f"{trace.values:,} with {trace.debug_bytes:,} bytes of tensors"
                logging = f"; logging them took {trace.value_ticks:,} ticks"
                yield Fact("values", values + logging, essential=True)
            if trace.streaming_ticks:
                streaming = f"{trace.streaming_ticks:,} ticks"
                if trace.waiting_ticks:
                    streaming += f", and {trace.waiting_ticks:,} ticks waiting for the host"
                yield Fact("streaming", f"{streaming}, between operators", essential=True)
            if trace.stack_size:
                stack = stack_use(trace.stack_used, trace.stack_size)
                yield Fact("stack", stack, essential=True)
        yield Fact(*link_line(result.link), essential=True)
    yield Fact("kept in", printable(run.title), essential=True)
    yield Fact("budget", printable(run.budget) or "none")
    if result is not None:
        yield from _making(result)


def _hardware(result: Result) -> Iterator[Fact]:
    """The board, its firmware and its clock."""
    board, target = printable(result.board), result.target
    if target is None:
        yield Fact("board", board, essential=True)
    else:
        name = f"{printable(target.board)} ({printable(target.cpu)})"
        yield Fact("board", f"{name}, firmware {printable(target.build_id)}", essential=True)
        yield Fact("kernels", printable(target.software) or "not reported", essential=True)
        clocks = []
        for clock in target.clocks[:1]:
            hz = clock.hz_numerator / clock.hz_denominator
            rate = f"{hz:,.0f} Hz" if hz else "unknown rate"
            clocks.append(f"{printable(clock.name)}, {rate}, {clock.bits} bits")
        clocks += ["emulated time"] if result.emulated_time else []
        if target.probe_pairs:
            cost = f"{target.probe_ticks / target.probe_pairs:,.1f} ticks"
            if (trace := result.trace) and trace.probe_pairs:
                cost += f", {trace.probe_ticks / trace.probe_pairs:,.1f} with the counters"
            clocks.append(f"an empty event costs {cost}")
        yield Fact("clock", "; ".join(clocks), essential=True)
    yield Fact("unit", printable(result.unit))
    yield Fact("port", printable(result.port or "none"))
    if target is not None and target.link_version:  # memory that was read has no HELLO
        frames = f"version {target.link_version}, frames of up to {target.mtu:,} bytes"
        yield Fact("protocol", frames)
        for what, size in (
            ("model", target.model_capacity),
            ("arena", target.arena_capacity),
            ("inputs", target.input_capacity),
            ("log", target.trace_capacity),
            ("values", target.debug_capacity),
        ):
            yield Fact(f"room for {what}", f"{size:,} bytes")
    if image := result.image:
        sizes = f"{image.text:,} text + {image.data:,} data + {image.bss:,} bss bytes"
        yield Fact("image", sizes)


def _program(model: Model) -> Iterator[Fact]:
    """The model, its memory, its inputs and its delegates."""
    text = f"{printable(model.file)}, {model.nbytes:,} bytes, sha256 {model.sha256[:12]}"
    yield Fact("model", text, essential=True)
    arena = f"{model.planned_bytes:,} planned + {model.method_bytes:,} method bytes"
    if isinstance(model.temporary_bytes, int):
        arena += f", and at most {model.temporary_bytes:,} temporary bytes"
    yield Fact("arena", arena, essential=True)
    yield Fact("sha256 of the model", model.sha256)
    yield Fact("method", printable(model.method))
    for place, tensor in enumerate(model.inputs):
        kind = f"{type_name(tensor.scalar_type)}, {shape_text(tensor.sizes)}"
        yield Fact(f"input {place}", f"{kind}, {tensor.nbytes:,} bytes, {printable(tensor.file)}")
    if model.outputs_unread:
        yield Fact("outputs", f"not read: {printable(model.outputs_unread)}", essential=True)
    if model.delegates:
        delegates = Counter(printable(call.backend) for call in model.delegates)
        calls = [f"{name} ({count:,} instructions)" for name, count in delegates.items()]
        yield Fact("delegates", ", ".join(calls), essential=True)


def _making(result: Result) -> Iterator[Fact]:
    """When, by which tool and with which options the run was made."""
    yield Fact("result", result.id)
    yield Fact("began", printable(result.started_utc))
    yield Fact("took", f"{result.duration_s:,.1f} s")
    yield Fact("commit", printable(result.commit) or "unknown")
    yield Fact("session", printable(result.session))
    yield Fact("tool", f"etdump-harness {printable(result.tool_version)}")
    yield Fact("seed of random inputs", str(result.seed))
    yield Fact("exit code", str(result.exit_code))
    if (known := result.reference) is not None:
        bounds = [
            f"{n} {v:g}" for n, v in (("rtol", known.rtol), ("atol", known.atol)) if v is not None
        ]
        tolerance = ", ".join(bounds) or "by the type of each"
        yield Fact("reference", f"of {counted(len(known.files), 'output')}, tolerance {tolerance}")
    for pattern, scale in result.time_scales.items():
        yield Fact(f"time scale of {printable(pattern)}", printable(scale))


def shape_text(sizes: Iterable[int]) -> str:
    """Return a shape such as ``1 x 8``."""
    return " x ".join(map(str, sizes)) or "scalar"


class AllocatorUse(NamedTuple):
    """An allocator in a run: its totals, and what it held over time; None without a call tree.

    ``peak`` is the most that it held at any time.
    """

    totals: AllocatorTotals
    memory: AllocatorMemory | None
    peak: int


def describe_allocators(
    totals: Iterable[AllocatorTotals], memory: Memory | None = None
) -> tuple[AllocatorUse, ...]:
    """Describe allocators, the one with the highest peak first."""
    over_time = {} if memory is None else {item.allocator.id: item for item in memory.allocators}
    uses = []
    for item in totals:
        held = over_time.get(item.id)
        uses.append(AllocatorUse(item, held, item.peak_bytes if held is None else held.peak))
    return tuple(sorted(uses, key=lambda use: use.peak, reverse=True))


Outcome = Literal["pass", "fail", "error"]
"""``fail``: a check failed. ``error``: the run failed before its end."""

_CHANGES: Final = ("H01", "H02", "H03", "H10", "H11")
"""Codes of changes that a person can accept."""

_SEVERITIES: Final[tuple[Severity, ...]] = ("warning", "note")
"""Severities that do not fail a run, the worse first."""


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
    failed: tuple[Check, ...]
    warned: tuple[Check, ...]
    passed: tuple[Check, ...]

    @property
    def line(self) -> str:
        """PASS or FAIL, and the headline."""
        return f"{verdict_word(self.outcome == 'pass')}: {self.headline}"

    @property
    def next(self) -> str:
        """What to type next about the first change from the history; "" if there is none."""
        subjects = [row.subject for row in self.failed if row.code in _CHANGES]
        if not subjects:
            return ""
        subject = shlex.quote(subjects[0])
        return f"next: etharness history accept {subject} --reason WHY, or etharness bisect"

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks: failed ones, then warnings and notes, then passed ones."""
        return (*self.failed, *self.warned, *self.passed)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """An evaluated run; its texts are safe to print.

    Attributes:
        run: What is described; pictures are drawn from it.
        verdict: How it ended, and the checks.
        exit_code: Exit code of the run or of its check.
        board: Name of the board type; empty when unknown.
        unit: The physical board.
        model: Name of the model, with the test set if one of several ran; empty when unknown.
        kernels: Whose kernels ran; empty when unknown.
        facts: Where it is from, in order.
        operators: Its operators; None without events.
        counters: What hardware counters counted in them; None if nothing was counted.
        energy: What it drew; None without a meter.
        roofline: The operators against what the core can do; None where that is unknown.
        allocators: Its allocators, the one with the highest peak first.
        untold: Why there is neither a call tree nor memory over time; empty if there is.
        changes: What differs from history; None without a comparison.
        losses: Everything that may be missing, also what is not.
        clock_lines: What a reader should know of the clocks.
        sections: What extensions say of a program, by their names.
        section_tables: The same as tables.
        why: What changed in the program since the baseline, and what that cost; None if unknown.
        causes: The same in sentences.
        regression: It is suspect, or passed by itself and its nightly run found it worse.
    """

    run: EvaluatedRun
    verdict: VerdictDescription
    exit_code: int
    board: str
    unit: str
    model: str
    kernels: str
    facts: tuple[Fact, ...]
    operators: OperatorListing | None
    counters: CounterTable | None
    energy: ReportTable | None
    roofline: RooflineTable | None
    allocators: tuple[AllocatorUse, ...]
    untold: str
    changes: ChangeTable | None
    losses: tuple[Loss, ...]
    clock_lines: tuple[str, ...]
    sections: Mapping[str, Any]
    section_tables: tuple[ReportTable, ...]
    why: Explanation | None = None
    causes: tuple[str, ...] = ()
    regression: bool = False

    @property
    def title(self) -> str:
        """The path where it was found."""
        return printable(self.run.title)

    @property
    def failure(self) -> Failure | None:
        """Why it failed before its end."""
        if (failure := self.run.failure) is None:
            return None
        kind, message, hint = map(printable, (failure.kind, failure.message, failure.hint))
        return Failure(kind, message, hint, failure.owner)

    @property
    def console(self) -> tuple[str, ...]:
        """The end of the board's text, line by line."""
        return tuple(map(printable, self.run.console.splitlines()))


def describe_of_night(
    runs: Sequence[EvaluatedRun], night: NightDocument | None
) -> list[RunDescription]:
    """Describe runs, as their nightly run judges them if there is one."""
    steps = {
        attempt.result: outcome
        for outcome in (night.outcomes if night is not None else ())
        for attempt in outcome.attempts
        if outcome.outcome == "regression"
    }
    found = []
    for run in runs:
        described = describe(run)
        step = steps.get(run.result.id) if run.result is not None else None
        if step is not None and described.verdict.outcome == "pass":
            why = printable(step.why)
            alone = f"its own checks: {described.verdict.headline}"
            verdict = replace(described.verdict, outcome="fail", why=why, headline=alone)
            described = replace(described, verdict=verdict, exit_code=1, regression=True)
        found.append(described)
    return found


def describe(run: EvaluatedRun, *, unit: DisplayUnit | None = None) -> RunDescription:
    """Describe ``run``, with times of operators in ``unit`` instead of the one that fits best."""
    subject, result = run.subject, run.result
    trace = None if subject is None else subject.trace
    board = (subject.board if subject is not None else "") or (result.board if result else "")
    model = subject.model if subject is not None else ""
    if result is not None and result.model is not None:
        model = model or result.model.known_as
        if result.test_set is not None:
            model = f"{model}, {test_set_name(result.model.method, result.test_set)}"
    untold = ""
    allocators: tuple[AllocatorUse, ...] = ()
    clocks: tuple[str, ...] = ()
    if subject is not None:
        try:
            _ = subject.tree  # memory over time needs it, too
        except FormatError as error:
            untold = printable(error.message)
        allocators = describe_allocators(subject.allocators, None if untold else subject.memory)
        emulated = subject.emulated_time
        clocks = tuple(clock_lines(subject.trace, subject.qualities, emulated=emulated))
    table = describe_operators(subject, unit) if subject is not None else None
    recorded = result.trace.counters if result is not None and result.trace is not None else ()
    requested = subject.runs_requested if subject is not None else None
    known = (result.model.sections or {}) if result is not None and result.model else {}
    sections, section_tables = describe_sections(known, subject)
    calls = result.model.delegates if result is not None and result.model else ()
    changes = describe_changes(run.comparison) if run.comparison is not None else None
    explain: Any = load_plugin(EXPLANATIONS, "compare") if run.history is not None else None
    why = explain and explain.explain_history(run)
    verdict, worse = describe_verdict(run.verdict, run.failure), False
    if run.comparison is not None and verdict.checks:
        from harness.report.nightly import comparison_sentence

        names, passed = (
            (printable(board), printable(model).partition(".pte")[0]),
            not verdict.failed,
        )
        if run.failure is None and (passed or verdict.failed[0].code.startswith("H")):
            said = comparison_sentence(names, run.comparison, passed=passed)
            verdict = replace(verdict, why=said or verdict.why)
            worse = bool(said) and not passed
    return RunDescription(
        run=run,
        verdict=verdict,
        exit_code=run.exit_code,
        board=printable(board),
        unit=printable(result.unit) if result is not None else "",
        model=printable(model),
        kernels=printable(result.target.software) if result and result.target else "",
        facts=tuple(provenance(run)),
        operators=table if table is not None and table.logged else None,
        counters=describe_counters(subject, table, recorded) if subject and table else None,
        energy=describe_energy(result.energy, table) if result and result.energy else None,
        roofline=describe_roofline(subject, table) if subject is not None and table else None,
        allocators=allocators,
        untold=untold,
        changes=changes,
        losses=tuple(run_losses(trace, result, requested)),
        clock_lines=clocks,
        sections=sections,
        section_tables=(
            *filter(lambda found: found.rows, map(delegate_table, calls)),
            *section_tables,
        ),
        why=why,
        causes=explain.text_of(why) if why else (),
        regression=worse and run.exit_code == 3,
    )


def describe_sections(
    found: Mapping[str, Any], subject: Subject | None = None
) -> tuple[dict[str, Any], tuple[ReportTable, ...]]:
    """Return what extensions say of a program and of the instants of a log, and both as tables.

    Args:
        found: What they said of the program (`harness.analyze.workload.method_sections`).
        subject: The run, whose times they add.
    """
    plugins: dict[str, Any] = {name: load_plugin(SECTIONS, name) for name in found}
    if subject is not None and subject.trace.kind.max(initial=0) >= Kind.TASK:
        plugins |= {name: load_plugin(INSTANTS, name) for name in plugin_names(INSTANTS)}
    if subject is not None and subject.accuracy is not None:
        plugins["accuracy"] = load_plugin(DATASETS, "npz")
    known = {name: plugin for name, plugin in plugins.items() if plugin is not None}
    measured = {name: plugin.measure(found.get(name), subject) for name, plugin in known.items()}
    return measured, tuple(table for name in known for table in known[name].tables(measured[name]))


def describe_verdict(verdict: Verdict, failure: Failure | None = None) -> VerdictDescription:
    """Describe a verdict, and the failure of the run if it failed before its end."""
    failed = tuple(map(with_printable_text, verdict.worst_failures))
    warnings = sorted(verdict.warnings, key=lambda check: _SEVERITIES.index(check.severity))
    warned = tuple(map(with_printable_text, warnings))
    why = headline = verdict.headline
    if failure is not None:
        why = printable(failure.message)
        headline = f"the run failed: {printable(failure.kind)}: {why}"
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
        passed=tuple(with_printable_text(check) for check in verdict.checks if check.passed),
    )


def failure_text(run: EvaluatedRun, against: HistoryRef | None = None) -> str:
    """Return the failed checks of a run, what ran, and the command that checks it again."""
    from rich.console import Console

    from harness.report.run import print_failure

    out = io.StringIO()
    console = Console(file=out, color_system=None, force_terminal=False, emoji=False)
    print_failure(console, describe_verdict(run.verdict, run.failure))
    place = str(run.directory or run.title)
    again = ["etharness", "check", place]
    again += ["--budget", run.budget] if run.budget else []
    history = ""
    if against is not None:
        history = str(against.url)
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
    model = result.model.known_as if result.model else "nothing"
    target = result.target
    build = f", firmware {target.build_id}, {target.software}" if target else ""
    where = result.board if result.port is None else f"{result.board} ({result.unit})"
    return [f"{model} on {where}{build}"]
