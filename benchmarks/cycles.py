"""Measure the cycles of networks on the boards of RTL, and write them into docs/cycles.md.

    python -m benchmarks.cycles              # all networks: three hours of CPU time
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

from benchmarks.networks import EVENT, MODELS, networks, run
from harness import (
    Region,
    RunOptions,
    Session,
    Trace,
    build_firmware,
    durations,
    read_log,
    start_target,
)
from harness.analyze.call_tree import call_tree
from harness.config.board import load_board
from harness.decode.pte import ModelFile
from harness.runs.loading import place_model
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

LONG: Final = ("kws_f32", "vww_f32", "ic_f32")
"""Networks of 0.4 to 1.9 billion instructions. Each core executes them once, with counters, so that
the same execution tells its instructions, cycles and waits."""

LIMIT_S: Final = 7200.0
"""Time for an execution: of the longest, on a busy host, a simulator needs most of an hour."""

Events = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a simulator did.

    Attributes:
        executions: Operators and their ticks, then ``Method::execute``, per execution.
        counts: The events of one more execution, and what each counter counted in them.
        cycles: All simulated cycles, the start included; 0 for QEMU.
        seconds: CPU time that they took.
    """

    executions: list[Events]
    counts: dict[str, Events] = field(default_factory=dict)
    cycles: int = 0
    seconds: float = 0.0


def measure(
    board_path: Path, network: str | None, count: int = 1, counters: Sequence[str] = ()
) -> Measurement:
    """Start a board and run a network ``count`` times, or only start the board.

    With ``counters``, one more execution tells what each of them counted in each event.
    """
    board, _ = load_board(str(board_path))
    path = MODELS / f"{network}.pte"
    placed = place_model(ModelFile(path, path.read_bytes()), board) if network else None
    firmware = build_firmware(board, placed)
    notes = board_path.with_suffix(".notes")
    if firmware.simulator is not None:  # it says at its end what it did
        noting = board_path.with_suffix(".sh")
        noting.write_text(f'#!/bin/sh\nexec "{firmware.simulator}" "$@" 2>"{notes}"\n')
        noting.chmod(0o755)
        firmware = replace(firmware, simulator=noting)
    executions: list[Events] = []
    counts: dict[str, Events] = {}
    with start_target(board, firmware) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        info = session.hello(board.deadlines.boot_s)

        def traced(count: int, options: RunOptions) -> Trace:
            assert network is not None
            verdict = run(session, network, count, options, LIMIT_S)
            if verdict.startswith("WRONG"):
                raise SystemExit(f"{network} on {board.name}: {verdict}")
            return read_log(session.read(Region.TRACE), info.clocks)

        if network is not None and count:
            trace = traced(count, RunOptions())
            executions = split(trace, durations(trace).tolist())
        if counters:
            trace = traced(1, RunOptions(counters=session.counters().numbers(counters)))
            for name, values in zip(counters, counted(trace), strict=True):
                [counts[name]] = split(trace, values)
    if not notes.exists():
        return Measurement(executions, counts)
    said = re.search(r"simulated (\d+) cycles in ([\d.]+) s", notes.read_text())
    assert said is not None, f"{board.name} did not say what it simulated"
    return Measurement(executions, counts, int(said[1]), float(said[2]))


def counted(trace: Trace) -> list[list[int]]:
    """Return what each counter counted in each event, without what reading them adds."""
    own = np.array([counter.overhead for counter in trace.counters])
    inner = np.array([counter.parent_overhead for counter in trace.counters])
    within = np.bincount(call_tree(trace).parent + 1, minlength=len(trace) + 1)[1:]
    counts: list[list[int]] = (trace.counts - own - np.outer(within, inner)).T.tolist()
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
    yield "| board | start-up cycles | simulated cycles per second of CPU time |"
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
    waits: list[tuple[str, Events]] = []
    with TemporaryDirectory() as folder:
        instructions = "rtl-cv32e40p-instructions"
        [retired] = measure(board_file(Path(folder), instructions, QEMU), network).executions
        for core in CORES:
            title, stalls = TITLES[core], STALLS.get(core, ())
            if network in LONG:
                columns.append((f"{title}, first" if core in CACHED else title, []))
                target = f'target = {{ kind = "rtl", core = "{core}", profile_guided = true }}'
                path = board_file(Path(folder), f"rtl-{core}", target)
                measured = measure(path, network, 0, ("instret", "cycles", *stalls))
                expect_retired(retired, measured.counts["instret"], core)
                columns[-1][1].extend(measured.counts["cycles"])
            else:
                path = board_file(Path(folder), f"rtl-{core}", None)
                measured = measure(path, network, 2 if core in CACHED else 1, stalls)
                cold, *warm = measured.executions
                columns.append((f"{title}, first" if warm else title, cold))
                columns += [(f"{title}, warm", one) for one in warm]
            if stalls:
                added = [measured.counts[stall] for stall in stalls]
                waits.append((f"{title}, waits", [total(row) for row in zip(*added, strict=True)]))
    titles = [title for title, _ in (*columns, *waits)]
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
        cells += [f"{events[row][1]:,}" for _, events in waits]
        yield f"| {' | '.join(cells)} |"


def total(row: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Add up what several counters counted in one event."""
    return row[0][0], sum(count for _, count in row)


def expect_retired(qemu: Events, core: Events, title: str) -> None:
    """Check that a core retired in each operator what QEMU did.

    QEMU's ticks hold what the tracer itself takes in an event, the counter does not: the difference
    is the same for every operator. An execution also holds the reading of its operators' counters,
    of which only about the right number is taken away.
    """
    less = {ticks - count for (_, ticks), (_, count) in zip(qemu[:-1], core[:-1], strict=True)}
    assert len(less) == 1, f"{title} retired {sorted(less)} instructions less than QEMU"
    (_, ticks), (_, count) = qemu[-1], core[-1]
    assert abs(ticks - count) < ticks / 1000, f"{title}: {count:,} instructions, {ticks:,} on QEMU"


def written(name: str) -> str:
    """Return what stands between a mark of the page and its end."""
    return PAGE.read_text().partition(f"<!-- {name} -->\n")[2].partition(END)[0]


def write(name: str, section: str) -> None:
    before, mark, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
    PAGE.write_text(before + mark + section + END + rest.partition(END)[2])


def main(wanted: Sequence[str]) -> None:
    if not wanted:
        write("boots", "\n".join(boots()) + "\n")
    for network in wanted or networks():
        section = "\n".join([network, "", *table(network), "", ""])
        sections = {part.partition("\n")[0]: part for part in written("networks").split("### ")[1:]}
        sections[network] = section
        write(
            "networks", "".join(f"### {sections[name]}" for name in networks() if name in sections)
        )


if __name__ == "__main__":
    main(sys.argv[1:])
