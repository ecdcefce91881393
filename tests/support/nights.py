"""Plans of nights, written where a test wants them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import MODELS

PLAN = """
schema = 1
output = "out"
[[board]]
board = "native"
[[model]]
file = "small_int8.pte"
"""


def written_plan(folder: Path, text: str = PLAN, models: tuple[str, ...] = ("small_int8",)) -> Path:
    """A plan, with the models that it names beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        shutil.copy(MODELS / f"{model}.pte", folder)
    file = folder / "plan.toml"
    file.write_text(text)
    return file
