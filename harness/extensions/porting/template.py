"""Copies the template of a port, and writes a board file to fill in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import UsageError
from harness.files import data_directory, display_path, write_atomic

_BOARD_FILE: Final = """\
# FILL_IN: manual of the chip, wiring, crystal
schema = 1
name = "{name}"
description = "FILL_IN"
cpu = "FILL_IN" # as ETD_CPU in {port}/port.cmake
timer = {{ source = "FILL_IN", bits = 0, hz = 0 }} # FILL_IN: as port_target in {port}/{port}.c
memory = {{ ram = 0, code = 0 }} # FILL_IN: as in {port}/{port}.ld
build = {{ port = "{port}" }}
target = {{ kind = "serial", baud = 115_200 }} # or a simulator: docs/simulators.md
deadlines = {{ boot_s = 10, request_s = 5, execute_s = 60 }}
tested = "no"
"""


class BegunBoard(msgspec.Struct, frozen=True):
    """The files of a board that was begun, and how many places are to be filled in.

    Attributes:
        board: Name of the board.
        files: Places to fill in by file, which is relative to the chosen folder.
    """

    board: str
    files: dict[str, int]


def begin_board(name: str, directory: Path) -> BegunBoard:
    """Write the files of a new board into a directory.

    Raises:
        UsageError: The name is invalid, or one of the files exists.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name):
        raise UsageError(
            f"{name!r} is no name for a board", hint="use letters, digits and -, as in my-board"
        )
    port = re.sub(r"[^A-Za-z0-9]", "_", name)
    files = {directory / f"{name}.toml": _BOARD_FILE.format(name=name, port=port)}
    for source in sorted((data_directory("firmware_stub") / "ports/template").iterdir()):
        renamed = source.name.replace("template", port)
        files[directory / port / renamed] = source.read_text()
    for file in files:
        if file.exists():
            raise UsageError(
                f"{display_path(file)} already exists", hint="remove it, or choose another name"
            )
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text.encode())
    counts = {path.relative_to(directory): text.count("FILL_IN") for path, text in files.items()}
    return BegunBoard(name, {path.as_posix(): count for path, count in counts.items()})
