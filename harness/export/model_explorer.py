"""Node data of Model Explorer: the time of each instruction, on the graph of the ``.pte`` file.

Arm's adapter for ``.pte`` files, pte-adapter-model-explorer, calls the node of an instruction by
method, chain and index: ``forward_0_5``.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from harness.analyze.ticks import durations, ends_before_start, event_nanoseconds
from harness.decode.program import Method
from harness.errors import UsageError
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import OPERATOR_CALL, Kind, Trace

_ASSUMED: Final = "forward"
"""The usual name of a method."""

_GRADIENT: Final = [{"stop": 0, "bgColor": "#fff7bc"}, {"stop": 1, "bgColor": "#d95f0e"}]
"""Yellow to orange, told apart without red and green."""


def write_model_explorer(
    trace: Trace, method: Method | None = None, identity: RunIdentity = NO_RUN
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on what it assumes and lacks.

    Args:
        trace: The trace.
        method: The executed method; its name is that of the graph.
        identity: The run of the trace.

    Raises:
        UsageError: No instruction has a time.
    """
    times = _median_microseconds(trace)
    if not times:
        raise UsageError(
            "no instruction of the trace has a time", hint="give the rate with --clock-hz"
        )
    graph = method.name if method else _ASSUMED
    results = {f"{graph}_{chain}_{index}": {"value": us} for (chain, index), us in times.items()}
    board = f" on {identity.board}" if identity.board else ""
    data = {
        "name": f"median time{board} [us]",
        "results": results,
        "gradient": _GRADIENT,
        "run": {name: text for name, text in identity.texts().items() if text},
    }
    notes = () if method else (f"the graph is assumed to be {_ASSUMED!r} without --model",)
    return (json.dumps({graph: data}, indent=1) + "\n").encode(), notes


def _median_microseconds(trace: Trace) -> dict[tuple[int, int], float]:
    """Return the median time of each instruction, by chain and index.

    That is the time of its kernel or of its call of a delegate, without the scope around.
    """
    around = [number for number, name in enumerate(trace.names) if name == OPERATOR_CALL]
    nanoseconds = event_nanoseconds(trace, durations(trace))
    counted = (trace.kind == Kind.PROFILE) & (trace.chain != -1) & ~trace.delegated
    counted &= ~np.isin(trace.name, around) & ~ends_before_start(trace) & ~np.isnan(nanoseconds)
    rows = np.flatnonzero(counted)
    if not len(rows):
        return {}
    places, of = np.unique(
        np.stack([trace.chain[rows], trace.instruction[rows]], axis=1), axis=0, return_inverse=True
    )
    order = np.argsort(of.reshape(-1), kind="stable")
    groups = np.split(rows[order], np.cumsum(np.bincount(of.reshape(-1)))[:-1])
    return {
        (chain, index): round(float(np.median(nanoseconds[group])) / 1000, 3)
        for (chain, index), group in zip(places.tolist(), groups, strict=True)
    }
