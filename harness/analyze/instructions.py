"""Estimates of the instructions that a CPU executes for a model, from measured coefficients.

``benchmarks/instructions.py`` measures and fits them for each CPU. The instructions of an operator
are a sum over its features (`features`), each times a coefficient that is not negative. A fit
minimizes relative errors, so that short operators count as much as long ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import msgspec
import numpy as np

from harness.analyze.workload import Step
from harness.config.board import Board
from harness.files import data_directory
from harness.records.decode_json import decode_json
from harness.records.measurement import BUNDLED_KERNELS

_CALL, _MAC, _ELEMENT, _READ, _CONSTANT = range(5)
"""Positions of features."""

_FEWEST_SIZES: Final = 2
"""Calls of different sizes that a fit needs."""

_COST_OF_A_TERM: Final = 0.01
"""A coefficient is fitted only if it lowers the root mean square of relative errors by this."""


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


class InstructionModel(msgspec.Struct, frozen=True):
    """Coefficients of the operators of a kernel library on one CPU, and how far off they were.

    Attributes:
        cpu: Name of the CPU.
        kernels: The kernel library.
        measured_on: The emulated board, which counts instructions.
        fitted: Networks that the coefficients were fitted on.
        held_out: Relative error of the sum of all calls with coefficients, for networks that were
            not.
        operators: Coefficients by operator, with its variant (``Step.kind``).
    """

    cpu: str
    kernels: str
    measured_on: str
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


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """The measured instructions of one call."""

    step: Step
    instructions: float


def features(step: Step) -> tuple[float, ...]:
    """Return what the instructions of a call depend on, in the order of the coefficients."""
    changing = step.bytes_read - step.constant_bytes
    numbers = (1, step.macs or 0, step.elements, changing, step.constant_bytes)
    return tuple(map(float, numbers))


def fit_coefficients(samples: Sequence[MeasuredCall]) -> Coefficients | None:
    """Return coefficients that are not negative, as few as explain the samples of an operator.

    None with too few samples: one size says nothing about others.
    """
    rows = np.array([features(sample.step) for sample in samples])
    if len({tuple(row) for row in rows.tolist()}) < _FEWEST_SIZES:
        return None
    measured = np.array([max(sample.instructions, 1.0) for sample in samples])
    scaled = rows / measured[:, np.newaxis]
    best, lowest = np.zeros(rows.shape[1]), np.inf
    for chosen in _choices(with_macs=bool(rows[:, _MAC].any()), most=len(samples) - 1):
        columns = scaled[:, chosen]
        if not columns.any(axis=0).all():
            continue
        found, *_ = np.linalg.lstsq(columns, np.ones(len(samples)), rcond=None)
        error = np.sqrt(np.mean((columns @ found - 1) ** 2)) + _COST_OF_A_TERM * len(chosen)
        if (found >= 0).all() and error < lowest:
            best, lowest = np.zeros(rows.shape[1]), error
            best[chosen] = found
    call, mac, element, byte_read, byte_constant = (float(f"{value:.4g}") for value in best)
    return Coefficients(call, mac, element, byte_read, byte_constant, len(samples))


def _choices(*, with_macs: bool, most: int) -> Iterator[list[int]]:
    """Yield the features to fit: bytes stand for the work of operators without MACs."""
    usable = (_CALL, _MAC, _ELEMENT) if with_macs else (_CALL, _ELEMENT, _READ, _CONSTANT)
    for count in range(1, min(most, len(usable)) + 1):
        yield from (list(chosen) for chosen in combinations(usable, count))


def instruction_model(board: Board) -> InstructionModel | None:
    """Return the measured coefficients for a board's CPU and kernels; None if there are none."""
    if board.build is None or board.links_executorch:
        return None
    file = data_directory("boards") / "instructions" / f"{board.cpu}.json"
    if not file.is_file():
        return None
    model = decode_json(file.read_bytes(), type_=InstructionModel)
    return model if model.kernels == BUNDLED_KERNELS else None
