"""Time scales of a run: those it was given, and the delegates that they may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.clock.converters import parse_time_scales, rescale
from harness.lab.source import Source
from harness.result import Model
from harness.trace import Trace


def on_time_scales(trace: Trace, scales: Mapping[str, str], model: Model | None) -> Trace:
    """Put delegates' events on the clocks that scales say; see ``harness.clock.converters``.

    Args:
        trace: What was logged.
        scales: Patterns, and what the ticks of the events that they mean are.
        model: What ran, if that is known: for the names of its delegates.

    Raises:
        UsageError: A scale is none, or does not fit.
    """
    calls = model.delegates if model is not None else ()
    backends = {(call.chain, call.instruction): call.backend for call in calls}
    return rescale(trace, parse_time_scales(scales), backends)


def on_scales(source: Source, scales: Mapping[str, str]) -> Source:
    """Put what was found on these time scales, and on those that its run recorded for all else.

    Raises:
        UsageError: A scale is none, or does not fit.
    """
    recorded = source.result.time_scales if source.result is not None else {}
    others = {pattern: scale for pattern, scale in recorded.items() if pattern not in scales}
    model = source.result.model if source.result is not None else None
    whole = on_time_scales(source.trace, {**scales, **others}, model)
    dumps, end = [], 0
    for dump in source.dumps:
        rows = slice(end, end := end + len(dump.trace))
        columns = {name: getattr(whole, name)[rows] for name in ("clock", "start", "end")}
        trace = replace(dump.trace, clocks=whole.clocks, **columns)
        dumps.append(replace(dump, trace=trace))
    return replace(source, dumps=tuple(dumps))
