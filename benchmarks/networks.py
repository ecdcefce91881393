"""Run every network on every board, and write docs/networks.md.

    python -m benchmarks.networks            # all boards, in minutes
    python -m benchmarks.networks BOARD...   # these only, the others stay as they are

What a simulated board answers is the same every time, so the page changes only with the code, the
compiler or QEMU. A board that runs ExecuTorch's own runtime is compared in tests/oracle instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import (
    Board,
    CommandTarget,
    DeviceRefusedError,
    QemuTarget,
    Region,
    RtlTarget,
    RunOptions,
    SerialTarget,
    Session,
    build_firmware,
    durations,
    read_log,
    start_target,
    tensor_from_bytes,
    tensor_to_bytes,
)
from harness.analyze.ticks import nanoseconds_per_tick
from harness.config.board import board_names, load_board

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/networks.md"
MODELS = ROOT / "firmware_stub/models"
FIXTURES = ROOT / "tests/fixtures"
FLOAT_TOLERANCE = 1e-4
EVENT = "Method::execute"
DEADLINE_S = 600.0

INTRODUCTION = f"""# Networks and boards

This page lists the results of every network on every board that has our runtime.
`benchmarks/networks.py` writes it. Each network ran once, with the first input of its fixture.

A result has the duration of `{EVENT}`, in ticks of the board's clock and in milliseconds, and
the comparison of the output with the reference. *exact* means that an int8 output is bit-identical
to PyTorch's model of the Cortex-M kernels. A number is the largest difference from PyTorch
(float32, at most {FLOAT_TOLERANCE:g}). If the board refused the model, the result is the board's
error message. QEMU counts one nanosecond per instruction, whatever core it simulates. Use these
times to compare networks and firmware, not boards; times on real boards differ. The board `native`
is a process of the host that depends on the host's speed, so it has no times.
[Kernels](kernels.md) compares the int8 layers with CMSIS-NN.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One network on one board.

    Attributes:
        verdict: "exact", the largest difference, or what the board refused.
        ticks: Duration on clock 0; 0 when it did not run, or runs in real time.
        milliseconds: The same as time.
    """

    verdict: str
    ticks: int = 0
    milliseconds: float = 0.0

    def __str__(self) -> str:
        if not self.ticks:
            return self.verdict
        return f"{self.ticks:,} ticks, {self.milliseconds:.3f} ms, {self.verdict}"


def networks() -> list[str]:
    """Names of the networks, by size of their files."""
    models = [path for path in MODELS.glob("*_*.pte") if path.stem.endswith(("_f32", "_int8"))]
    return [path.stem for path in sorted(models, key=lambda path: path.stat().st_size)]


def boards() -> list[Board]:
    """The boards with our runtime that are started here; all but slow ones."""
    every = (load_board(name)[0] for name in board_names())
    return [
        board
        for board in every
        if not isinstance(board.target, CommandTarget | RtlTarget | SerialTarget)
        and not (board.links_executorch or board.runner)
    ]


def column(board: Board) -> Iterator[Cell]:
    """Cells of one board, in the order of :func:`networks`."""
    with start_target(board, build_firmware(board)) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        info = session.hello(board.deadlines.boot_s)
        for network in networks():
            try:
                verdict = run(session, network)
            except DeviceRefusedError as error:
                yield Cell(error.message.partition("refused ")[2].partition(": ")[2])
                continue
            if not isinstance(board.target, QemuTarget):
                yield Cell(verdict)
                continue
            trace = read_log(session.read(Region.TRACE), info.clocks)
            [row] = np.flatnonzero(trace.name == trace.names.index(EVENT))
            ticks = int(durations(trace)[row])
            yield Cell(verdict, ticks, float(ticks * nanoseconds_per_tick(info.clocks[0]) / 10**6))


def run(
    session: Session,
    network: str,
    count: int = 1,
    options: RunOptions | None = None,
    timeout_s: float = DEADLINE_S,
) -> str:
    """Run the first input of the network's fixture; return how its output compares.

    ``timeout_s`` is the longest wait for one execution.

    Raises:
        DeviceRefusedError: The board cannot take it.
    """
    fixture = np.load(FIXTURES / f"{network}.npz")
    model = session.load_model((MODELS / f"{network}.pte").read_bytes())
    session.set_input(0, tensor_to_bytes(fixture["inputs"][0], model.inputs[0]))
    session.run(count, options or RunOptions(), timeout_s=timeout_s)
    output = tensor_from_bytes(session.read(Region.OUTPUT), model.outputs[0])[0]
    expected = fixture["outputs"][0]
    if network.endswith("_int8"):
        return "exact" if output.tobytes() == expected.tobytes() else "WRONG"
    difference = float(np.abs(output - expected).max())
    return f"{difference:.0e}" if difference <= FLOAT_TOLERANCE else f"WRONG by {difference:.0e}"


def page(cells: Mapping[tuple[str, str], str]) -> str:
    """The page, a section per network: a table of that many columns could not be read."""
    lines = [INTRODUCTION]
    for network in networks():
        size = (MODELS / f"{network}.pte").stat().st_size
        lines += [f"## {network} ({size:,} bytes)", "", "| board | result |", "|---|---|"]
        lines += [f"| {board.name} | {cells[network, board.name]} |" for board in boards()]
        lines.append("")
    return "\n".join(lines)


def read_page() -> dict[tuple[str, str], str]:
    """What the page says, by network and board."""
    result: dict[tuple[str, str], str] = {}
    network = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            network = line.split()[1]
        elif network and line.startswith("| ") and not line.startswith("| board |"):
            _, board, cell, _ = (part.strip() for part in line.split("|"))
            result[network, board] = cell
    return result


def main(names: Sequence[str]) -> None:
    cells = read_page() if names else {}
    chosen = [board for board in boards() if not names or board.name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        columns = pool.map(lambda board: list(column(board)), chosen)
        for board, cells_of_board in zip(chosen, columns, strict=True):
            for network, cell in zip(networks(), cells_of_board, strict=True):
                cells[network, board.name] = str(cell)
    PAGE.write_text(page(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
