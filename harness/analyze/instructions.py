"""Estimates of the instructions that a CPU executes for a model, from measured coefficients.

``benchmarks/instructions.py`` measures and fits them for each CPU. The instructions of an operator
are a sum over its features (`features`), each times a coefficient that is not negative. A fit
minimizes relative errors, so that short operators count as much as long ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from harness.analyze.workload import Step
from harness.config.board import Board
from harness.files import data_directory
from harness.records.decode_json import decode_json
from harness.records.measurement import BUNDLED_KERNELS


class Coefficients(msgspec.Struct, frozen=True):
    """Instructions of one operator.

    Attributes:
        call: Instructions per call.
        mac: Instructions per multiply-accumulate.
        element: Instructions per element of the outputs.
        byte_read: Instructions per byte of inputs that are not constant.
        byte_constant: Instructions per byte of constant inputs, such as weights.
        samples: Number of calls that were fitted.
        error: Median relative error of calls that were not fitted; null without such calls.
        worst_error: Largest of these errors.
    """

    call: float
    mac: float
    element: float
    byte_read: float
    byte_constant: float
    samples: int
    error: float | None = None
    worst_error: float | None = None

    def estimate(self, step: Step) -> float:
        """Return the instructions of one call."""
        terms = (self.call, self.mac, self.element, self.byte_read, self.byte_constant)
        return sum(a * b for a, b in zip(terms, features(step), strict=True))


class MeasuredKernels(msgspec.Struct, frozen=True):
    """A kernel library whose instructions were counted.

    Attributes:
        cpu: Name of the CPU.
        kernels: The kernel library.
        measured_on: The emulated board, which counts instructions.
    """

    cpu: str
    kernels: str
    measured_on: str


class InstructionModel(MeasuredKernels, frozen=True):
    """Coefficients of the operators of a kernel library on one CPU, and how far off they were.

    Attributes:
        fitted: Networks that the coefficients were fitted on.
        held_out: Relative error of the sum of all calls with coefficients, for networks that were
            not.
        operators: Coefficients by operator, with its variant (``Step.kind``).
    """

    fitted: list[str]
    held_out: dict[str, float]
    operators: dict[str, Coefficients]

    @property
    def median_error(self) -> float | None:
        """Median relative error of the networks that were not fitted."""
        errors = [abs(error) for error in self.held_out.values()]
        return round(float(np.median(errors)), 4) if errors else None

    @property
    def worst_error(self) -> float | None:
        """Largest relative error of the networks that were not fitted."""
        return max(map(abs, self.held_out.values()), default=None)

    def estimate(self, step: Step) -> float | None:
        """Return the instructions of one call; None if its operator has no coefficients."""
        known = None if step.delegated else self.operators.get(step.kind)
        return known.estimate(step) if known is not None else None


class OperatorEstimate(msgspec.Struct, frozen=True):
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


class InstructionEstimate(MeasuredKernels, frozen=True):
    """Estimated instructions of one execution on a CPU, and how far off such estimates were.

    Attributes:
        instructions: Instructions of all measured operators together.
        unknown: Operators that were not measured; ``instructions`` leaves them out.
        networks: Number of networks that were not fitted, for the errors.
        median_error: Median relative error of their sums; null without networks.
        worst_error: Largest of these errors.
        operators: The estimate by operator, most instructions first.
    """

    instructions: int
    unknown: list[str]
    networks: int
    median_error: float | None
    worst_error: float | None
    operators: list[OperatorEstimate]


def estimate_method(
    steps: Sequence[Step], model: InstructionModel | None
) -> InstructionEstimate | None:
    """Estimate a method; None without measured coefficients."""
    if model is None:
        return None
    kinds = dict.fromkeys(step.kind for step in steps)
    operators = [_estimate(kind, [s for s in steps if s.kind == kind], model) for kind in kinds]
    operators.sort(key=lambda item: -(item.instructions or 0))
    return InstructionEstimate(
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


def _estimate(kind: str, steps: Sequence[Step], model: InstructionModel) -> OperatorEstimate:
    known = model.operators.get(kind)
    estimates = [model.estimate(step) for step in steps]
    total = sum(value for value in estimates if value is not None)
    return OperatorEstimate(
        operator=kind,
        calls=len(steps),
        instructions=None if None in estimates else round(total),
        error=known.error if known else None,
        worst_error=known.worst_error if known else None,
    )


def features(step: Step) -> tuple[float, ...]:
    """Return what the instructions of a call depend on, in the order of the coefficients."""
    changing = step.bytes_read - step.constant_bytes
    numbers = (1, step.macs or 0, step.elements, changing, step.constant_bytes)
    return tuple(map(float, numbers))


def instruction_model(board: Board) -> InstructionModel | None:
    """Return the measured coefficients for a board's CPU and kernels; None if there are none."""
    if board.build is None or board.links_executorch:
        return None
    file = data_directory("boards") / "instructions" / f"{board.cpu}.json"
    if not file.is_file():
        return None
    model = decode_json(file.read_bytes(), type_=InstructionModel)
    return model if model.kernels == BUNDLED_KERNELS else None
