"""What an event costs: our tracer beside ExecuTorch's ETDumpGen, in instructions, bytes and RAM.

    python -m benchmarks.tracer_cost

Both are called by a small program on this machine, `tracers/ours.c` and `tracers/etdumpgen.cpp`,
with a counter as the clock; valgrind's callgrind counts. What starting the program costs drops out,
because it is the same for more events; so does what the loop and the readings of the clock cost,
because they are counted alone, too. The figures are of the compiler and C library, not of the
hour. Our side is compiled as the firmware is, with -Os; theirs is the executorch wheel's library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import build_firmware
from harness.config.board import load_board
from harness.extensions.executorch.linking import PACKAGE_REMEDY, find_executorch
from harness.files import data_directory
from harness.target.build import firmware_sizes
from tests.support.executorch import Build

HERE = Path(__file__).parent / "tracers"
SCENARIOS = {
    "unnamed": "start and end, no name",
    "interned": "start and end, a previously interned name",
    "named": "start and end, a name of 20 bytes",
    "scope": "start by `ETD_SCOPE` and end, a name of 20 bytes",
    "network": "start and end, the 10 names of a network in turn",
    "delegate": "start and end of a delegate's event, integer id",
    "afterwards": "a delegate's event logged afterwards, string id of 20 bytes",
}
NO_CLOCK = frozenset({"afterwards"})
"""Scenarios whose events bring their times with them."""
FEW, MANY = 1000, 2000
LARGEST_STATIC_BUFFER = 4 << 20


@dataclass(frozen=True)
class Tracers:
    """The two programs.

    Attributes:
        ours: Calls our tracer.
        theirs: Calls ETDumpGen; None without the executorch package.
    """

    ours: Path
    theirs: Path | None


def missing() -> str | None:
    """Why nothing can be counted here, if so."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed: apt-get install valgrind"
    return None


def build(directory: Path) -> Tracers:
    """Compile both programs."""
    source = data_directory("firmware_stub")
    ours = directory / "ours"
    tracer = [str(path) for path in sorted((source / "src/tracer").glob("*.c"))]
    flags = ["-std=c11", "-Os", "-ffunction-sections", "-fdata-sections", f"-I{source}/include"]
    compiler = os.environ.get("CC") or "cc"
    _run([compiler, *flags, str(HERE / "ours.c"), *tracer, "-Wl,--gc-sections", "-o", str(ours)])
    if find_executorch() is None:
        return Tracers(ours, None)
    theirs = Build(directory)
    calls = theirs.compile(HERE / "etdumpgen.cpp", "-O2")
    return Tracers(ours, theirs.link([calls], "executorch_etdump"))


def instructions(program: Path, scenario: str) -> float:
    """Instructions of the tracer per event, without the loop around and the clock's."""
    around = 0.0 if scenario in NO_CLOCK else _per_event(program, "nothing")
    return _per_event(program, scenario) - around


@cache
def _per_event(program: Path, scenario: str) -> float:
    few, many = (_count(program, scenario, count) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def log_bytes(program: Path, scenario: str) -> float:
    """Bytes of log per event."""
    few, many = (int(_run([str(program), scenario, str(count)])) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def smallest_static_buffer(theirs: Path) -> int:
    """Bytes of the smallest static buffer that ETDumpGen accepts."""
    refused, accepted = 0, LARGEST_STATIC_BUFFER
    while accepted - refused > 1:
        size = (refused + accepted) // 2
        done = subprocess.run([theirs, "fits", str(size)], capture_output=True, check=False)
        refused, accepted = (size, accepted) if done.returncode else (refused, size)
    return accepted


def section() -> Iterator[str]:
    """The part of docs/measurements.md."""
    yield "## Cost of an event, compared with ETDumpGen"
    yield ""
    reason = missing()
    if reason:
        yield f"Not measured: {reason}."
        return
    with tempfile.TemporaryDirectory() as scratch:
        tracers = build(Path(scratch))
        yield from _costs(tracers)
        yield from _footprint(tracers)
    if tracers.theirs is None:
        yield ""
        yield f"ETDumpGen was not measured: {PACKAGE_REMEDY} brings it."


def _costs(tracers: Tracers) -> Iterator[str]:
    yield "The table lists how many instructions of an x86-64 ETDumpGen takes for each of ours"
    yield "(callgrind), and the bytes of log for one event. The section above has the costs on"
    yield "microcontrollers."
    yield ""
    yield "| event | instructions, ETDumpGen / ours | bytes, ours | bytes, ETDumpGen |"
    yield "|---|---|---|---|"
    for scenario, meaning in SCENARIOS.items():
        size = f"{log_bytes(tracers.ours, scenario):.0f}"
        if tracers.theirs is None:
            yield f"| {meaning} | - | {size} | - |"
            continue
        ratio = instructions(tracers.theirs, scenario) / instructions(tracers.ours, scenario)
        their_size = f"{log_bytes(tracers.theirs, scenario):.0f}"
        yield f"| {meaning} | {ratio:.1f} | {size} | {their_size} |"
    yield ""
    yield "The cost of the loop and of the two clock readings is subtracted for both tracers."
    yield "ETDumpGen has no interned names, so its numbers are those of a name of 20 bytes. Our"
    yield "runtime interns all names when it loads a method."


def _footprint(tracers: Tracers) -> Iterator[str]:
    board, _ = load_board("qemu-mps2-an385")
    firmware = build_firmware(board)
    [tracer] = [s for s in firmware_sizes(firmware) if s.part == "tracer"]
    state = int(_run([str(tracers.ours), "state", "0"]))
    yield ""
    yield "| size on x86-64 | ours | ETDumpGen |"
    yield "|---|---|---|"
    if tracers.theirs is None:
        yield f"| state object, bytes | {state} | - |"
        return
    package = find_executorch()
    assert package is not None
    library = package / "lib" / "libexecutorch_etdump.so"
    buffer = smallest_static_buffer(tracers.theirs)
    yield f"| state object, bytes | {state} | {int(_run([str(tracers.theirs), 'state', '0']))} |"
    yield f"| smallest buffer, bytes | 0 | {buffer} |"
    yield f"| text, bytes | {_text(tracers.ours)} | {_text(library)} |"
    yield ""
    yield "Our text size includes the main function of `ours`. ETDumpGen's is that of the"
    yield "wheel's library, which includes FlatBuffers' builder. On the Cortex-M3, the text of"
    yield f"our tracer is {tracer.text} bytes."


def _text(image: Path) -> int:
    """Bytes of the section `.text`."""
    for line in _run(["size", "-A", str(image)]).splitlines():
        if line.startswith(".text "):
            return int(line.split()[1])
    raise ValueError(f"{image} has no section .text")


def _count(program: Path, scenario: str, count: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program)]
    environment = {**os.environ, "COUNT_ONLY": "1"}
    done = subprocess.run(
        [*command, scenario, str(count)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stderr.rsplit("Collected :", 1)[1].split()[0])


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    print("\n".join(section()))
