"""Measure the float32 kernels, and write two tables of docs/kernels.md.

    .venv-oracle/bin/python -m benchmarks.kernels

Layers are those of the exported networks in ``firmware_stub/models``, under QEMU with one
nanosecond per instruction. Whole networks also run on this host, with our runtime and with
ExecuTorch's and its portable kernels; the networks of the zoo are exported anew.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from benchmarks.networks import DEADLINE_S, EVENT, FIXTURES, MODELS, ROOT
from harness import (
    Method,
    Region,
    Session,
    Tensor,
    build_firmware,
    durations,
    read_log,
    read_program,
    start_target,
    tensor_to_bytes,
)
from harness.analyze.ticks import nanoseconds_per_tick
from harness.analyze.workload import Step, method_arguments, method_steps
from harness.config.board import load_board
from harness.runs.request import RunRequest
from harness.runs.run import run_model

PAGE = ROOT / "docs/kernels.md"
BOARD = "qemu-mps2-an386"
NETWORKS = ("kws", "ic", "vww", "ad")
OPERATOR_EVENT = "OPERATOR_CALL"
ROUNDS = 5
EXECUTIONS = 20

BEFORE = {
    "kws 10x4": 15.31,
    "kws depthwise": 24.20,
    "kws pointwise": 50.52,
    "kws linear": 15.73,
    "kws permute": 83.44,
    "ic 3x3": 18.91,
    "ic pointwise": 51.71,
    "ic linear": 15.88,
    "ic permute": 83.94,
    "vww 3x3": 21.29,
    "vww depthwise": 24.89,
    "vww pointwise": 50.70,
    "vww linear": 14.77,
    "vww permute": 90.70,
    "ad linear": 13.79,
    "ad permute": 81.14,
}
"""The loops before float32 products were computed in blocks."""


@dataclass
class Work:
    """The layers of one kind in a network.

    Attributes:
        count: Number of layers.
        units: Their multiply-accumulates, or the elements that they write.
        instructions: Instructions executed.
        worst: Most instructions per unit of one layer.
    """

    count: int = 0
    units: int = 0
    instructions: float = 0.0
    worst: float = 0.0

    def add(self, units: int, instructions: float) -> None:
        """Count one more layer."""
        self.count += 1
        self.units += units
        self.instructions += instructions
        self.worst = max(self.worst, instructions / units)


def kind_of(step: Step, sizes: Sequence[tuple[int, ...]]) -> str | None:
    """Kind of a layer by its operator and the sizes of its input tensors; None for others."""
    name = step.operator.partition("::")[2].partition(".")[0]
    if name == "convolution":
        _, per_group, *kernel = sizes[1]
        if per_group == 1 and sizes[0][1] > 1:
            return "depthwise"
        return "pointwise" if prod(kernel) == 1 else "x".join(map(str, kernel))
    return {"addmm": "linear", "permute_copy": "permute"}.get(name)


def layers(method: Method) -> dict[tuple[int, int], tuple[str, int]]:
    """Kind and units of the measured layers of a method, by chain and instruction."""
    found = {}
    arguments = method_arguments(method)
    for step in method_steps(method):
        inputs = arguments[step.chain, step.instruction].inputs
        sizes = [item.value.sizes for item in inputs if isinstance(item.value, Tensor)]
        kind = kind_of(step, sizes)
        if kind is not None:
            found[step.chain, step.instruction] = kind, step.macs or step.elements
    return found


def measure_layers() -> Iterator[str]:
    """Rows of the table of layers."""
    board, _ = load_board(BOARD)
    yield "| network | layers | MACs or elements | before | now | worst layer |"
    yield "|---|---|---|---|---|---|"
    with start_target(board, build_firmware(board)) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        info = session.hello(board.deadlines.boot_s)
        for network in NETWORKS:
            program = (MODELS / f"{network}_f32.pte").read_bytes()
            model = session.load_model(program)
            [array] = np.load(FIXTURES / f"{network}_f32.npz")["inputs"][:1]
            session.set_input(0, tensor_to_bytes(array, model.inputs[0]))
            session.run(1, timeout_s=DEADLINE_S)
            trace = read_log(session.read(Region.TRACE), info.clocks)
            ticks = durations(trace)
            places = layers(read_program(program).methods[0])
            work: dict[str, Work] = defaultdict(Work)
            for row in np.flatnonzero(trace.name == trace.names.index(OPERATOR_EVENT)):
                place = int(trace.chain[row]), int(trace.instruction[row])
                if place in places:
                    kind, units = places[place]
                    spent = int(ticks[row]) * nanoseconds_per_tick(info.clocks[0])
                    work[kind].add(units, float(spent))
            for kind, done in work.items():
                before = BEFORE[f"{network} {kind}"]
                mean = done.instructions / done.units
                yield (
                    f"| {network} | {done.count} {kind} | {done.units:,} | {before:.1f} "
                    f"| {mean:.2f} | {done.worst:.2f} |"
                )


def execution_times(board: str, model: Path, inputs: Sequence[Path]) -> list[int]:
    """Nanoseconds of each execution in one run."""
    with tempfile.TemporaryDirectory() as scratch:
        request = RunRequest(board, model, EXECUTIONS, Path(scratch) / "run", inputs=tuple(inputs))
        trace = run_model(request).trace
    rows = trace.name == trace.names.index(EVENT)
    return [int(ticks) for ticks in durations(trace)[rows]]


def host_row(name: str, model: Path, inputs: Sequence[Path]) -> str:
    """The row of a network that both runtimes execute, in turns."""
    spent: dict[str, list[int]] = {"native": [], "native-executorch": []}
    for _ in range(ROUNDS):
        for board, times in spent.items():
            times += execution_times(board, model, inputs)
    ours, theirs = (min(times) / 1e3 for times in spent.values())
    return f"| {name} | {ours:,.1f} | {theirs:,.1f} | {theirs / ours:.2f} |"


def measure_host() -> Iterator[str]:
    """Rows of the table of whole networks."""
    from tests.support.zoo import BEYOND, arrays, exported, script

    yield "| network | our kernels, µs | portable kernels, µs | speed-up |"
    yield "|---|---|---|---|"
    for network in NETWORKS:
        with tempfile.TemporaryDirectory() as scratch:
            given = Path(scratch) / "input.npy"
            np.save(given, np.load(FIXTURES / f"{network}_f32.npz")["inputs"][0])
            yield host_row(network, MODELS / f"{network}_f32.pte", [given])
    for name, member in script()["MEMBERS"].items():
        if member.exact or name in BEYOND:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            model = Path(scratch) / "model.pte"
            model.write_bytes(exported(name).program)
            paths = []
            for number, array in enumerate(arrays(exported(name).inputs)):
                paths.append(Path(scratch) / f"input{number}.npy")
                np.save(paths[-1], array)
            yield host_row(name, model, paths)


TABLES: dict[str, Callable[[], Iterator[str]]] = {"layers": measure_layers, "host": measure_host}


def main(names: Sequence[str]) -> None:
    page = PAGE.read_text()
    for name in names or TABLES:
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->\n")
        if not end:
            sys.exit(f"{PAGE}: the table {name!r} has no place")
        rows = "".join(f"{row}\n" for row in TABLES[name]())
        page = f"{before}{start}{rows}{end}{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
