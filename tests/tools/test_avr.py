"""The Arduino library built by Arduino's own builder, and on an 8-bit CPU, simulated."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_stub.packages.__main__ import write
from harness import Kind, Trace, read_ed00, read_log

pytestmark = pytest.mark.tools

PROGRAM = Path(__file__).with_name("portable.c")
CORES = "/usr/share/arduino/hardware"
BUILDER = "/usr/share/arduino-builder"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def sh(*command: str | Path, cwd: Path) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def simulated(chip: str, program: Path) -> Iterator[str]:
    """The lines that a program sends by its UART, which simavr shows in colour, with dots."""
    command = ["simavr", "-m", chip, "-f", "16000000", str(program)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if shown := re.match(r"(?:\x1b\[\d*m)+(.+?)\.*$", line):
                    yield shown[1]
        finally:
            process.kill()  # a sketch has no end


@pytest.mark.parametrize(
    ("board", "chip"),
    [("arduino:avr:uno", "atmega328p"), ("arduino:avr:mega:cpu=atmega2560", "atmega2560")],
    ids=["uno", "mega"],
)
def test_arduino_builds_the_example_and_it_runs(board: str, chip: str, tmp_path: Path) -> None:
    write("arduino", tmp_path / "libraries/etdump")
    [sketch] = (tmp_path / "libraries").rglob("*.ino")
    (tmp_path / "b").mkdir()
    said = sh(
        *("arduino-builder", "-compile", "-fqbn", board, "-warnings", "all"),
        *("-hardware", CORES, "-hardware", BUILDER, "-tools", BUILDER),
        *("-libraries", tmp_path / "libraries", "-build-path", tmp_path / "b"),
        # Debian's compiler is older than Arduino's core, and has this only in C.
        "-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=__DECIMAL_DIG__",
        sketch,
        cwd=tmp_path,
    )
    assert "Sketch uses" in said
    assert "libraries/etdump" not in said  # no warning, nor a wrong property
    size = next(simulated(chip, tmp_path / "b/Scopes.ino.elf"))
    assert int(size) > 3 * 16


def bytes_of(lines: list[str], kind: str) -> bytes:
    return b"".join(bytes.fromhex(line[2:]) for line in lines if line.startswith(f"{kind} "))


def names(trace: Trace) -> list[str | None]:
    return [trace.text(int(name)) for name in trace.name[trace.kind == Kind.PROFILE]]


def test_an_8_bit_cpu_logs_and_sends_the_same_bytes(tmp_path: Path) -> None:
    write("arduino", tmp_path / "etdump")
    include = f"-I{tmp_path / 'etdump/src'}"
    sources = [*sorted((tmp_path / "etdump/src").rglob("*.c")), PROGRAM]
    sources = [path for path in sources if path.name != "serial.c"]
    sh("gcc", "-std=gnu11", *WARNINGS, include, *sources, "-o", "here", cwd=tmp_path)
    avr = ("avr-gcc", "-mmcu=atmega2560", "-std=gnu11", "-Os", "-ffunction-sections")
    sh(*avr, *WARNINGS, "-Wl,--gc-sections", include, *sources, "-o", "there.elf", cwd=tmp_path)
    here = sh(tmp_path / "here", cwd=tmp_path).splitlines()
    there = [line for line in simulated("atmega2560", tmp_path / "there.elf") if line[1] == " "]
    assert there == here
    log = read_log(bytes_of(there, "L"))
    assert names(log).count("step") == 3
    assert int(log.end.max()) > 2**31
    assert names(read_ed00(bytes_of(there, "E"))) == names(log)
