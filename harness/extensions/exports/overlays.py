"""The time of each instruction on the graph of the ``.pte`` file, for viewers of models.

Model Explorer: Arm's adapter for ``.pte`` files, pte-adapter-model-explorer, calls the node of an
instruction by method, chain and index: ``forward_0_5``.

Netron: its attachments find things by name. The nodes of ``.pte`` files have none, but their values
have their numbers, so the time of an instruction stands at the value that it computes.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from harness.analyze.blocks import blocks_of
from harness.analyze.ticks import durations, event_nanoseconds, unknown_durations
from harness.decode.program import Instruction, Method, ValueList
from harness.errors import UsageError
from harness.export.formats import Exported, ExportFormat, Request
from harness.formatting import counted, operator_title
from harness.records.trace import OPERATOR_CALL, Kind, Trace

_ASSUMED: Final = "forward"
"""The usual name of a method."""

_GRADIENT: Final = [{"stop": 0, "bgColor": "#fff7bc"}, {"stop": 1, "bgColor": "#d95f0e"}]
"""Yellow to orange, told apart without red and green."""


def write_model_explorer(trace: Trace, request: Request) -> Exported:
    """Return the file, with notes on what it assumes.

    Raises:
        UsageError: No instruction has a time.
    """
    method, identity = request.method, request.identity
    times = _median_microseconds(trace, method)
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
    return Exported((json.dumps({graph: data}, indent=1) + "\n").encode(), notes)


def write_netron(trace: Trace, request: Request) -> Exported:
    """Return the file, with notes on what it lacks.

    Raises:
        UsageError: The method is unknown, or no instruction has a time.
    """
    method = request.method
    if method is None:
        raise UsageError(
            "Netron finds times by the values of a model, and the model is not known",
            hint="give it with --model",
        )
    times = _median_microseconds(trace, method)
    total = sum(times.values())
    metrics: list[dict[str, Any]] = []
    for (chain, index), us in times.items():
        step = method.instruction(chain, index)
        if step is not None and step.args:
            text = f"{us:,.3f} us" + (f", {100 * us / total:.1f} %" if total else "")
            value = {"name": operator_title(step.name, index), "value": text}
            metrics.append({"kind": "value", "target": _computed(method, step), **value})
    known = {"instructions together": f"{total:,.3f} us", **request.identity.texts()}
    facts = [
        {"kind": "graph", "target": method.name, "name": name, "value": text}
        for name, text in known.items()
        if text
    ]
    data = {"signature": "netron:attachment", "metadata": facts, "metrics": metrics}
    lacking = len(times) - len(metrics)
    notes = (f"{counted(lacking, 'instruction')} without a value in the model",) if lacking else ()
    return Exported((json.dumps(data, indent=1) + "\n").encode(), notes)


def _computed(method: Method, step: Instruction) -> str:
    """Return Netron's name of the first value that an instruction computes."""
    number = step.args[-1]
    value = method.values[number] if 0 <= number < len(method.values) else None
    if isinstance(value, ValueList) and value.numbers:
        if number not in step.args[:-1]:  # it lists the outputs, which are arguments
            return str(value.numbers[0])
        return f"{number}.0" if len(value.items) > 1 else str(number)
    return str(number)


def _median_microseconds(trace: Trace, method: Method | None) -> dict[tuple[int, int], float]:
    """Return the median time of each instruction, by chain and index, in executions of a method.

    None stands for any method. The time is that of its kernel or of its call of a delegate, without
    the scope around.

    Raises:
        UsageError: No instruction has a time.
    """
    nanoseconds = event_nanoseconds(trace, durations(trace))
    counted = (trace.kind == Kind.PROFILE) & (trace.chain != -1) & ~trace.delegated
    counted &= ~trace.named(OPERATOR_CALL) & ~unknown_durations(trace) & ~np.isnan(nanoseconds)
    if method is not None:
        for block, executed in zip(trace.blocks, blocks_of(trace, method), strict=True):
            counted[block.first : block.first + block.count] &= executed is not None
    rows = np.flatnonzero(counted)
    if not len(rows):
        raise UsageError(
            "no instruction of the trace has a time", hint="give the rate with --clock-hz"
        )
    places, of = np.unique(
        np.stack([trace.chain[rows], trace.instruction[rows]], axis=1), axis=0, return_inverse=True
    )
    order = np.argsort(of.reshape(-1), kind="stable")
    groups = np.split(rows[order], np.cumsum(np.bincount(of.reshape(-1)))[:-1])
    return {
        (chain, index): round(float(np.median(nanoseconds[group])) / 1000, 3)
        for (chain, index), group in zip(places.tolist(), groups, strict=True)
    }


MODEL_EXPLORER: Final = ExportFormat(
    "Times on the nodes of the .pte file in Model Explorer (JSON).", write_model_explorer
)
NETRON: Final = ExportFormat("Times on the values of the .pte file in Netron (JSON).", write_netron)
