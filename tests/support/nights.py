"""Plans of nights, written where a test wants them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import NightDocument
from harness.records.nightly import alike
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


def causes_of(night: NightDocument) -> Iterator[dict[str, Any]]:
    """Why runs of a night that a test made up did not pass, for its document."""
    for (state, owner, why), same in alike(night.outcomes).items():
        runs = {"units": [o.step.unit for o in same], "runs": len(same)}
        yield {"state": state, "owner": owner or None, "why": why, "sentence": why, **runs}
