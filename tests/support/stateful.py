"""Networks with a state, as ``firmware_stub/models/export_steps.py`` exports them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from harness import read_bundled_program

FOLDER = Path(__file__).parents[1] / "fixtures/stateful"
NAMES = ("llama", "stream")
"""A decoder with cached keys and values, 8 steps; a recurrent network over frames, 6 steps."""


def bundled(name: str) -> Path:
    """The program with its steps as test sets."""
    return FOLDER / f"{name}.bpte"


def unpacked(name: str, folder: Path) -> tuple[Path, Path]:
    """Write the program, and a folder with its steps; return both."""
    contents = read_bundled_program(bundled(name).read_bytes())
    program, steps = folder / f"{name}.pte", folder / "steps"
    program.write_bytes(contents.program)
    shutil.rmtree(steps, ignore_errors=True)
    for test_set in contents.test_sets:
        for part, arrays in (("inputs", test_set.inputs), ("reference", test_set.expected)):
            place = steps / f"{test_set.index:03}" / part
            place.mkdir(parents=True)
            for number, array in enumerate(arrays):
                np.save(place / f"{number}.npy", array)
    return program, steps
