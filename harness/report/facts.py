"""Facts of a run as labels and texts: provenance, link, clocks, losses and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import msgspec

from harness.analyze.ticks import Timeline, default_jitter, suspected_widths, unwrap
from harness.check.limits import FULL_LOG_HINT, full_log
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.formatting import printable, stack_use, time_unit
from harness.records.result import (
    ClockQuality,
    ClockRecord,
    Model,
    Result,
    TraceSummary,
    bytes_carried,
    corrupt_frames,
)
from harness.records.scalar_types import type_name
from harness.records.trace import Trace
from harness.report.text import counted, number, one_time
from harness.runs.evaluation import EvaluatedRun


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
    return _documents(trace, qualities, _timeline(trace), later_dumps, emulated=emulated)


def _documents(
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
    for clock in _documents(trace, qualities, timeline):
        if clock.backward_steps or clock.reversed_events:
            line = (
                f"clock {clock.name}: {clock.backward_steps} steps back and "
                f"{clock.reversed_events} events that end before they begin"
            )
            small = clock.jitter < 1 << (clock.bits - 1)
            yield f"{line}, each by at most {clock.jitter:,} ticks" if small else line
        if clock.quality is not None:
            yield f"clock {clock.name}: {_on_host(clock.quality, emulated=emulated)}"


def _timeline(trace: Trace) -> Timeline | None:
    try:
        return unwrap(trace)
    except FormatError:
        return None


EMULATED: Final = "emulated time: it counts steps of the simulator, not real time"
"""What reports say of the clocks of an emulator."""


def _on_host(quality: ClockQuality, *, emulated: bool) -> str:
    before = f"{EMULATED}; " if emulated else ""
    if quality.half_width_ns is None:
        return f"{before}not placed on the host's clock: {quality.unknown}"
    unit = time_unit([quality.half_width_ns])
    width = f"{unit.text(quality.half_width_ns)} {unit.name}"
    text = f"{before}on the host's clock within +-{width}, from {quality.readings} readings"
    # Not for the host's own clock; the rate of emulated time is the emulator's speed.
    if quality.rate_ppm is not None and any(quality.rate_ppm) and not emulated:
        low, high = quality.rate_ppm
        text += f"; its rate is {low:+,.1f} to {high:+,.1f} ppm off the declared one"
    if quality.bounded < quality.events:
        text += f"; not so {quality.events - quality.bounded} events: {quality.unknown}"
    if quality.silent_wraps:
        text += (
            f"; {quality.silent_wraps} wraps passed among {quality.unsettled} events, "
            "nobody knows between which"
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


@dataclass(frozen=True, slots=True)
class Loss:
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


class ClockFacts(NamedTuple):
    """A clock's name, and facts about it."""

    name: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class DelegateFacts:
    """A delegate's backend, and how many instructions call it."""

    backend: str
    instructions: int


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """An output of the last execution.

    Attributes:
        name: Its file.
        type: Type of its elements; empty when unknown.
        shape: Its shape as text.
        nbytes: Its size.
        off: The largest difference from its reference, as text.
    """

    name: str
    type: str
    shape: str
    nbytes: int
    off: str


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
        Loss("runs overwritten by newer ones, as requested", lost.runs, "runs", "by request"),
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


def link_facts(result: Result | None) -> Iterator[Fact]:
    """The line's rate, its counters, and readings of the device's clock."""
    if result is None:
        return
    yield Fact("line rate", f"{result.baud:,} baud" if result.baud else "unknown")
    for name, count in result.link.items():
        yield Fact(name.replace("_", " "), f"{count:,}")
    if pings := result.pings:
        trips = [ping.host_after_ns - ping.host_before_ns for ping in pings]
        yield Fact("clock readings", f"{len(pings):,}")
        yield Fact("shortest round trip", one_time(min(trips)))
        yield Fact("longest round trip", one_time(max(trips)))
        yield Fact("clock epochs", f"{len({ping.epoch for ping in pings}):,}")


def clock_facts(subject: Subject | None, *, emulated: bool = False) -> list[ClockFacts]:
    """What is known of each clock of the trace."""
    if subject is None:
        return []
    found = clock_documents(subject.trace, subject.qualities, emulated=emulated)
    return [ClockFacts(printable(clock.name), tuple(_clock(clock))) for clock in found]


def _clock(clock: ClockQualityDocument) -> Iterator[Fact]:
    yield Fact("rate", "unknown" if clock.hz is None else f"{number(clock.hz)} Hz")
    if clock.emulated:
        yield Fact("time", EMULATED)
    yield Fact("counter", f"{clock.bits} bits, counts {'down' if clock.down else 'up'}")
    jitter = f"{clock.backward_steps:,}, each by at most {clock.jitter:,} ticks"
    yield Fact("steps back", jitter)
    yield Fact("events that end before they begin", f"{clock.reversed_events:,}")
    quality = clock.quality
    if quality is None:
        yield Fact("on the host's clock", "no readings")
        return
    reference, why = printable(quality.reference), printable(quality.unknown)
    if quality.half_width_ns is None:
        yield Fact(f"on clock {reference}", f"not placed: {why}")
    else:
        yield Fact(f"on clock {reference}", f"within ±{one_time(quality.half_width_ns)}")
    yield Fact("readings", f"{quality.readings:,}")
    others = f"; not the others: {why}" if why else ""
    yield Fact("events on its timeline", f"{quality.placed:,} of {quality.events:,}")
    bounded = f"{quality.bounded:,} of {quality.events:,}{others}"
    yield Fact("events between two known instants", bounded)
    wraps = f"{quality.silent_wraps:,}, among {quality.unsettled:,} events"
    yield Fact("wraps that cannot be placed", wraps)
    if quality.rate_ppm is not None and not clock.emulated:
        low, high = quality.rate_ppm
        yield Fact("rate against the declared one", f"{low:+,.1f} to {high:+,.1f} ppm")
    yield Fact("epochs", "; ".join(map(printable, quality.epochs)) or "none")


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


def provenance(run: EvaluatedRun, delegates: Sequence[DelegateFacts]) -> Iterator[Fact]:
    """What ran where, and everything that tells this run from another one."""
    result = run.result
    if result is None:
        yield Fact("result", "none: this is a trace alone")
    else:
        yield from _hardware(result)
        yield from _program(result.model, delegates)
        done = f"{result.runs_completed:,} of {result.runs_requested:,}"
        yield Fact("executions", done, essential=True)
        yield from _log(result.trace)
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
        clocks = [_clock_text(clock) for clock in target.clocks[:1]]
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


def _clock_text(clock: ClockRecord) -> str:
    rate = "unknown rate"
    if clock.hz_numerator:
        rate = f"{clock.hz_numerator / clock.hz_denominator:,.0f} Hz"
    return f"{printable(clock.name)}, {rate}, {clock.bits} bits"


def _program(model: Model | None, delegates: Sequence[DelegateFacts]) -> Iterator[Fact]:
    """The model, its memory, its inputs and its delegates."""
    if model is None:
        return
    text = f"{printable(model.file)}, {model.nbytes:,} bytes, sha256 {model.sha256[:12]}"
    yield Fact("model", text, essential=True)
    arena = f"{model.planned_bytes:,} planned + {model.method_bytes:,} method bytes"
    yield Fact("arena", arena, essential=True)
    yield Fact("sha256 of the model", model.sha256)
    yield Fact("method", printable(model.method))
    for place, tensor in enumerate(model.inputs):
        kind = f"{type_name(tensor.scalar_type)}, {_shape(tensor.sizes)}"
        yield Fact(f"input {place}", f"{kind}, {tensor.nbytes:,} bytes, {printable(tensor.file)}")
    if model.outputs_unread:
        yield Fact("outputs", f"not read: {printable(model.outputs_unread)}", essential=True)
    if delegates:
        calls = [f"{item.backend} ({item.instructions:,} instructions)" for item in delegates]
        yield Fact("delegates", ", ".join(calls), essential=True)


def _log(trace: TraceSummary | None) -> Iterator[Fact]:
    """The log that was pulled, and what the device reported beside it."""
    if trace is None:
        return
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
        streaming += ", between operators"
        yield Fact("streaming", streaming, essential=True)
    if trace.stack_size:
        yield Fact("stack", stack_use(trace.stack_used, trace.stack_size), essential=True)


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
        yield Fact("reference", f"of {len(known.files):,} outputs, tolerance {tolerance}")
    for pattern, scale in result.time_scales.items():
        yield Fact(f"time scale of {printable(pattern)}", printable(scale))


def delegate_facts(result: Result | None) -> list[DelegateFacts]:
    """Backends that instructions of the model call, in order of the first call."""
    calls = result.model.delegates if result is not None and result.model is not None else ()
    found = Counter(printable(call.backend) for call in calls)
    return [DelegateFacts(backend, count) for backend, count in found.items()]


def output_facts(subject: Subject | None, result: Result | None) -> list[OutputFacts]:
    """The outputs of the last execution, in order."""
    off: dict[str, str] = {}
    for output in () if subject is None else subject.outputs:
        if output.value.shape != output.reference.shape:
            off[output.name] = f"the reference has shape {_shape(output.reference.shape)}"
        elif output.value.dtype != output.reference.dtype:
            types = f"it is {output.value.dtype}, the reference is {output.reference.dtype}"
            off[output.name] = printable(types)
        elif not output.value.size:
            off[output.name] = "both are empty"
        else:
            off[output.name] = f"{number(output.largest_difference)} at most"
    if result is None or result.model is None:
        return [OutputFacts(printable(name), "", "", 0, text) for name, text in off.items()]
    return [
        OutputFacts(
            name=printable(tensor.file),
            type=type_name(tensor.scalar_type),
            shape=_shape(tensor.sizes),
            nbytes=tensor.nbytes,
            off=off.get(tensor.file, "no reference"),
        )
        for tensor in result.model.outputs
    ]


def _shape(sizes: Iterable[int]) -> str:
    return " x ".join(map(str, sizes)) or "scalar"
