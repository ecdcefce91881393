"""Images of real boards, built once for all tests, those with the same core in one directory.

The rooms are compiled alike for a core, so that a second board costs its port and a link.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from filelock import FileLock

from harness.config.board import load_board
from harness.files import data_directory
from harness.target.build import Firmware, build_directory, build_preset, source_digest

_DEADLINE_S = 280.0


def real_image(name: str) -> Firmware:
    """The image of a board as ``etharness build`` makes it, but for where it lies."""
    board, _ = load_board(name)
    assert board.build is not None
    source = data_directory("firmware_stub")
    build_id = source_digest(source)
    directory = build_directory(source, f"real-{board.cpu}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    image = directory / f"{name}-{build_id}.elf"
    with FileLock(f"{directory}.images.lock", timeout=_DEADLINE_S):
        if not image.exists():
            # What another board's preset has put there stays otherwise.
            (directory / "CMakeCache.txt").unlink(missing_ok=True)
            build_preset(source, board.build.preset, directory, {"ETD_BUILD_ID": build_id})
            part = image.with_suffix(".part")
            shutil.copy2(directory / board.build.image, part)
            part.replace(image)
    return Firmware(image, build_id, directory, board.build.preset)


def image_path(name: str) -> Path:
    return real_image(name).image
