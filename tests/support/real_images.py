"""Images of real boards, built once for all tests, those with the same core in one directory.

The rooms are compiled alike for a core, so that a second board costs its port and a link.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from filelock import FileLock

import harness
from harness import Firmware
from harness.decode.pte import ModelFile
from harness.runs.loading import place_model
from harness.target.build import PLACED_TARGET, build_directory, build_preset, source_digest
from tests.conftest import ROOT

_DEADLINE_S = 800.0


def real_image(name: str, model: Path | None = None, *, upload: int = 0) -> Firmware:
    """The image of a board as ``etharness build`` makes it, but for where it lies.

    With ``model`` it holds that model, and ``upload`` bytes of room for others.
    """
    board = harness.Board.load(name)
    assert board.build is not None
    source = ROOT / "firmware_stub"
    sources = build_id = source_digest(source)
    directory = build_directory(source, f"real-{board.cpu}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    built, target, placed = board.build.image, "firmware", None
    if model is not None:
        placed = place_model(ModelFile(model, model.read_bytes()), board, upload=upload)
        built = target = PLACED_TARGET
        build_id = placed.build_id(sources)
    image = directory / f"{name}-{build_id}.elf"
    with FileLock(f"{directory}.images.lock", timeout=_DEADLINE_S):
        if not image.exists():
            # What another board's preset has put there stays otherwise.
            (directory / "CMakeCache.txt").unlink(missing_ok=True)
            options = {"ETD_BUILD_ID": sources}
            if placed is not None:
                options |= placed.options(sources, directory / "placed_model.pte")
            build_preset(source, board.build.preset, directory, options, target)
            part = image.with_suffix(".part")
            shutil.copy2(directory / built, part)
            part.replace(image)
    return Firmware(image, build_id, directory, board.build.preset, placed)


def image_path(name: str) -> Path:
    return real_image(name).image
