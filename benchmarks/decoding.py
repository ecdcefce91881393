"""Measure our reader of ED00 files beside ExecuTorch's Inspector, and write docs/decoding.md.

    python -m benchmarks.decoding    # in minutes: Inspector takes one for the largest file

Both read the same files, which ExecuTorch's own ETDumpGen wrote, on the same machine in turn, each
time in a new process. Importing is excluded, as is what a process takes before it reads; what
reading the file from the page cache takes is included. Needs torch and executorch.
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


LARGE = Dump("1,000,000 events", 1, 1_000_000, 1)
MANY = Dump("1,000 runs of 100", 1_000, 100, 4)
MEDIUM = Dump("100,000 events", 1, 100_000, 1)
SMALL = Dump("10,000 events", 1, 10_000, 2)
OURS_PER_THEIRS = 3
"""How often ours reads a file for each time that Inspector does; it takes no time to speak of."""
STARTS = 5


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


def main() -> None:
    lines = [
        "# Reading ED00 files",
        "",
        f"Written by `benchmarks/decoding.py` on {machine()}.",
        "",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write = build_writer(folder)
        for part in (readers(write), statistics_of(write), starts(write)):
            lines += part
    PAGE.write_text("\n".join(lines) + "\n")
    print(PAGE.read_text())


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


def readers(write: Callable[[Dump], Path]) -> Iterator[str]:
    """Into a Trace, beside the constructor of Inspector."""
    yield "## Into memory"
    yield ""
    yield "| file | bytes | ours | Inspector | ratio | peak memory, of the file | Inspector's |"
    yield "|---|---|---|---|---|---|---|"
    for dump in (LARGE, MANY, MEDIUM, SMALL):
        path = write(dump)
        ours, theirs = interleaved(dump, path, ours="trace", theirs="inspector")
        size = path.stat().st_size
        yield (
            f"| {dump.label} | {size:,} | {1000 * ours.seconds:.1f} ms | {theirs.seconds:.2f} s "
            f"| 1/{theirs.seconds / ours.seconds:.0f} | {_of_file(ours, size)} "
            f"| {_of_file(theirs, size)} |"
        )
    yield ""
    yield "Processor time, medians, each reading in a new process. The memory is the process's peak"
    yield "above what it had before; the file's own bytes are part of it."
    yield ""


def statistics_of(write: Callable[[Dump], Path]) -> Iterator[str]:
    """Statistics per operator, beside Inspector's table of them."""
    yield "## Statistics, from the file"
    yield ""
    yield "| file | ours | Inspector and its `to_dataframe()` | ratio |"
    yield "|---|---|---|---|"
    path = write(SMALL)
    ours, theirs = interleaved(SMALL, path, ours="statistics", theirs="dataframe")
    yield (
        f"| {SMALL.label} | {1000 * ours.seconds:.0f} ms | {theirs.seconds:.1f} s "
        f"| 1/{theirs.seconds / ours.seconds:.0f} |"
    )
    for dump in (MEDIUM, LARGE):
        [ours] = costs(_ours("statistics", write(dump)), repeats=1)
        yield f"| {dump.label} | {1000 * ours.seconds:.0f} ms | not waited for | |"
    yield ""
    yield "In these files every event is of another operator, so there are as many of both."
    yield ""


def starts(write: Callable[[Dump], Path]) -> Iterator[str]:
    """Whole processes, from their start to their end."""
    python = [sys.executable, "-c"]
    program = [*python, "from harness.cli import main; main()"]
    commands = {
        "`python -c pass`": [*python, "pass"],
        "`import harness`": [*python, "import harness"],
        "`from harness.decode.ed00 import read_ed00`": [
            *python,
            "from harness.decode.ed00 import read_ed00",
        ],
        "`etharness --help`": [*program, "--help"],
        f"`etharness decode` of {MANY.label}": [*program, "decode", str(write(MANY))],
        f"`etharness decode` of {MEDIUM.label}, all different": [
            *(*program, "decode", str(write(MEDIUM))),
        ],
    }
    yield "## Whole processes"
    yield ""
    yield "| process | processor time | from its start to its end |"
    yield "|---|---|---|"
    times: dict[str, list[tuple[float, float]]] = {label: [] for label in commands}
    for _ in range(STARTS):
        for label, command in commands.items():
            began, computed = time.perf_counter(), _processor_time()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            taken = time.perf_counter() - began
            times[label].append((_processor_time() - computed, taken))
    for label, each in times.items():
        computed, taken = (statistics.median(column) for column in zip(*each, strict=True))
        yield f"| {label} | {computed:.2f} s | {taken:.2f} s |"
    yield ""
    yield f"Medians of {STARTS}."


def interleaved(dump: Dump, path: Path, *, ours: str, theirs: str) -> tuple[Cost, Cost]:
    """Read with one and the other in turn."""
    first, second = costs(
        *(_ours(ours, path), [sys.executable, "-m", __spec__.name, theirs, str(path)]),
        repeats=dump.repeats,
    )
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


def _ours(what: str, path: Path) -> list[str]:
    return [sys.executable, "-m", __spec__.name, what, str(path)]


def _of_file(cost: Cost, size: int) -> str:
    return f"{cost.mebibytes * MEBIBYTE / size:.1f} times"


def measure(what: str, path: str) -> Cost:
    """Read a file in this process, once, and say what that took."""
    read = READERS[what]()
    before = _memory("VmRSS")
    began = _processor_time()
    kept = read(path)  # alive until the memory has been looked at
    seconds = _processor_time() - began
    after = _memory("VmHWM")
    del kept
    return Cost(seconds, (after - before) / 1024)


def _trace() -> Callable[[str], Any]:
    from harness.decode.ed00 import read_ed00

    return lambda path: read_ed00(Path(path).read_bytes())


def _statistics() -> Callable[[str], Any]:
    from harness.analyze.statistics import operator_statistics

    read = _trace()
    return lambda path: operator_statistics(read(path))


def _inspector() -> Callable[[str], Any]:
    from executorch.devtools import Inspector

    return lambda path: Inspector(etdump_path=path)


def _dataframe() -> Callable[[str], Any]:
    read = _inspector()
    return lambda path: read(path).to_dataframe()


READERS: dict[str, Callable[[], Callable[[str], Any]]] = {
    "trace": _trace,
    "statistics": _statistics,
    "inspector": _inspector,
    "dataframe": _dataframe,
}
"""What can be measured: each imports what it needs and returns what reads a file."""


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
    if len(sys.argv) == 1:
        main()
    else:
        cost = measure(*sys.argv[1:])
        print(json.dumps({"seconds": cost.seconds, "mebibytes": cost.mebibytes}))
