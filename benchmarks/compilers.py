"""Compile tracer and link for each core, by GCC and Clang, and state the tracer's sizes.

    python -m benchmarks.compilers     # writes the table of docs/library/compilers.md

Clang takes the C library's headers of GCC's toolchain. It has no run-time library for the cores
here, so objects must not need one of its functions for atomic access.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from firmware_stub.packages.library import parts

STUB: Final = Path(__file__).resolve().parents[1] / "firmware_stub"
PAGE: Final = STUB.parent / "docs/library/compilers.md"
MARK: Final = "<!-- The table below is written by benchmarks/compilers.py. -->\n"
WARNINGS: Final = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SECTIONS: Final = ("-ffunction-sections", "-fdata-sections")
VARIANTS: Final = {
    "os": ("-Os",),
    "oz": ("-Oz", "-fshort-enums"),
    "lto": ("-O2", "-flto"),
}


class Options(NamedTuple):
    """Options of both compilers for a core."""

    gcc: tuple[str, ...]
    clang: tuple[str, ...]


def _arm(cpu: str, architecture: str, fpu: str = "none") -> Options:
    hard = ("-mfloat-abi=hard",) if fpu != "none" else ("-mfloat-abi=soft",)
    target = f"--target={architecture}-none-eabi"
    clang = (target, f"-mcpu={cpu.partition('+')[0]}", f"-mfpu={fpu}", *hard)
    return Options((f"-mcpu={cpu}", "-mthumb", *hard), clang)


_RISCV: Final = ("-march=rv32imac", "-mabi=ilp32")
_SMALL: Final = ("-march=rv32imc", "-mabi=ilp32")
CORES: Final = {
    "Cortex-M0": _arm("cortex-m0", "thumbv6m"),
    "Cortex-M0+": _arm("cortex-m0plus", "thumbv6m"),
    "Cortex-M23": _arm("cortex-m23", "thumbv8m.base"),
    "Cortex-M3": _arm("cortex-m3", "thumbv7m"),
    "Cortex-M4, no FPU": _arm("cortex-m4+nofp", "thumbv7em"),
    "Cortex-M4F": _arm("cortex-m4", "thumbv7em", "fpv4-sp-d16"),
    "Cortex-M7": _arm("cortex-m7", "thumbv7em", "fpv5-d16"),
    "Cortex-M33, no FPU": _arm("cortex-m33+nofp", "thumbv8m.main"),
    "Cortex-M33": _arm("cortex-m33", "thumbv8m.main", "fpv5-sp-d16"),
    "Cortex-M55": _arm("cortex-m55", "thumbv8.1m.main", "fp-armv8-fullfp16-d16"),
    "RV32IMAC": Options(_RISCV, ("--target=riscv32-none-elf", *_RISCV)),
    "RV32IMC": Options(_SMALL, ("--target=riscv32-none-elf", *_SMALL)),
}


@cache
def headers(tool: str, *options: str) -> tuple[str, ...]:
    """Return the folders of C headers of a GCC, apart from its own."""
    command = [tool, *options, "-E", "-v", "-x", "c", "/dev/null"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    listed = said.partition("search starts here:\n#include <...>")[2].partition("End of search")[0]
    own = str(Path(_gcc_folder(tool)).resolve())
    found = [str(Path(line.strip()).resolve()) for line in listed.splitlines()[1:]]
    return tuple(path for path in found if not path.startswith(own))


@cache
def _gcc_folder(tool: str) -> str:
    command = [tool, "-print-libgcc-file-name"]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return str(Path(name.strip()).parent)


def compiled(core: str, compiler: str, variant: str, folder: Path) -> list[Path]:
    """Compile tracer and link into a folder and return the objects."""
    folder.mkdir(parents=True, exist_ok=True)
    options = CORES[core]
    arm = options.gcc[0].startswith("-mcpu")
    tool = "arm-none-eabi-gcc" if arm else "riscv64-unknown-elf-gcc"
    library = () if arm else ("--specs=picolibc.specs",)
    if compiler == "gcc":
        command = [tool, *options.gcc, *library]
    else:
        folders = headers(tool, *options.gcc, *library)
        command = ["clang", *options.clang, *(f"-isystem{path}" for path in folders)]
    command += [*WARNINGS, *SECTIONS, *VARIANTS[variant], f"-I{STUB / 'include'}", "-c"]
    sources = [str(STUB / path) for part in ("tracer", "link") for path in parts()[part]]
    subprocess.run([*command, *sources], check=True, cwd=folder)
    return sorted(folder.glob("*.o"))


def helpers(objects: Sequence[Path]) -> list[str]:
    """Return the functions for atomic access that objects need, and no C library has."""
    command = ["arm-none-eabi-nm", "--undefined-only", *map(str, objects)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in said.split() if name.startswith(("__atomic", "__sync"))]


def text_size(core: str, compiler: str, variant: str) -> int:
    """Return the bytes of code of the tracer's core, ``src/tracer``."""
    with tempfile.TemporaryDirectory() as folder:
        objects = compiled(core, compiler, variant, Path(folder))
        core_files = {path.stem for path in (STUB / "src/tracer").glob("*.c")}
        chosen = [str(path) for path in objects if path.stem in core_files]
        command = ["arm-none-eabi-size", *chosen]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[0]) for line in said.splitlines()[1:])


def table(sizes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield the rows of the page."""
    yield "| core | GCC -Os | GCC -Oz | Clang -Os | Clang -Oz |"
    yield "|---|---|---|---|---|"
    for core, columns in sizes.items():
        yield f"| {core} | " + " | ".join(map(str, columns)) + " |"


def main() -> None:
    """Replace the table of the page."""
    sizes = {
        core: [
            text_size(core, compiler, variant)
            for compiler in ("gcc", "clang")
            for variant in ("os", "oz")
        ]
        for core in CORES
    }
    before = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(before + MARK + "\n" + "\n".join(table(sizes)) + "\n")


if __name__ == "__main__":
    main()
