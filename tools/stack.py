"""A static bound of the stack that each function of tracer and link takes, from GCC's call graph.

Run without arguments to write the table into ``docs/library/stack.md``. GCC states the frame of
every function and its calls (``-fcallgraph-info=su``); the bound is the deepest path. What a
callback and the memory functions of libc take is not in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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
CALLBACK: Final = "__indirect_call"

_NODE: Final = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"')
_EDGE: Final = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
_FRAME: Final = re.compile(r"(\d+) bytes \((\w+)")


class Bound(NamedTuple):
    """The deepest path below a function.

    Attributes:
        size: Stack in bytes, without ``outside``.
        outside: Functions that it may call that are not in these files, and ``__indirect_call``.
    """

    size: int
    outside: frozenset[str]


def bounds(command: Sequence[str], files: Iterable[Path]) -> dict[str, Bound]:
    """Compile the files and return the bound of each of their functions by name.

    Raises:
        ValueError: A function calls itself, or its frame has no fixed size.
    """
    frames, calls = _call_graph(command, files)
    found: dict[str, Bound] = {}

    def bound(name: str, callers: tuple[str, ...]) -> Bound:
        if name in callers:
            raise ValueError(f"{name} calls itself: {' -> '.join([*callers, name])}")
        if name not in frames:
            return Bound(0, frozenset([name]))
        if name not in found:
            below = [bound(called, (*callers, name)) for called in sorted(calls.get(name, ()))]
            size = frames[name] + max((path.size for path in below), default=0)
            found[name] = Bound(size, frozenset().union(*(path.outside for path in below)))
        return found[name]

    return {name: bound(name, ()) for name in frames}


def _call_graph(
    command: Sequence[str], files: Iterable[Path]
) -> tuple[dict[str, int], dict[str, set[str]]]:
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        options = [f"-I{STUB / 'include'}", "-fcallgraph-info=su", "-c", *map(str, files)]
        subprocess.run([*command, *options], check=True, cwd=folder)
        for path in Path(folder).glob("*.ci"):
            text = path.read_text()
            for name, label in _NODE.findall(text):
                if (frame := _FRAME.search(label)) is not None:
                    if frame[2] not in ("static", "dynamic,bounded"):
                        raise ValueError(f"{name}: the size of its frame is not fixed")
                    frames[name] = int(frame[1])
            for caller, called in _EDGE.findall(text):
                calls.setdefault(caller, set()).add(called)
    return frames, calls


def files() -> list[Path]:
    """Return the sources of tracer, ETDump writer, frames, digests and serial rings."""
    folders = ("tracer", "etdump", "link", "serial")
    return sorted(path for name in folders for path in (STUB / "src" / name).glob("*.c"))


def entry_points() -> list[str]:
    """Return the functions that the public headers of these files declare."""
    names = ("etd_tracer.h", "etd_etdump.h", "etd_frame.h", "etd_sha256.h", "etd_serial.h")
    found: list[str] = []
    for name in names:
        text = (STUB / "include" / name).read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        found += re.findall(r"^[\w ]+?\*?(etd_\w+)\([^;{]*\);", text, re.MULTILINE)
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
