"""Measure our Inspector beside ExecuTorch's, like with like, and write docs/decoding.md.

    python -m benchmarks.decoding            # 10 minutes: theirs takes one for the largest file
    python -m benchmarks.decoding --quick    # 6 minutes: without the largest file for theirs

Constructor is compared with constructor, table with table, command with command. Both read the
same files, which ExecuTorch's own ETDumpGen wrote, on the same machine in turn, each time in a new
process. Importing is excluded but for commands, as is what a process takes before it reads; what
reading the file from the page cache takes is included. Needs torch, executorch and pandas.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tests.support.executorch import Build

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/decoding.md"
TRACERS = Path(__file__).parent / "tracers"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Dump:
    """A file to read.

    Attributes:
        label: What it holds.
        runs: Event blocks.
        events: Events of each.
        repeats: How often each reader reads it.
    """

    label: str
    runs: int
    events: int
    repeats: int


HUGE = Dump("10,000,000 events", 1, 10_000_000, 1)
LARGE = Dump("1,000,000 events", 1, 1_000_000, 1)
MANY = Dump("1,000 runs of 100", 1_000, 100, 2)
MEDIUM = Dump("100,000 events", 1, 100_000, 1)
SMALL = Dump("10,000 events", 1, 10_000, 2)
OURS_PER_THEIRS = 3
"""How often ours reads a file for each time that theirs does; it takes no time to speak of."""
OBJECTS, TEXTS, NUMBERS = 6, 2, 7
"""Columns of a table beside the lists of numbers, by what they hold."""
BUSY = 1.5
"""Load average from which other work makes times longer."""
PROGRAM = [sys.executable, "-c", "from harness.cli import main; main()"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What reading took, in the median.

    Attributes:
        seconds: Of processor time, in the process and those that it called: Inspector calls flatc.
            Other work on the machine does not count.
        mebibytes: Peak of the resident memory above what it was before.
    """

    seconds: float
    mebibytes: float


@dataclass(frozen=True, slots=True)
class Extent:
    """What is measured.

    Attributes:
        made: Files for the constructors.
        shown: Files for the tables.
        both: Files for constructor and table together.
        printed: Files for the commands.
        starts: Starts of each process.
    """

    made: Sequence[Dump]
    shown: Sequence[Dump]
    both: Sequence[Dump]
    printed: Sequence[Dump]
    starts: int


EVERYTHING = Extent(
    (LARGE, MANY, MEDIUM, SMALL), (MANY, MEDIUM, SMALL), (MANY, MEDIUM, SMALL), (MANY, SMALL), 5
)
QUICK = Extent((MANY, MEDIUM), (MANY, MEDIUM), (MANY, MEDIUM), (SMALL,), 1)


def main(extent: Extent) -> None:
    lines = [
        "# Reading ED00 files",
        "",
        f"Written by `benchmarks/decoding.py` on {machine()}.",
        "",
    ]
    if extent is QUICK:
        lines += ["Measured with `--quick`, which reads fewer files.", ""]
    if (load := os.getloadavg()[0]) >= BUSY:
        lines += [
            f"The machine was busy: its load was {load:.1f} at the start. Processor times are",
            "longer than on an idle machine, and elapsed times much longer.",
            "",
        ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write = build_writer(folder)
        parts = constructors, tables, commands, reading, starts
        for line in chain.from_iterable(part(write, extent) for part in parts):
            print(line, flush=True)
            lines.append(line)
    PAGE.write_text("\n".join(lines) + "\n")


def build_writer(folder: Path) -> Callable[[Dump], Path]:
    """Compile the program that writes dumps; returns what makes a file of one."""
    build = Build(folder)
    objects = [build.compile(TRACERS / "dump.cpp", "-O2")]
    program = build.link(objects, "executorch_etdump")

    def write(dump: Dump) -> Path:
        path = folder / f"{dump.runs}x{dump.events}.etdp"
        if not path.exists():
            subprocess.run([program, str(dump.runs), str(dump.events), path], check=True)
        return path

    return write


HEADER = "| file | ours | ExecuTorch's | ratio | our memory | theirs |"


def constructors(write: Callable[[Dump], Path], extent: Extent) -> Iterator[str]:
    """The constructor of both."""
    yield "## Constructor: `Inspector(path)`"
    yield ""
    yield HEADER
    yield "|---|---|---|---|---|---|"
    for dump in extent.made:
        yield _row(dump, *interleaved(dump, write(dump), "constructor", "their_constructor"))
    yield ""
    yield "Median processor times. Each measurement runs in a new process, after the imports."
    yield "Memory is the peak of the process above its size before. Our Inspector creates events"
    yield "when they are first read; the times for the tables below include all events."
    yield ""


def tables(write: Callable[[Dump], Path], extent: Extent) -> Iterator[str]:
    """The table of both, of an Inspector that is there."""
    yield "## Table: `inspector.to_dataframe()`"
    yield ""
    yield HEADER
    yield "|---|---|---|---|---|---|"
    for dump in extent.shown:
        yield _row(dump, *interleaved(dump, write(dump), "table", "their_table"))
    yield ""
    yield "Without the constructor. The table of the 1,000 runs has 100 rows with 1,000 numbers in"
    yield "two cells of each; in the other files every event is a different operator."
    yield ""
    bare = [costs(_self("cells", write(dump)), repeats=dump.repeats)[0] for dump in (MANY, MEDIUM)]
    yield "Converting existing arrays to these lists of numbers, and to a DataFrame with as many"
    yield f"columns, takes {1000 * bare[0].seconds:.1f} ms for {MANY.label}, and"
    yield f"{1000 * bare[1].seconds:.1f} ms for {MEDIUM.label}: a lower limit for such a table."
    yield ""
    yield "Constructor and table together:"
    yield ""
    yield HEADER
    yield "|---|---|---|---|---|---|"
    for dump in extent.both:
        yield _row(dump, *interleaved(dump, write(dump), "both", "their_both"))
    yield ""


def commands(write: Callable[[Dump], Path], extent: Extent) -> Iterator[str]:
    """The commands of both, whole processes from start to end."""
    yield "## Command: `etharness decode` and `inspector_cli --etdump_path`"
    yield ""
    yield "| file | ours | ExecuTorch's | ratio |"
    yield "|---|---|---|---|"
    theirs = [sys.executable, "-m", "executorch.devtools.inspector.inspector_cli", "--etdump_path"]
    for dump in extent.printed:
        path = str(write(dump))
        times = [_whole([*PROGRAM, "decode", path])[0], _whole([*theirs, path])[0]]
        ratio = f"1/{times[1] / times[0]:.0f}"
        yield f"| {dump.label} | {times[0]:.2f} s | {times[1]:.2f} s | {ratio} |"
    yield ""
    yield "Processor time of the whole process including imports, one measurement each."
    yield ""


def reading(write: Callable[[Dump], Path], _: Extent) -> Iterator[str]:
    """What reading alone takes, which ExecuTorch has no counterpart of."""
    yield "## Reading alone: `load_source(path).trace`, and `etharness decode`"
    yield ""
    yield (
        "| file | bytes | reading | share of the constructor | memory | `decode` "
        "| peak memory of `decode` |"
    )
    yield "|---|---|---|---|---|---|---|"
    for dump in (HUGE, LARGE, MANY, MEDIUM):
        path = write(dump)
        trace, made = costs(_self("trace", path), _self("constructor", path), repeats=1)
        whole, peak = _whole([*PROGRAM, "decode", str(path)]) if dump is not HUGE else (None, None)
        decoded = "" if whole is None else f"{whole:.2f} s"
        yield (
            f"| {dump.label} | {path.stat().st_size:,} | {1000 * trace.seconds:.0f} ms "
            f"| 1/{made.seconds / trace.seconds:.1f} | {trace.mebibytes:.0f} MiB | {decoded} "
            f"| {'' if peak is None else f'{peak:.0f} MiB'} |"
        )
    yield ""
    yield "Files of 16 MiB or more are mapped into memory and read in batches; the memory for the"
    yield "largest file is that of its columns. `decode` is the whole process; it lists the 10,000"
    yield "operators with the largest total times."
    yield ""


def starts(_: Callable[[Dump], Path], extent: Extent) -> Iterator[str]:
    """Whole processes, from their start to their end."""
    python = [sys.executable, "-c"]
    commands = {
        "`python -c pass`": [*python, "pass"],
        "`import harness`": [*python, "import harness"],
        "`from harness.inspector import Inspector`": [
            *python,
            "from harness.inspector import Inspector",
        ],
        "`from executorch.devtools import Inspector`": [
            *python,
            "from executorch.devtools import Inspector",
        ],
        "`etharness --help`": [*PROGRAM, "--help"],
    }
    yield "## Whole processes"
    yield ""
    yield "| process | processor time | elapsed time |"
    yield "|---|---|---|"
    times: dict[str, list[tuple[float, float]]] = {label: [] for label in commands}
    for _ in range(extent.starts):
        for label, command in commands.items():
            began, computed = time.perf_counter(), _processor_time()
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
            )
            taken = time.perf_counter() - began
            times[label].append((_processor_time() - computed, taken))
    for label, each in times.items():
        computed, taken = (statistics.median(column) for column in zip(*each, strict=True))
        yield f"| {label} | {computed:.2f} s | {taken:.2f} s |"
    yield ""
    yield f"Median of {extent.starts} start{'s' * (extent.starts > 1)}."


def _row(dump: Dump, ours: Cost, theirs: Cost) -> str:
    return (
        f"| {dump.label} | {1000 * ours.seconds:.1f} ms | {theirs.seconds:.2f} s "
        f"| 1/{theirs.seconds / ours.seconds:.0f} | {ours.mebibytes:.0f} MiB "
        f"| {theirs.mebibytes:.0f} MiB |"
    )


def _whole(command: Sequence[str]) -> tuple[float, float]:
    """Processor seconds of a process and those it called, and its largest memory in MiB."""
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)
        ],
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise subprocess.CalledProcessError(status, command)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def interleaved(dump: Dump, path: Path, ours: str, theirs: str) -> tuple[Cost, Cost]:
    """Measure one and the other in turn."""
    first, second = costs(_self(ours, path), _self(theirs, path), repeats=dump.repeats)
    return first, second


def costs(*commands: Sequence[str], repeats: int) -> list[Cost]:
    """Medians of what commands, called in turn, measured of themselves."""
    found: list[list[Cost]] = [[] for _ in commands]
    for _ in range(repeats):
        for index, command in enumerate(commands):
            for _ in range(OURS_PER_THEIRS if index == 0 else 1):
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
                found[index].append(Cost(**json.loads(done.stdout.splitlines()[-1])))
    return [
        Cost(*(statistics.median(getattr(cost, name) for cost in each) for name in Cost.__slots__))
        for each in found
    ]


def _self(what: str, path: Path) -> list[str]:
    return [sys.executable, "-m", __spec__.name, what, str(path)]


def measure(what: str, path: str) -> Cost:
    """Do something with a file in this process, once, and say what that took."""
    prepare, act = READERS[what]()
    given = prepare(path)
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = _memory("VmRSS")
    began = _processor_time()
    kept = act(given)  # alive until the memory has been looked at
    seconds = _processor_time() - began
    after = _memory("VmHWM")
    del kept
    return Cost(seconds, (after - before) / 1024)


Steps = tuple[Callable[[str], Any], Callable[[Any], Any]]
"""What is done before the measurement, with the path, and what is measured, with its result."""


def _same(path: str) -> str:
    return path


def _trace() -> Steps:
    from harness.runs.source import load_source

    return _same, lambda path: load_source(Path(path)).trace


def _inspector() -> Callable[[str], Any]:
    import pandas  # noqa: F401

    from harness.inspector import Inspector

    return Inspector


def _their_inspector() -> Callable[[str], Any]:
    from executorch.devtools import Inspector

    return Inspector


def _cells() -> Steps:
    """Lists of numbers in a DataFrame, from arrays that are there: the least that a table takes."""
    import gc

    import numpy
    import pandas

    inspector = _inspector()
    gc.disable()  # as our table does

    def prepare(path: str) -> list[Any]:
        trace = inspector(path).trace
        shape = len(trace.blocks), -1
        durations = (trace.end - trace.start).astype(float)
        return [numpy.ascontiguousarray(x.reshape(shape).T) for x in (durations, trace.start)]

    def fill(arrays: list[Any]) -> Any:
        rows = len(arrays[0])
        cells = [array.tolist() for array in arrays] + [[None] * rows] * OBJECTS
        objects = [numpy.fromiter(column, object, rows) for column in cells]
        table = {f"object {n}": pandas.Series(x, dtype=object) for n, x in enumerate(objects)}
        table |= {f"text {n}": ["text"] * rows for n in range(TEXTS)}
        table |= {f"number {n}": numpy.zeros(rows) for n in range(NUMBERS)}
        return pandas.DataFrame(table)

    return prepare, fill


def _both(inspector: Callable[[str], Any]) -> Steps:
    return _same, lambda path: (made := inspector(path), made.to_dataframe())


READERS: dict[str, Callable[[], Steps]] = {
    "trace": _trace,
    "constructor": lambda: (_same, _inspector()),
    "their_constructor": lambda: (_same, _their_inspector()),
    "table": lambda: (_inspector(), lambda inspector: inspector.to_dataframe()),
    "their_table": lambda: (_their_inspector(), lambda inspector: inspector.to_dataframe()),
    "cells": _cells,
    "both": lambda: _both(_inspector()),
    "their_both": lambda: _both(_their_inspector()),
}
"""What can be measured: each imports what it needs."""


def _processor_time() -> float:
    """Seconds that this process and those it called have computed."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _memory(kind: str) -> int:
    """Resident size of this process in KiB: `VmRSS` now, `VmHWM` the largest so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status does not say {kind}")


def machine() -> str:
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{system}, Python {platform.python_version()}"


if __name__ == "__main__":
    if sys.argv[1:] in ([], ["--quick"]):
        main(QUICK if sys.argv[1:] else EVERYTHING)
    else:
        cost = measure(*sys.argv[1:])
        print(json.dumps({"seconds": cost.seconds, "mebibytes": cost.mebibytes}))
