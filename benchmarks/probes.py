"""How long a trace takes over each wire, and how long it halts the board; into docs/probes.md.

    python -m benchmarks.probes

The board is QEMU's mps2-an385, so times are of this host, of its clock, and of QEMU's gdbserver. A
real probe is slower; the numbers of halts, bytes and requests are the same.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace as with_fields

from harness import Region, Session, build_firmware, open_port, start_target
from harness.config.board import Build, load_board
from harness.extensions.probes.debug_probe import ProbeStatistics, open_probe
from harness.extensions.probes.memory import FirmwareElf, MemoryTracers
from harness.extensions.probes.rtt import RttTransport
from harness.runs.request import ProbeRequest
from harness.testing import Transport
from tests.conftest import MODELS
from tests.support.tracer_only import BOARD, build_tracer_only, gdbserver

PAGE = Path(__file__).resolve().parent.parent / "docs/probes.md"
TABLE = re.compile(r"(?<=<!-- benchmarks.probes -->\n).*?(?=<!-- end -->)", re.DOTALL)
REPEATS = 5
EXECUTIONS = (10, 200)
INPUT = np.zeros((1, 49, 10, 1), np.float32)


class Taken(NamedTuple):
    """One trace: its bytes, the seconds it took, and what a probe did."""

    size: int
    seconds: float
    done: ProbeStatistics | None


def main() -> None:
    text = TABLE.sub("\n".join(section()) + "\n", PAGE.read_text())
    PAGE.write_text(text)
    print(text)


def section() -> Iterator[str]:
    yield f"Logs of kws_int8, executed {EXECUTIONS[0]} and {EXECUTIONS[1]} times by the bundled C"
    yield "kernels on QEMU's mps2-an385; the host's clock and QEMU's own gdbserver and UART (TCP),"
    yield f"medians of {REPEATS} pulls of each log."
    yield ""
    yield "| wire | log, bytes | ms | KB/s | halts | longest halt, ms | halted, ms |"
    yield "|---|---|---|---|---|---|---|"
    wires: dict[str, Callable[[int], list[Taken]]] = {
        "link over the UART": over_uart,
        "link over `rtt+gdb://`": over_rtt,
        "`gdb://`": by_probe,
        "`gdb://` with `--symbol`": lambda count: by_probe(count, "tracer"),
    }
    for name, pull in wires.items():
        for count in EXECUTIONS:
            yield row(name, pull(count))


def row(name: str, taken: list[Taken]) -> str:
    seconds = statistics.median(one.seconds for one in taken)
    size = taken[0].size
    cells = [name, f"{size:,}", f"{seconds * 1000:.1f}", f"{size / seconds / 1000:,.0f}"]
    done = [one.done for one in taken if one.done is not None]
    if done:
        cells.append(f"{statistics.median(one.halts for one in done):.0f}")
        cells.append(f"{statistics.median(one.longest_halt_s for one in done) * 1000:.1f}")
        cells.append(f"{statistics.median(one.halted_s for one in done) * 1000:.1f}")
    else:
        cells += ["none", "", ""]
    return f"| {' | '.join(cells)} |"


def over_uart(count: int) -> list[Taken]:
    board, _ = load_board(BOARD)
    with start_target(board, build_firmware(board)) as target:
        return over_link(target.transport, count, None)


def over_rtt(count: int) -> list[Taken]:
    board, _ = load_board(BOARD)
    image = build_firmware(with_fields(board, build=Build("mps2-an385-rtt"))).image
    block = FirmwareElf(image).variable("_SEGGER_RTT").address
    with TemporaryDirectory() as folder, gdbserver(image, Path(folder)) as server:
        transport = open_port(f"rtt+{server}?address={block:#x}", 115_200)
        assert isinstance(transport, RttTransport)
        try:
            return over_link(transport, count, transport.statistics)
        finally:
            transport.close()


def over_link(transport: Transport, count: int, done: ProbeStatistics | None) -> list[Taken]:
    session = Session(transport, deadline_s=20)
    session.hello(20)
    session.load_model((MODELS / "kws_int8.pte").read_bytes())
    session.set_input(0, INPUT.tobytes())
    session.run(count, timeout_s=120)
    taken = []
    for _ in range(REPEATS):
        with measured(done) as used:
            began = time.perf_counter()
            size = len(session.read(Region.TRACE))
            seconds = time.perf_counter() - began
        taken.append(Taken(size, seconds, used))
    return taken


@contextmanager
def measured(done: ProbeStatistics | None) -> Iterator[ProbeStatistics | None]:
    """Yield what is done within the block, once it has ended; None without a probe."""
    if done is None:
        yield None
        return
    before = replace(done)
    used = ProbeStatistics()
    done.longest_halt_s = 0.0
    yield used
    used.halts = done.halts - before.halts
    used.halted_s = done.halted_s - before.halted_s
    used.longest_halt_s = done.longest_halt_s


def by_probe(count: int, symbol: str | None = None) -> list[Taken]:
    taken = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        image = build_tracer_only(folder, model="kws_int8.pte", given=INPUT, executions=count)
        elf = FirmwareElf(image)
        with gdbserver(image, folder, idle=True) as server:
            for _ in range(REPEATS):
                began = time.perf_counter()
                with open_probe(server) as probe:
                    tracers = MemoryTracers(probe, ProbeRequest(image, symbol), elf)
                    size = len(tracers.read_settled(60.0)[0])
                taken.append(Taken(size, time.perf_counter() - began, probe.statistics))
    return taken


if __name__ == "__main__":
    main()
