"""Delegate events as a run or a caller describes them: their time scales, and their metadata."""

from __future__ import annotations

from collections.abc import Mapping

from harness.analyze.converters import parse_time_scales, rescale
from harness.analyze.metadata_counts import parse_layouts, with_metadata_counts
from harness.records.result import Model
from harness.records.trace import Trace


def interpret_delegates(
    trace: Trace, scales: Mapping[str, str], metadata: Mapping[str, str], model: Model | None
) -> Trace:
    """Put delegate events on the clocks of time scales, and read the counts in their metadata.

    Args:
        trace: The trace.
        scales: Time scales by pattern; see ``harness.analyze.converters``.
        metadata: Layouts by pattern; see ``harness.analyze.metadata_counts``.
        model: The model that ran, for the names of its delegates; None if unknown.

    Raises:
        UsageError: A time scale or a layout is invalid, or does not fit the trace.
    """
    calls = model.delegates if model is not None else ()
    backends = {(call.chain, call.instruction): call.backend for call in calls}
    counted = with_metadata_counts(trace, parse_layouts(metadata), backends)
    return rescale(counted, parse_time_scales(scales), backends)
