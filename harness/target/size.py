"""Firmware size: text, data and bss of each source folder and of the linked image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import InfrastructureError
from harness.records.result import FirmwareSize
from harness.resources import data_directory
from harness.target.build import Firmware, compiler_for
from harness.target.process_group import run_program

ROOMS = (
    "tracer",
    "etdump",
    "link",
    "serial",
    "postmortem",
    "server",
    "runtime",
    "kernels",
    "delegates",
)
"""Folders of ``firmware_stub/src``, in the order of their dependencies."""

_DEADLINE_S = 30.0


def firmware_sizes(firmware: Firmware, preset: str) -> Iterator[FirmwareSize]:
    """Yield the size of each folder (the sum of its unlinked objects), then of the image.

    The linker drops unused functions, and adds the port, libc and libm.

    Raises:
        InfrastructureError: The toolchain's ``size`` failed.
    """
    program = _program(preset)
    for room in ROOMS:
        compiled = (firmware.directory / "CMakeFiles/rooms.dir/src" / room).iterdir()
        # Objects of sources that were renamed or removed since stay in the build directory.
        sources = data_directory("firmware_stub") / "src" / room
        objects = [
            path
            for path in compiled
            if path.suffix in (".o", ".obj") and (sources / path.stem).is_file()
        ]
        yield _total(room, _measure(program, objects))
    yield image_size(firmware, preset)


def image_size(firmware: Firmware, preset: str) -> FirmwareSize:
    """Return the size of the linked image.

    Raises:
        InfrastructureError: The toolchain's ``size`` failed.
    """
    return _total("image", _measure(_program(preset), [firmware.image]))


def _program(preset: str) -> str:
    """Return the name of ``size`` in the toolchain of ``preset``."""
    compiler, _ = compiler_for(preset)
    toolchain = compiler.removesuffix("gcc") if compiler.endswith("-gcc") else ""
    return f"{toolchain}size"


def _measure(program: str, files: Sequence[Path]) -> list[list[int]]:
    """Return rows of text, data and bss, as printed by ``size`` in Berkeley format."""
    command = [program, *map(str, files)]
    try:
        done = run_program(command, _DEADLINE_S)
    except OSError as error:
        raise InfrastructureError(f"cannot measure the firmware: {error}") from error
    if done.code != 0:
        raise InfrastructureError(f"cannot measure the firmware: {program} {done.how}")
    lines = done.stdout.decode(errors="replace").splitlines()
    return [[int(cell) for cell in line.split()[:3]] for line in lines[1:]]


def _total(part: str, rows: list[list[int]]) -> FirmwareSize:
    return FirmwareSize(part, *(sum(column) for column in zip(*rows, strict=True)))
