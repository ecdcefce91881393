"""Measure how large the parts of the device library are on three cores.

    python -m benchmarks.library_sizes

replaces that section of docs/measurements.md alone; ``benchmarks.measure`` writes it with the rest.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from firmware_stub.packages.library import parts
from tools.stack import CORES, FLAGS, STUB

PAGE = Path(__file__).resolve().parents[1] / "docs/measurements.md"
TITLE = "## The device library"


def section() -> Iterator[str]:
    """The part of docs/measurements.md."""
    yield TITLE
    yield ""
    yield "The table lists bytes of text / data / bss of the objects of each part"
    yield "(`docs/library/README.md`), compiled with -Os. The tracer includes the writer of"
    yield "ETDump files. The caller provides all RAM. Programs are smaller if the linker drops"
    yield "unused functions: the last row is the text size of a program that logs scopes and"
    yield "reads the log, without libc."
    yield ""
    yield "| part | " + " | ".join(CORES) + " |"
    yield "|---|" + "---|" * len(CORES)
    for part, files in parts().items():
        cells = (_objects(command, files) for command in CORES.values())
        yield f"| {part} | " + " | ".join(cells) + " |"
    yield "| a first log | " + " | ".join(_linked(command) for command in CORES.values()) + " |"


def _objects(command: Sequence[str], files: Sequence[Path]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(STUB / path) for path in files]
        options = [*FLAGS, "-ffp-contract=off", f"-I{STUB / 'include'}", "-c"]
        subprocess.run([*command, *options, *paths], check=True, cwd=folder)
        return _size(command, sorted(Path(folder).glob("*.o")))


_PROGRAM = """\
#include "etd_tracer.h"
static uint32_t now(void *context) { return *(volatile uint32_t *)context; }
void first_log(etd_tracer *tracer, uint8_t *log, uint32_t size, uint32_t *clock);
void first_log(etd_tracer *tracer, uint8_t *log, uint32_t size, uint32_t *clock) {
    etd_tracer_init(tracer, log, size, now, clock);
    etd_create_event_block(tracer, "Execute");
    etd_end_profiling(tracer, etd_start_profiling(tracer, "conv", 0, 1));
    (void)etd_log_read(tracer, 0, log, etd_log_size(tracer));
}
"""


def _linked(command: Sequence[str]) -> str:
    """What remains of the tracer, without the memory functions of libc."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "first.c").write_text(_PROGRAM)
        paths = ["first.c", *(str(STUB / path) for path in parts()["tracer"])]
        link = [
            "-nostdlib",
            "-Wl,--gc-sections",
            "-Wl,-e,first_log",
            "-Wl,--unresolved-symbols=ignore-all",
        ]
        command = [word for word in command if not word.startswith("--specs")]
        include = ["-isystem", *_system_headers(command)] if command[0].startswith("riscv") else []
        options = [*FLAGS, f"-I{STUB / 'include'}", *include, *link, "-o", "first.elf"]
        subprocess.run([*command, *options, *paths], check=True, cwd=folder)
        return _size(command, [Path(folder) / "first.elf"]).partition(" ")[0]


def _system_headers(command: Sequence[str]) -> list[str]:
    """Where picolibc has its headers: without its specs nothing is linked to it."""
    asked = [*command, "--specs=picolibc.specs", "-E", "-v", "-x", "c", "/dev/null"]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    return [
        line.strip() for line in done.stderr.splitlines() if "picolibc" in line and line[0] == " "
    ][-1:]


def _size(command: Sequence[str], files: Sequence[Path]) -> str:
    tool = command[0].removesuffix("gcc") + "size"
    done = subprocess.run([tool, *files], check=True, capture_output=True, text=True)
    rows = [line.split()[:3] for line in done.stdout.splitlines()[1:]]
    return " / ".join(str(sum(int(row[column]) for row in rows)) for column in range(3))


def main() -> None:
    """Replace the section of the page."""
    replace_section(TITLE, section())


def replace_section(wanted: str, lines: Iterator[str]) -> None:
    """Replace a section of docs/measurements.md, or append it."""
    before, title, rest = PAGE.read_text().partition(wanted)
    _, following, after = rest.partition("\n## ")
    text = "\n".join(lines) + "\n"
    if not title:
        before, text = before + "\n", text
    PAGE.write_text(before + text + (following + after if following else ""))


if __name__ == "__main__":
    main()
