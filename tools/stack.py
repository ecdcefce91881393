"""A static bound of the stack that each function of the device library takes, by GCC's call graph.

Run without arguments to write the table into ``docs/library/stack.md``. GCC states the frame of
every function and its calls (``-fcallgraph-info=su``), Clang what a call through a pointer may
reach; the bound is the deepest path. What the caller's functions and those of libc take is not
in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from firmware_stub.packages.library import parts, sources
from tools.pointer_calls import CALLBACK, PointerCalls

ROOT: Final = Path(__file__).resolve().parents[1]
STUB: Final = ROOT / "firmware_stub"
PAGE: Final = ROOT / "docs/library/stack.md"
MARK: Final = "<!-- The table below is written by tools/stack.py. -->\n"

CORES: Final = {
    "Cortex-M0": ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"],
    "Cortex-M4F": [
        "arm-none-eabi-gcc",
        *("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    ],
    "RV32IMAC": [
        "riscv64-unknown-elf-gcc",
        *("-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"),
    ],
}
FLAGS: Final = ["-std=c11", "-Os", "-ffunction-sections", "-fdata-sections"]

HEADERS: Final = {
    "tracer": ("etd_tracer.h", "etd_etdump.h"),
    "link": ("etd_frame.h", "etd_sha256.h", "etd_serial.h"),
    "server": ("etd_server.h", "etd_postmortem.h"),
    "runtime": ("etd_runtime.h",),
}
"""Headers whose functions are in the table, by part of the library."""

_NODE: Final = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"')
_EDGE: Final = re.compile(
    r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"(?: label: "(.*?):(\d+):\d+")?'
)
_FRAME: Final = re.compile(r"(\d+) bytes \((\w+)")


class Bound(NamedTuple):
    """The deepest path below a function.

    Attributes:
        size: Stack in bytes, without ``outside``.
        outside: Functions that it may call that are not in these files, and ``__indirect_call``
            for functions of the caller's.
    """

    size: int
    outside: frozenset[str]


def bounds(command: Sequence[str], files: Sequence[Path]) -> dict[str, Bound]:
    """Compile the files and return the bound of each of their functions by name.

    Raises:
        ValueError: A function calls itself, its frame has no fixed size, or what a call through
            a pointer reaches is unknown.
    """
    options = [*command, f"-I{STUB / 'include'}"]
    with tempfile.TemporaryDirectory() as folder:
        compiled = [*options, "-fcallgraph-info=su", "-c", *map(str, files)]
        subprocess.run(compiled, check=True, cwd=folder)
        return built_bounds(Path(folder), PointerCalls(options, files))


def built_bounds(folder: Path, pointers: PointerCalls) -> dict[str, Bound]:
    """Return the bounds of everything that was compiled into a folder with ``-fcallgraph-info``.

    Raises:
        ValueError: As ``bounds``.
    """
    frames, calls = _call_graph(folder, pointers)
    found: dict[str, Bound] = {}

    def bound(name: str, callers: tuple[str, ...]) -> Bound:
        if name in callers:
            raise ValueError(f"{name} calls itself: {' -> '.join([*callers, name])}")
        if name not in frames:
            if ":" in name:  # a static function, which can be in no other file
                raise ValueError(f"{name} is not in the call graph")
            return Bound(0, frozenset([name]))
        if name not in found:
            below = [bound(called, (*callers, name)) for called in sorted(calls.get(name, ()))]
            size = frames[name] + max((path.size for path in below), default=0)
            found[name] = Bound(size, frozenset().union(*(path.outside for path in below)))
        return found[name]

    return {name: bound(name, ()) for name in frames}


def _call_graph(folder: Path, pointers: PointerCalls) -> tuple[dict[str, int], dict[str, set[str]]]:
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for path in folder.rglob("*.ci"):
        text = path.read_text()
        for name, label in _NODE.findall(text):
            if (frame := _FRAME.search(label)) is not None:
                if frame[2] not in ("static", "dynamic,bounded"):
                    raise ValueError(f"{name}: the size of its frame is not fixed")
                # Functions of a header are compiled into each file that uses them.
                frames[name] = max(int(frame[1]), frames.get(name, 0))
        for caller, called, file, line in _EDGE.findall(text):
            reached = frozenset([called])
            if called == CALLBACK:
                reached = pointers.callees(file, int(line))
            calls.setdefault(caller, set()).update(reached)
    return frames, calls


def files(*names: str) -> list[Path]:
    """Return the sources of these parts of the library; without names, of all."""
    return [STUB / path for path in sources(*(names or parts()))]


def entry_points(*names: str) -> list[str]:
    """Return the functions that the public headers of these parts declare; without names, all."""
    found: list[str] = []
    for header in (header for part in names or HEADERS for header in HEADERS[part]):
        text = (STUB / "include" / header).read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        found += re.findall(r"^\w[\w ]*?\*?(etd_\w+)\([^;{]*\);", text, re.MULTILINE)
    return found


def table() -> str:
    """Return the table as Markdown."""
    each = {core: bounds([*command, *FLAGS], files()) for core, command in CORES.items()}
    lines = ["| function | " + " | ".join(each) + " | calls a callback |"]
    lines.append("|---|" + "---|" * (len(each) + 1))
    for name in entry_points():
        sizes = " | ".join(str(found[name].size) for found in each.values())
        callback = any(CALLBACK in found[name].outside for found in each.values())
        lines.append(f"| `{name}` | {sizes} | {'yes' if callback else ''} |")
    compilers = sorted({_version(command[0]) for command in CORES.values()})
    return "\n".join([*lines, "", f"Bytes, compiled with -Os by {' and '.join(compilers)}.", ""])


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    return done.stdout.partition("\n")[0]


def main() -> int:
    """Write the table into the page."""
    head, mark, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(head + (mark or MARK) + "\n" + table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
