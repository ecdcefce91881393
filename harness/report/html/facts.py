"""Facts of a run as labels and values: where it is from, its link, its clocks, its losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from harness.check.subject import Subject
from harness.formatting import stack_use
from harness.records.result import Result, corrupt_frames
from harness.records.scalar_types import type_name
from harness.records.trace import Losses
from harness.report.clocks import ClockQualityDocument, clock_documents
from harness.report.html.formatting import brief, number, one_time
from harness.runs.judged_run import JudgedRun

Fact = tuple[str, str]
"""A label and a value."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that may be missing: what, how much, and whether that is a loss."""

    what: str
    count: int
    asked_for: bool = False


def losses(subject: Subject | None, result: Result | None) -> list[Loss]:
    """Everything that may be missing, each as a number, zero too."""
    lost = Losses() if subject is None else subject.trace.losses
    found = [
        Loss("events dropped by the target", lost.events),
        Loss("block and allocator declarations dropped", lost.blocks),
        Loss("values dropped, or kept without their bytes", lost.values),
        Loss("runs given up for newer ones, as asked for", lost.runs, asked_for=True),
        Loss("chunks of the log that did not arrive", lost.chunks),
        Loss("records in these chunks", lost.records),
        Loss("events lost to damage of the file, at least", lost.damaged),
    ]
    if subject is not None:
        left_out = subject.trace.filtered_events
        found.append(Loss("events left out by the target's filter", left_out, asked_for=True))
    if result is not None:
        missing = max(result.runs_requested - result.runs_completed, 0)
        found.append(Loss("executions asked for and not completed", missing))
        for what, count in (
            ("frames damaged on the line, and sent again", corrupt_frames(result.link)),
            ("requests repeated", result.link.get("retries", 0)),
            ("bytes of the board's text that console.log leaves out", result.console_left_out),
        ):
            found.append(Loss(what, count, asked_for=True))
        if result.trace is not None:
            for what, count in (
                ("allocations left out of the ED00 copy", result.trace.etdp_left_out_allocations),
                ("values left out of the ED00 copy", result.trace.etdp_left_out_values),
            ):
                found.append(Loss(what, count, asked_for=True))
    return found


def link(result: Result | None) -> list[Fact]:
    """How the line did."""
    if result is None:
        return []
    facts = [("rate of the line", f"{result.baud:,} baud" if result.baud else "not known")]
    facts += [(name.replace("_", " "), f"{count:,}") for name, count in result.link.items()]
    if pings := result.pings:
        trips = [ping.host_after_ns - ping.host_before_ns for ping in pings]
        facts.append(("readings of the clock", f"{len(pings):,}"))
        facts.append(("quickest round trip", one_time(min(trips))))
        facts.append(("slowest round trip", one_time(max(trips))))
        facts.append(("epochs of the clock", f"{len({ping.epoch for ping in pings}):,}"))
    return facts


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """A clock: its name, and what is known of it."""

    name: str
    facts: tuple[Fact, ...]


def clocks(subject: Subject | None) -> list[ClockFacts]:
    """What is known of each clock of the trace."""
    if subject is None:
        return []
    found = clock_documents(subject.trace, subject.qualities)
    return [ClockFacts(brief(clock.name), tuple(_clock(clock))) for clock in found]


def _clock(clock: ClockQualityDocument) -> Iterator[Fact]:
    yield "rate", "not known" if clock.hz is None else f"{number(clock.hz)} Hz"
    yield "counter", f"{clock.bits} bits, counts {'down' if clock.down else 'up'}"
    yield "steps back", f"{clock.backward_steps:,}, each by at most {clock.jitter:,} ticks"
    yield "events that end before they begin", f"{clock.reversed_events:,}"
    quality = clock.quality
    if quality is None:
        yield "on the host's clock", "no readings"
        return
    if quality.half_width_ns is None:
        yield f"on clock {brief(quality.reference)}", f"not placed: {brief(quality.unknown)}"
    else:
        yield f"on clock {brief(quality.reference)}", f"within ±{one_time(quality.half_width_ns)}"
    yield "readings", f"{quality.readings:,}"
    placed = f"{quality.placed:,} of {quality.events:,}"
    why = f"; not so the others: {brief(quality.unknown)}" if quality.unknown else ""
    yield "events on its timeline", placed
    yield "events between two known instants", f"{quality.bounded:,} of {quality.events:,}{why}"
    yield (
        "wraps that nobody can place",
        f"{quality.silent_wraps:,}, among {quality.unsettled:,} events",
    )
    if quality.rate_ppm is not None:
        low, high = quality.rate_ppm
        yield "rate against the declared one", f"{low:+,.1f} to {high:+,.1f} ppm"
    yield "epochs", "; ".join(map(brief, quality.epochs)) or "none"


def provenance(run: JudgedRun) -> list[Fact]:
    """Where a run is from: everything that tells it from another one."""
    result = run.result
    facts = [("found at", brief(run.title)), ("budget", brief(run.budget) or "none")]
    if result is None:
        return [*facts, ("result", "none: this is a trace alone")]
    facts += [
        ("result", result.id),
        ("began", result.started_utc),
        ("took", f"{result.duration_s:,.1f} s"),
        ("board", brief(result.board)),
        ("unit", brief(result.unit)),
        ("port", brief(result.port or "none")),
        ("commit", brief(result.commit) or "not known"),
        ("session", brief(result.session)),
        ("tool", f"etdump-harness {result.tool_version}"),
        ("executions", f"{result.runs_completed:,} of {result.runs_requested:,}"),
        ("seed of random inputs", str(result.seed)),
        ("exit code", str(result.exit_code)),
    ]
    facts += _target(result)
    facts += _model(result)
    if (known := result.reference) is not None:
        bounds = [
            f"{n} {v:g}" for n, v in (("rtol", known.rtol), ("atol", known.atol)) if v is not None
        ]
        said = ", ".join(bounds) or "what the type of each allows"
        facts.append(("reference", f"of {len(known.files):,} outputs, off by {said}"))
    facts += [(f"time scale of {brief(k)}", brief(v)) for k, v in result.time_scales.items()]
    return facts


def _target(result: Result) -> Iterator[Fact]:
    if target := result.target:
        yield "firmware", f"{brief(target.board)} ({brief(target.cpu)}), {brief(target.build_id)}"
        yield "link", f"version {target.link_version}, frames of up to {target.mtu:,} bytes"
        for what, size in (
            ("model", target.model_capacity),
            ("arena", target.arena_capacity),
            ("inputs", target.input_capacity),
            ("log", target.trace_capacity),
            ("values", target.debug_capacity),
        ):
            yield f"room for {what}", f"{size:,} bytes"
        if target.probe_pairs:
            cost = target.probe_ticks / target.probe_pairs
            yield "an empty event costs", f"{number(cost)} ticks"
    if image := result.image:
        sizes = f"{image.text:,} text + {image.data:,} data + {image.bss:,} bss bytes"
        yield "image", sizes


def _model(result: Result) -> Iterator[Fact]:
    if model := result.model:
        yield "model", f"{brief(model.file)}, {model.nbytes:,} bytes"
        yield "sha256 of the model", model.sha256
        yield "method", brief(model.method)
        yield "memory", f"{model.planned_bytes:,} planned + {model.method_bytes:,} method bytes"
        for place, tensor in enumerate(model.inputs):
            kind = f"{type_name(tensor.scalar_type)}, {_shape(tensor.sizes)}"
            yield f"input {place}", f"{kind}, {tensor.nbytes:,} bytes, {brief(tensor.file)}"
        if model.delegates:
            backends = dict.fromkeys(call.backend for call in model.delegates)
            yield "delegates", ", ".join(map(brief, backends))
    if trace := result.trace:
        yield (
            "log",
            f"{trace.events:,} events of {trace.blocks:,} blocks in {trace.log_bytes:,} bytes",
        )
        yield "sha256 of the log", trace.sha256
        if trace.values:
            yield "values", f"{trace.values:,} with {trace.debug_bytes:,} bytes of tensors"
            yield "logging values took", f"{trace.value_ticks:,} ticks"
        if trace.streaming_ticks:
            yield "streaming took", f"{trace.streaming_ticks:,} ticks, within Method::execute"
        if trace.stack_size:
            yield "stack", stack_use(trace.stack_used, trace.stack_size)


@dataclass(frozen=True, slots=True)
class OutputRow:
    """An output: what it is, and how far it is off its reference, if there is one."""

    name: str
    type: str
    shape: str
    nbytes: int
    off: str


def outputs(subject: Subject | None, result: Result | None) -> list[OutputRow]:
    """The outputs of the last execution."""
    off: dict[str, str] = {}
    for output in () if subject is None else subject.outputs:
        if output.value.shape != output.reference.shape:
            off[output.name] = f"the reference has shape {_shape(output.reference.shape)}"
        elif not output.value.size:
            off[output.name] = "both are empty"
        else:
            difference = np.abs(output.value.astype(float) - output.reference.astype(float))
            off[output.name] = f"{number(float(difference.max()))} at most"
    if result is None or result.model is None:
        return [OutputRow(brief(name), "", "", 0, text) for name, text in off.items()]
    return [
        OutputRow(
            name=brief(tensor.file),
            type=type_name(tensor.scalar_type),
            shape=_shape(tensor.sizes),
            nbytes=tensor.nbytes,
            off=off.get(tensor.file, "no reference"),
        )
        for tensor in result.model.outputs
    ]


def _shape(sizes: Iterable[int]) -> str:
    return " x ".join(map(str, sizes)) or "scalar"
