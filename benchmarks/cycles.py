"""Measure the cycles of networks on the boards of RTL, and write them into docs/cycles.md.

    python -m benchmarks.cycles              # networks of at most 100 million instructions
    python -m benchmarks.cycles NETWORK...   # these only, the others stay as they are

Cycles are the same every time; the simulators' speed is of this host, in CPU time. The model is
placed in the image, because an upload takes hundreds of cycles per byte.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.networks import DEADLINE_S, EVENT, MODELS, networks, run
from harness.analyze.call_tree import call_tree
from harness.analyze.ticks import durations
from harness.config.board import load_board
from harness.decode.device_log import read_log
from harness.link.session import Session
from harness.link.values import RunOptions
from harness.link.wire import Region
from harness.records.trace import Trace
from harness.runs.loading import place_model
from harness.target.build import build_firmware
from harness.target.start import start_target
from tests.support.rtl import CORES, QEMU, board_file

PAGE: Final = Path(__file__).resolve().parent.parent / "docs/cycles.md"
END: Final = "<!-- end -->"
TITLES: Final = {"cv32e40p": "CV32E40P", "ibex": "Ibex", "vexriscv": "VexRiscv"}
CACHED: Final = ("vexriscv",)
STALLS: Final = {
    "cv32e40p": ("load_stall", "jump_stall", "fetch_stall"),
    "ibex": ("load_stall", "fetch_stall", "mul_stall", "div_stall"),
}
"""Counters of cycles in which a core waits."""

TOO_LONG: Final = ("kws_f32", "vww_f32", "ic_f32")
"""Networks of 0.4 to 1.9 billion instructions: minutes to half an hour of CPU time each."""

Events = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a simulator did.

    Attributes:
        executions: Operators and their ticks, then ``Method::execute``, per execution.
        stalls: The same events of one more execution, and the cycles in which the core waited.
        cycles: All simulated cycles, the start included; 0 for QEMU.
        seconds: CPU time that they took.
    """

    executions: list[Events]
    stalls: Events = field(default_factory=list)
    cycles: int = 0
    seconds: float = 0.0


def measure(
    board_path: Path, network: str | None, count: int = 1, counters: Sequence[str] = ()
) -> Measurement:
    """Start a board and run a network ``count`` times, or only start the board.

    With ``counters``, one more execution tells what they counted in each event, added up.
    """
    board, _ = load_board(str(board_path))
    path = MODELS / f"{network}.pte"
    placed = place_model(path, path.read_bytes(), board) if network else None
    firmware = build_firmware(board, placed)
    notes = board_path.with_suffix(".notes")
    if firmware.simulator is not None:  # it says at its end what it did
        noting = board_path.with_suffix(".sh")
        noting.write_text(f'#!/bin/sh\nexec "{firmware.simulator}" "$@" 2>"{notes}"\n')
        noting.chmod(0o755)
        firmware = replace(firmware, simulator=noting)
    executions: list[Events] = []
    stalls: Events = []
    with start_target(board, firmware) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        info = session.hello(board.deadlines.boot_s)
        if network is not None:
            verdict = run(session, network, count)
            if verdict.startswith("WRONG"):
                raise SystemExit(f"{network} on {board.name}: {verdict}")
            trace = read_log(session.read(Region.TRACE), info.clocks)
            executions = split(trace, durations(trace).tolist())
        if counters:
            options = RunOptions(counters=session.counters().numbers(counters))
            session.run(1, options, timeout_s=DEADLINE_S)
            trace = read_log(session.read(Region.TRACE), info.clocks)
            [stalls] = split(trace, counted(trace))
    if not notes.exists():
        return Measurement(executions, stalls)
    said = re.search(r"simulated (\d+) cycles in ([\d.]+) s", notes.read_text())
    assert said is not None, f"{board.name} did not say what it simulated"
    return Measurement(executions, stalls, int(said[1]), float(said[2]))


def counted(trace: Trace) -> list[int]:
    """Return what all counters counted in each event, without what reading them adds."""
    own = sum(counter.overhead for counter in trace.counters)
    inner = sum(counter.parent_overhead for counter in trace.counters)
    within = np.bincount(call_tree(trace).parent + 1, minlength=len(trace) + 1)[1:]
    counts: list[int] = (trace.counts.sum(axis=1) - own - inner * within).tolist()
    return counts


def split(trace: Trace, values: Sequence[int]) -> list[Events]:
    """Operators and executions of a trace with their values, by execution."""
    names = [trace.names[name] if name >= 0 else "" for name in trace.name]
    found: list[Events] = [[]]
    for name, value in zip(names, values, strict=True):
        if name.startswith("native_call_") or name == EVENT:
            found[-1].append((name, value))
        if name == EVENT:
            found.append([])
    return found[:-1]


def boots() -> Iterator[str]:
    """Yield the table of starts."""
    yield "| board | cycles of a start | simulated cycles per second of CPU time |"
    yield "|---|---|---|"
    for core in CORES:
        with TemporaryDirectory() as folder:
            path = board_file(Path(folder), f"rtl-{core}", None)
            start, loaded = measure(path, None), measure(path, "small_int8", 40)
        rate = (loaded.cycles - start.cycles) / (loaded.seconds - start.seconds) / 1e6
        yield f"| `rtl-{core}` | {start.cycles / 1e6:.2f} M | {rate:.1f} M |"


def table(network: str) -> Iterator[str]:
    """Yield the table of a network: a row per operator, and what no core may contradict."""
    columns: list[tuple[str, Events]] = []
    waits: dict[str, Events] = {}
    with TemporaryDirectory() as folder:
        instructions = "rtl-cv32e40p-instructions"
        [retired] = measure(board_file(Path(folder), instructions, QEMU), network).executions
        for core in CORES:
            path = board_file(Path(folder), f"rtl-{core}", None)
            runs = 2 if core in CACHED else 1
            measured = measure(path, network, runs, STALLS.get(core, ()))
            cold, *warm = measured.executions
            if measured.stalls:
                waits[TITLES[core]] = measured.stalls
            suffix = ", first" if warm else ""
            columns.append((f"{TITLES[core]}{suffix}", cold))
            columns += [(f"{TITLES[core]}, warm", one) for one in warm]
    titles = [*(title for title, _ in columns), *(f"{title}, waits" for title in waits)]
    yield f"| event | instructions | {' | '.join(titles)} |"
    yield "|---|---" + "|---" * len(titles) + "|"
    order = [len(retired) - 1, *range(len(retired) - 1)]  # the execution, then its operators
    for row in order:
        name, count = retired[row]
        cells = [f"`{name}`", f"{count:,}"]
        for title, events in columns:
            assert events[row][0] == name, f"{title} executed {events[row][0]} instead of {name}"
            ticks = events[row][1]
            assert ticks >= count, f"{title}: {ticks} cycles for {count} instructions of {name}"
            cells.append(f"{ticks:,} ({ticks / count:.2f})")
        cells += [f"{events[row][1]:,}" for events in waits.values()]
        yield f"| {' | '.join(cells)} |"


def written(name: str) -> str:
    """Return what stands between a mark of the page and its end."""
    return PAGE.read_text().partition(f"<!-- {name} -->\n")[2].partition(END)[0]


def write(name: str, section: str) -> None:
    before, mark, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
    PAGE.write_text(before + mark + section + END + rest.partition(END)[2])


def main(wanted: Sequence[str]) -> None:
    if not wanted:
        write("boots", "\n".join(boots()) + "\n")
    for network in wanted or [name for name in networks() if name not in TOO_LONG]:
        section = "\n".join([network, "", *table(network), "", ""])
        sections = {part.partition("\n")[0]: part for part in written("networks").split("### ")[1:]}
        sections[network] = section
        write(
            "networks", "".join(f"### {sections[name]}" for name in networks() if name in sections)
        )


if __name__ == "__main__":
    main(sys.argv[1:])
