"""Networks of the zoo that were not fitted: exported again, run, and held against the recording.

`benchmarks.instructions` records them. A seeded sample, with other networks on each core.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import harness
from benchmarks.instructions import RECORDED, is_held_out
from tests.conftest import CommandResult
from tests.support.zoo import run, script

pytestmark = pytest.mark.oracle
Etharness = Callable[..., CommandResult]

RECORDING = json.loads(RECORDED.read_text())
QUICK = [
    name
    for name, member in script()["MEMBERS"].items()
    if is_held_out(name) and name in RECORDING and member.runs == 1
]


@pytest.mark.parametrize("board", ["qemu-mps2-an385", "qemu-mps3-an547"])
def test_networks_that_are_held_back_take_what_is_recorded(
    board: str, etharness: Etharness, tmp_path: Path
) -> None:
    cpu = harness.Board.load(board).cpu
    for name in random.Random(board).sample(QUICK, 2):
        ended = run(board, name, tmp_path / name)
        rows = ended.trace.name == ended.trace.names.index("OPERATOR_CALL")
        ticks = int(harness.durations(ended.trace)[rows].sum())
        measured = ticks * 1e9 / float(ended.trace.clocks[0].hz)
        assert measured == pytest.approx(sum(c[3][cpu] for c in RECORDING[name]), rel=0.03), name
        out = etharness("inspect", tmp_path / name / "model.pte", "--board", board, "--json").out
        [method] = json.loads(out)["methods"]
        [estimate] = [each["estimate"] for each in method["boards"]]
        assert abs(estimate["instructions"] / measured - 1) <= estimate["worst_error"] + 0.01, name
