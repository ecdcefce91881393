"""Estimated instructions against boards that count them, for networks that were not fitted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from tests.conftest import ROOT, CommandResult

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

MEASURED = sorted((ROOT / "boards/instructions").glob("*.json"))
OTHERS = ("vww", "ic", "npu", "methods")
"""Networks that take seconds of an emulator, have delegates, or several methods."""


@pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)
def test_the_stated_error_holds_for_networks_that_were_held_back(
    file: Path, etharness: Etharness, tmp_path: Path
) -> None:
    data = json.loads(file.read_bytes())
    names = [n for n in data["held_out"] if n in harness.packaged_models()]
    small = [name for name in names if not name.startswith(OTHERS)]
    board = data["measured_on"]
    for name in random.Random(file.stem).sample(small, 2):
        run = harness.run(name, board=board, output=tmp_path / name)
        rows = run.trace.name == run.trace.names.index("OPERATOR_CALL")
        ticks = int(harness.durations(run.trace)[rows].sum())
        measured = ticks * 1e9 / float(run.trace.clocks[0].hz)
        [method, *_] = json.loads(etharness("inspect", name, "--board", board, "--json").out)[
            "methods"
        ]
        [estimate] = [each["estimate"] for each in method["boards"]]
        assert estimate["unknown"] == []
        error = estimate["instructions"] / measured - 1
        assert abs(error) <= estimate["worst_error"] + 0.01, name
        assert error == pytest.approx(data["held_out"][name], abs=0.1), "measure again"
