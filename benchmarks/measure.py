"""Measure what docs/measurements.md states, and write that page.

    make measure

Times are of this machine and this hour; sizes and bytes per event are exact. The demo is timed in a
clone of HEAD in a temporary directory, with an empty build cache.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    clock_alignment,
    device_costs,
    library_sizes,
    line_goodput,
    round_trips,
    tracer_cost,
)
from harness import Region, Session, build_firmware, start_target
from harness.config.board import load_board
from harness.decode.device_log_format import HEADER_SIZE, RECORD_SIZE
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.target.build import firmware_sizes

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "firmware_stub/models/kws_int8.pte"
GOODPUT_REPEATS = 5
GOODPUT_EXECUTIONS = 2000
TESTS_BEFORE = {"test": "8 min 42 s", "test-fast": "about 3 min"}
"""Targets of the Makefile, and the times they took."""


def main() -> None:
    sections = ["# Measurements", "", f"Measured by `benchmarks/measure.py` on {_machine()}."]
    for part in (
        demo_time(),
        test_times(),
        trace_size(),
        code_size(),
        library_sizes.section(),
        device_costs.section(),
        tracer_cost.section(),
        line_goodput.section(),
        round_trips.section(),
        goodput(),
        clock_alignment.section(),
    ):
        sections += ["", *part]
    page = ROOT / "docs/measurements.md"
    page.write_text("\n".join(sections) + "\n")
    print(page.read_text())


def demo_time() -> Iterator[str]:
    """Wall time of the demo in a fresh clone, and once more."""
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = {**os.environ, "ETHARNESS_BUILD_DIR": str(Path(scratch) / "build")}
        first, second = (_timed(["make", "demo"], clone, environment) for _ in range(2))
    yield from (
        "## The demo",
        "",
        "| command | in a fresh clone | repeated |",
        "|---|---|---|",
        f"| `make demo` | {first:.0f} s | {second:.0f} s |",
        "",
        "The system packages were already installed.",
    )


def test_times() -> Iterator[str]:
    """Wall time of the tests, with all builds in the cache."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    yield from ("## The tests", "", "| command | before | now |", "|---|---|---|")
    for target, before in TESTS_BEFORE.items():
        seconds = round(_timed(["make", target], ROOT, environment))
        yield f"| `make {target}` | {before} | {seconds // 60} min {seconds % 60} s |"
    yield ""
    yield "Before: when work on a faster suite began. `make test` then counted executed lines and"
    yield "ran the tests that take longest, which `make coverage` does now."


def trace_size() -> Iterator[str]:
    """Bytes per event of the device log and of ED00, over 20 executions of the int8 model."""
    with tempfile.TemporaryDirectory() as scratch:
        outcome = run_model(RunRequest("native", MODEL, 20, Path(scratch) / "run"))
        log = (Path(scratch) / "run/trace.etlog").stat().st_size
        etdump = (Path(scratch) / "run/trace.etdp").stat().st_size
    events = len(outcome.trace)
    yield from (
        "## Bytes per event",
        "",
        "| format | bytes | events | bytes per event |",
        "|---|---|---|---|",
    )
    yield f"| device log | {log} | {events} | {log / events:.1f} |"
    yield f"| ED00 from it | {etdump} | {events} | {etdump / events:.1f} |"
    yield ""
    yield f"An event of the device log is a record of {RECORD_SIZE} bytes. The rest of the log"
    yield f"is a header of {HEADER_SIZE} bytes, one record per block and per allocator, and each"
    yield "name once."


def code_size() -> Iterator[str]:
    """Text, data and bss of each part on Cortex-M3, and the RAM of the state objects."""
    board, _ = load_board("qemu-mps2-an385")
    yield "## Code and RAM on Cortex-M3 (-Os, bytes)"
    yield from ("", "| part | text | data | bss |", "|---|---|---|---|")
    for size in firmware_sizes(build_firmware(board)):
        yield f"| {size.part} | {size.text} | {size.data} | {size.bss} |"
    yield ""
    yield "The sizes are the sums of the objects of each part, before unused functions are"
    yield "dropped. The parts have no static state: the caller provides all RAM. Sizes of the"
    yield "state objects on this core:"
    yield ""
    yield from ("| object | bytes |", "|---|---|")
    for name, size in _struct_sizes():
        yield f"| `{name}` | {size} |"


def goodput() -> Iterator[str]:
    """Payload bytes per second of a model upload and of a long trace, on the native board."""
    board, _ = load_board("native")
    # A program says where it ends, so bytes behind it make a longer upload and change nothing else.
    model = MODEL.read_bytes() + bytes(2 * 1024 * 1024)
    with start_target(board, build_firmware(board)) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        session.hello(board.deadlines.boot_s)
        # Different ones, as a board that holds a model already takes no second copy.
        models = (model[:-1] + bytes([number]) for number in range(1, 256))
        writes = _rates(len(model), lambda: session.load_model(next(models)))
        [tensor] = session.load_model(model).inputs
        session.set_input(0, bytes(tensor.nbytes))
        session.run(GOODPUT_EXECUTIONS, timeout_s=board.deadlines.execute_s)
        trace = session.read(Region.TRACE)
        reads = _rates(len(trace), lambda: session.read(Region.TRACE))
    yield "## Link goodput on the native board"
    yield from ("", "| direction | bytes | MB/s, median of 5 (min to max) |", "|---|---|---|")
    for name, size, rates in (("model up", len(model), writes), ("trace down", len(trace), reads)):
        low, middle, high = (f(rates) / 1e6 for f in (min, statistics.median, max))
        yield f"| {name} | {size} | {middle:.1f} ({low:.1f} to {high:.1f}) |"
    yield ""
    yield "These times include computing and comparing the digests on both ends."


def _timed(command: list[str], cwd: Path, environment: dict[str, str]) -> float:
    began = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{command} failed:\n{(done.stdout + done.stderr).decode()}")
    return time.monotonic() - began


def _rates(size: int, transfer: Callable[[], object]) -> list[float]:
    rates = []
    for _ in range(GOODPUT_REPEATS):
        began = time.monotonic()
        transfer()
        rates.append(size / (time.monotonic() - began))
    return rates


def _struct_sizes() -> Iterator[tuple[str, int]]:
    """Sizes of the state structs on this core: arrays of that size, compiled and looked up."""
    structs = {"etd_tracer": "etd_tracer.h", "etd_frame_decoder": "etd_frame.h"}
    structs |= {"etd_method": "etd_runtime.h", "etd_server": "etd_server.h"}
    with tempfile.TemporaryDirectory() as scratch:
        source, compiled = Path(scratch) / "sizes.c", Path(scratch) / "sizes.o"
        source.write_text(
            "".join(
                f'#include "{header}"\nchar size_of_{name}[sizeof({name})];\n'
                for name, header in structs.items()
            )
        )
        core = ["-mcpu=cortex-m3", "-mthumb", "-I", str(ROOT / "firmware_stub/include")]
        compile_ = ["arm-none-eabi-gcc", *core, "-c", str(source), "-o", str(compiled)]
        subprocess.run(compile_, check=True)
        symbols = subprocess.run(
            ["arm-none-eabi-nm", "-S", str(compiled)], check=True, capture_output=True, text=True
        ).stdout
    for line in symbols.splitlines():
        _, size, _, name = line.split()
        yield name.removeprefix("size_of_"), int(size, 16)


def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{system}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
