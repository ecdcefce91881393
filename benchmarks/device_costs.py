"""What the tracer's calls cost on cores: cycles where they are known, else instructions.

    python -m benchmarks.device_costs                    # writes it to docs/measurements.md
    python -m benchmarks.device_costs --before REVISION  # prints both, measured in one run
    python -m benchmarks.device_costs m0+ m3             # prints the costs on these cores

A small program without a C library's start-up logs events in each way and reads the core's
counter. Cycles of a Cortex-M0+ are rp2040js's (`tools/setup tools` installs it), those of RISC-V
come from the RTL of CV32E40P and Ibex. Elsewhere QEMU counts instructions. All code and data are in
RAM without wait states. The costs of ExecuTorch's adapter are measured where its package is.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.library_sizes import replace_section
from harness.extensions.executorch.linking import find_executorch
from harness.extensions.simulators.rtl import build_simulator
from tests.support.rtl import CORES as RTL_CORES

ROOT: Final = Path(__file__).resolve().parents[1]
HERE: Final = Path(__file__).parent / "tracers"
MODULES: Final = ROOT / ".venv-tools/node_modules"
BRIDGE: Final = ROOT / "boards/rp2040js/bridge.mjs"
LIMIT_S: Final = 300.0
TITLE: Final = "## Cost of the tracer's calls"

SCENARIOS: Final = {
    "unnamed": "event without a name",
    "interned": "event, name interned before",
    "scope": "event, `ETD_SCOPE` with a name of 20 bytes",
    "fixed8": "event, 8 fixed names in turn",
    "fixed40": "event, 40 fixed names in turn",
    "named": "event, a name of 20 bytes",
    "names8": "event, 8 similar names in turn",
    "names40": "event, 40 similar names in turn",
    "names128": "event, 128 similar names in turn",
    "delegate": "delegate's event, integer id",
    "afterwards": "delegate's event, logged afterwards, name of 20 bytes",
    "allocation": "allocation",
    "any": "ExecuTorch's adapter: 11 names in turn, compared",
    "fixed": "ExecuTorch's adapter: the same, known as string literals",
}
CACHES: Final = (16, 32, 64, 128)
"""Values of `ETD_RECENT_NAMES` to compare."""
NAMES: Final = {
    "fixed40": "40 fixed names",
    "names40": "40 similar names",
    "names128": "128 similar names",
}
ENTRY_BYTES: Final = 8


class Core(NamedTuple):
    """A core, its compiler, and the machine that runs it."""

    title: str
    options: tuple[str, ...]
    origin: int
    machine: tuple[str, ...]
    counts_per_tick: int = 1

    @property
    def arm(self) -> bool:
        """Whether it is a Cortex-M."""
        return self.options[0].startswith("-mcpu")


def _qemu(machine: str) -> tuple[str, ...]:
    semihosting = ("-semihosting-config", "enable=on,target=native")
    return ("qemu-system-arm", "-M", machine, *semihosting, "-icount", "shift=0")


_RISCV: Final = ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs")
CORES: Final = {
    "m0+": Core("Cortex-M0+, cycles", ("-mcpu=cortex-m0plus",), 0x2000_0000, ("rp2040js",)),
    "cv32e40p": Core("CV32E40P, cycles", _RISCV, 0x8000_0000, ("rtl", "cv32e40p")),
    "ibex": Core("Ibex, cycles", _RISCV, 0x8000_0000, ("rtl", "ibex")),
    "m3": Core("M3, instructions", ("-mcpu=cortex-m3",), 0, _qemu("mps2-an385"), 40),
    "m4": Core("M4, instructions", ("-mcpu=cortex-m4+nofp",), 0, _qemu("mps2-an386"), 40),
    "m33": Core(
        "M33, instructions", ("-mcpu=cortex-m33+nofp",), 0x1000_0000, _qemu("mps2-an505"), 50
    ),
    "m55": Core("M55, instructions", ("-mcpu=cortex-m55",), 0, _qemu("mps3-an547"), 31),
}


def missing() -> str | None:
    """Return why nothing can be measured here, if so."""
    if not (MODULES / "rp2040js").is_dir():
        return "rp2040js is not installed: tools/setup tools"
    return None


def build(
    core: Core,
    source: Path,
    work: Path,
    executorch: Path | None = None,
    program: Path = HERE / "costs_adapter.cpp",
) -> Path:
    """Compile the program with the tracer of a source tree.

    ``executorch``: build ``program``, for ExecuTorch's adapter, with the headers of this package.
    """
    prefix = "arm-none-eabi-" if core.arm else "riscv64-unknown-elf-"
    options = [*core.options, *(["-mthumb", "--specs=nosys.specs"] if core.arm else [])]
    options += ["-Os", "-ffunction-sections", f"-I{source / 'include'}", f"-I{HERE}"]
    image = work / "costs.elf"
    objects: list[Path] = []
    if executorch is not None:
        headers = executorch / "include"
        objects = [work / "adapter.o"]
        command = [
            *(f"{prefix}g++", *options, "-std=c++17", "-fno-exceptions", "-fno-rtti"),
            *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
            *(f"-I{source / 'executorch'}", "-isystem", str(headers), "-isystem"),
            str(headers / "executorch/runtime/core/portable_type/c10"),
            *("-c", str(program), "-o", str(objects[0])),
        ]
        subprocess.run(command, check=True)
    sources = [HERE / "costs_machine.c", *sorted((source / "src/tracer").glob("*.c"))]
    command = [
        *(f"{prefix}gcc", *options, "-std=gnu11", f"-DCOUNTS_PER_TICK={core.counts_per_tick}u"),
        *("-nostartfiles", "-Wl,--gc-sections", f"-Wl,--defsym=origin={core.origin:#x}"),
        # There are only headers of ExecuTorch: what logs values is not linked, and not called.
        *(["-Wl,--unresolved-symbols=ignore-all"] if objects else []),
        *("-Wl,--no-warn-rwx-segments", f"-T{HERE / 'costs.ld'}"),
        *map(str, [*sources, *(objects or [HERE / "costs.c"])]),
        *("-o", str(image)),
    ]
    subprocess.run(command, check=True)
    return image


def costs(core: Core, image: Path) -> dict[str, int]:
    """Run an image and return what it measured, by scenario.

    Raises:
        ValueError: It did not get to its end.
    """
    if core.machine[0] == "rp2040js":
        text = _run(["node", str(BRIDGE), str(image)])
    elif core.machine[0] == "rtl":
        text = _simulate(build_simulator(RTL_CORES[RTL_CORES.index(core.machine[1])]), image)
    else:
        text = _run([*core.machine, "-display", "none", "-nodefaults", "-kernel", str(image)])
    if not text.endswith("end\n"):
        raise ValueError(f"{core.title}: the program did not end: {text}")
    return {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}


def _simulate(simulator: Path, image: Path) -> str:
    """Return what an image sends on the UART of the testbench, up to its end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        link = f"127.0.0.1:{server.getsockname()[1]}"
        command = [str(simulator), "--image", str(image), "--link", link]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                line, _ = server.accept()
                line.settimeout(LIMIT_S)
                received = b""
                while b"end\n" not in received and (part := line.recv(4096)):
                    received += part
                line.close()  # the simulator ends
            finally:
                process.terminate()
    return received.decode()


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return done.stdout + done.stderr


def measured(source: Path, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the costs of a source tree's tracer, by core and scenario."""
    found: dict[str, dict[str, int]] = {}
    executorch = find_executorch()
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            core = CORES[name]
            found[name] = costs(core, build(core, source, Path(scratch)))
            if executorch is not None and core.arm:
                found[name] |= costs(core, build(core, source, Path(scratch), executorch))
    return found


def section() -> Iterator[str]:
    """The part of docs/measurements.md."""
    yield TITLE
    yield ""
    reason = missing()
    if reason:
        yield f"Not measured: {reason}."
        return
    yield "The table lists cycles of a Cortex-M0+ (rp2040js) and of two RISC-V cores (RTL), and"
    yield "instructions of other cores (QEMU). Code and data are in RAM without wait states. The"
    yield "two readings of the clock are not included."
    yield ""
    yield from table(measured(ROOT / "firmware_stub", list(CORES)))
    yield ""
    yield "A tracer remembers the pointers of 16 names and the hashes of 128 (`ETD_RECENT_NAMES`"
    yield "and `ETD_HASHED_NAMES` in `etd_tracer.h`). More names than the first are searched for."
    yield "More than the second are compared with all others of their length."
    yield ""
    yield from caches(("m0+", "m3"))


def caches(names: Sequence[str]) -> Iterator[str]:
    """Yield what events with many names cost, by the number of remembered pointers."""
    columns = [f"{meaning}, {CORES[name].title}" for meaning in NAMES.values() for name in names]
    yield "| `ETD_RECENT_NAMES` | bytes of RAM | " + " | ".join(columns) + " |"
    yield "|---|---|" + "---|" * len(columns)
    with tempfile.TemporaryDirectory() as scratch:
        for count in CACHES:
            found = {}
            for name in names:
                options = (*CORES[name].options, f"-DETD_RECENT_NAMES={count}u")
                core = CORES[name]._replace(options=options)
                found[name] = costs(core, build(core, ROOT / "firmware_stub", Path(scratch)))
            cells = [str(found[name][scenario]) for scenario in NAMES for name in names]
            yield f"| {count} | {count * ENTRY_BYTES} | " + " | ".join(cells) + " |"


def table(found: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a row per scenario, a column per core."""
    yield "| call | " + " | ".join(CORES[name].title for name in found) + " |"
    yield "|---|" + "---|" * len(found)
    for scenario, meaning in SCENARIOS.items():
        cells = (str(costs.get(scenario, "-")) for costs in found.values())
        yield f"| {meaning} | " + " | ".join(cells) + " |"


def main() -> None:
    """Replace the section of the page, or print the costs before and after."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--before", metavar="REVISION", help="also measure the tracer of this commit"
    )
    parser.add_argument("cores", nargs="*", metavar="CORE", help=f"of {', '.join(CORES)}")
    options = parser.parse_args()
    if reason := missing():
        raise SystemExit(reason)
    if not options.before and not options.cores:
        replace_section(TITLE, section())
        return
    names = options.cores or list(CORES)
    if options.before:
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch) / "before.tar"
            subprocess.run(
                ["git", "archive", "-o", archive, options.before, "firmware_stub"],
                check=True,
                cwd=ROOT,
            )
            subprocess.run(["tar", "-xf", archive, "-C", scratch], check=True)
            print(
                f"{options.before}:",
                *table(measured(Path(scratch) / "firmware_stub", names)),
                sep="\n",
            )
    print("now:", *table(measured(ROOT / "firmware_stub", names)), sep="\n")


if __name__ == "__main__":
    main()
