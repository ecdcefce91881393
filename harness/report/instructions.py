"""Estimated instructions of a method, operator by operator, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.analyze.instructions import InstructionModel
from harness.analyze.workload import Step
from harness.report.terminal import show_line, show_table
from harness.report.text import percent

if TYPE_CHECKING:
    from rich.console import Console


class OperatorEstimateDocument(msgspec.Struct, frozen=True):
    """Estimated instructions of all calls of an operator.

    Attributes:
        operator: The operator, with its variant such as ``depthwise``.
        calls: Number of calls.
        instructions: Their instructions together; null if the operator was not measured.
        error: Median relative error of single calls in networks that were not fitted; null if none
            of these calls the operator.
        worst_error: Largest of these errors.
    """

    operator: str
    calls: int
    instructions: int | None
    error: float | None
    worst_error: float | None


class EstimateDocument(msgspec.Struct, frozen=True):
    """Estimated instructions of one execution on a CPU, and how far off such estimates were.

    Attributes:
        cpu: The CPU.
        kernels: The kernel library.
        measured_on: The emulated board whose instructions were counted.
        instructions: Instructions of all measured operators together.
        unknown: Operators that were not measured; ``instructions`` leaves them out.
        networks: Number of networks that were not fitted, for the errors.
        median_error: Median relative error of their sums; null without networks.
        worst_error: Largest of these errors.
        operators: The estimate by operator, most instructions first.
    """

    cpu: str
    kernels: str
    measured_on: str
    instructions: int
    unknown: list[str]
    networks: int
    median_error: float | None
    worst_error: float | None
    operators: list[OperatorEstimateDocument]


def describe_estimate(
    steps: Sequence[Step], model: InstructionModel | None
) -> EstimateDocument | None:
    """Estimate a method; None without measured coefficients."""
    if model is None:
        return None
    kinds = dict.fromkeys(step.kind for step in steps)
    operators = [_operator(kind, [s for s in steps if s.kind == kind], model) for kind in kinds]
    operators.sort(key=lambda item: -(item.instructions or 0))
    return EstimateDocument(
        cpu=model.cpu,
        kernels=model.kernels,
        measured_on=model.measured_on,
        instructions=sum(item.instructions or 0 for item in operators),
        unknown=[item.operator for item in operators if item.instructions is None],
        networks=len(model.held_out),
        median_error=model.median_error,
        worst_error=model.worst_error,
        operators=operators,
    )


def _operator(
    kind: str, steps: Sequence[Step], model: InstructionModel
) -> OperatorEstimateDocument:
    known = model.operators.get(kind)
    estimates = [model.estimate(step) for step in steps]
    total = sum(value for value in estimates if value is not None)
    return OperatorEstimateDocument(
        operator=kind,
        calls=len(steps),
        instructions=None if None in estimates else round(total),
        error=known.error if known else None,
        worst_error=known.worst_error if known else None,
    )


def print_estimate(console: Console, board: str, estimate: EstimateDocument | None) -> None:
    """Print the estimate for a board, or that there is none."""
    if estimate is None:
        show_line(console, f"{board}: no estimate of instructions: its CPU was not measured")
        return
    rows = [
        (
            item.operator,
            f"{item.calls:,}",
            "not measured" if item.instructions is None else f"{item.instructions:,}",
            percent(_share(item.instructions, estimate.instructions)),
            percent(item.error),
            percent(item.worst_error),
        )
        for item in estimate.operators
    ]
    headers = ("operator", "calls", "instructions", "share", "median error", "worst error")
    title = f"Estimated instructions on {board} ({estimate.cpu}, {estimate.kernels})"
    show_table(console, headers, rows, title=title, numbers=range(1, 6))
    least = "at least " if estimate.unknown else "about "
    line = f"{board}: {least}{estimate.instructions:,} instructions per execution"
    if estimate.median_error is not None:
        line += (
            f"; {estimate.networks} networks that were not fitted were off by "
            f"{percent(estimate.median_error)} (median), {percent(estimate.worst_error)} (worst)"
        )
    show_line(console, line)
    show_line(console, f"measured on {estimate.measured_on}; instructions are not cycles")
    if estimate.unknown:
        show_line(console, f"not measured: {', '.join(estimate.unknown)}")
    show_line(console)


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole
