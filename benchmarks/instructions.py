"""Measure instructions per operator on emulated boards, and fit what `etharness inspect` estimates.

    python -m benchmarks.instructions                     # all CPUs, packaged models
    python -m benchmarks.instructions --models DIR        # and those of a folder, such as the zoo
    python -m benchmarks.instructions qemu-mps2-an386     # one board

QEMU counts a nanosecond per instruction with `-icount shift=0`, so times of operators are numbers
of instructions, rounded to ticks of the board's clock. They are of the bundled C kernels, with the
runtime's work around each call. Coefficients go to `boards/instructions/`, by CPU. The networks are
divided by name, so that the split stays when networks are added: every other one of a kind is
fitted, the rest tells how far off the estimates are.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from harness import Board, HarnessError, Trace, durations, packaged_models, read_program
from harness.analyze.ticks import nanoseconds_per_tick
from harness.analyze.workload import Coefficients, InstructionModel, Step, features, method_steps
from harness.config.board import load_board
from harness.files import data_directory
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.result import encode
from harness.runs.request import RunRequest
from harness.runs.run import run_model

BOARDS = (
    "qemu-mps2-an385",
    "qemu-mps2-an386",
    "qemu-mps2-an500",
    "qemu-mps3-an547",
    "qemu-riscv32-virt",
    "qemu-microbit",
)
"""An emulated board for each CPU. The last one has room for the smallest networks only."""

HELD_OUT = ("vww", "ad", "picture")
"""Packaged networks that are not fitted: other architectures, sizes and shapes."""

LARGEST_UPLOAD = 20_000
"""Bytes of a model that is uploaded; a larger one is placed, as QEMU's line is slow."""


_CALL, _MAC, _ELEMENT, _READ, _CONSTANT = range(5)
"""Positions of features."""

_FEWEST_SIZES = 2
"""Calls of different sizes that a fit needs."""

_COST_OF_A_TERM = 0.01
"""A coefficient is fitted only if it lowers the root mean square of relative errors by this."""


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """The measured instructions of one call."""

    step: Step
    instructions: float


@dataclass(frozen=True)
class Network:
    """A measured network: its calls, with their instructions."""

    name: str
    samples: list[MeasuredCall]

    @property
    def held_out(self) -> bool:
        """Whether it tests the coefficients instead of being fitted."""
        if self.name in packaged_models():
            return self.name.startswith(HELD_OUT)
        return sum(self.name.encode()) % 2 == 1


def main(names: Sequence[str], extra: Sequence[Path]) -> None:
    models = {**packaged_models(), **{path.stem: path for path in extra}}
    for name in names or BOARDS:
        board, _ = load_board(name)
        networks = list(measure(board, models))
        model = fit(board, networks)
        folder = data_directory("boards") / "instructions"
        folder.mkdir(exist_ok=True)
        (folder / f"{board.cpu}.json").write_bytes(encode(model))
        median, worst = model.median_error, model.worst_error
        print(
            f"{name}: {len(model.operators)} operators from {len(model.fitted)} networks; "
            f"error of {len(model.held_out)} others: median {median:.1%}, worst {worst:.1%}"
            if median is not None and worst is not None
            else f"{name}: {len(model.operators)} operators, no network to test them with"
        )


def measure(board: Board, models: Mapping[str, Path]) -> Iterator[Network]:
    """Run every network that the board takes once."""
    for name, path in models.items():
        try:
            method = read_program(path.read_bytes()).method("forward")
            steps = method_steps(method)
        except HarnessError:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            placed = path.stat().st_size > min(LARGEST_UPLOAD, board.capacity.model)
            request = RunRequest(board.name, path, 1, Path(scratch) / "run", placed=placed)
            try:
                trace = run_model(request).trace
            except HarnessError as error:
                print(f"{board.name}: {name}: {error.message.splitlines()[0]}")
                continue
        yield Network(name, list(samples(trace, steps)))


def samples(trace: Trace, steps: Iterable[Step]) -> Iterator[MeasuredCall]:
    """Yield every call of a kernel that ran once, with its instructions."""
    by_place = {(step.chain, step.instruction): step for step in steps if not step.delegated}
    calls = np.flatnonzero(trace.name == trace.names.index("OPERATOR_CALL"))
    ticks = durations(trace)
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row in calls:
        place = (int(trace.chain[row]), int(trace.instruction[row]))
        times[place].append(float(int(ticks[row]) * nanoseconds_per_tick(trace.clocks[0])))
    for place, found in times.items():
        if place in by_place and len(found) == 1:
            yield MeasuredCall(by_place[place], found[0])


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


def fit(board: Board, networks: Sequence[Network]) -> InstructionModel:
    """Fit all operators, and compare the estimates with the networks that were held out."""
    fitted = grouped(network for network in networks if not network.held_out)
    tested = grouped(network for network in networks if network.held_out)
    found = {name: fit_coefficients(calls) for name, calls in sorted(fitted.items())}
    operators = {name: known for name, known in found.items() if known is not None}
    for name, calls in tested.items():
        if name in operators:
            known = operators[name]
            errors = [abs(known.estimate(s.step) / max(s.instructions, 1) - 1) for s in calls]
            error, worst = (round(float(f(errors)), 4) for f in (np.median, np.max))
            operators[name] = replace(known, error=error, worst_error=worst)
    names = [network.name for network in networks if not network.held_out]
    model = InstructionModel(board.cpu, BUNDLED_KERNELS, board.name, names, {}, operators)
    held_out = {}
    for network in networks:
        pairs = [(model.estimate(s.step), s.instructions) for s in network.samples]
        known_pairs = [(estimate, measured) for estimate, measured in pairs if estimate is not None]
        if network.held_out and known_pairs:
            estimates, measured = (sum(column) for column in zip(*known_pairs, strict=True))
            held_out[network.name] = round(estimates / max(measured, 1) - 1, 4)
    return replace(model, held_out=held_out)


def grouped(networks: Iterable[Network]) -> dict[str, list[MeasuredCall]]:
    """Return the samples of networks by operator."""
    found: dict[str, list[MeasuredCall]] = defaultdict(list)
    for network in networks:
        for sample in network.samples:
            found[sample.step.kind].append(sample)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("boards", nargs="*", metavar="BOARD")
    parser.add_argument("--models", type=Path, help="folder with more networks (.pte)")
    arguments = parser.parse_args()
    folder = arguments.models
    main(arguments.boards, sorted(folder.glob("*.pte")) if folder else ())
