"""Every advice, followed: the second network of each pair is the first with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness
from tests.conftest import ROOT, CommandResult

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

PAIRS = ROOT / "tests/fixtures/advice"
M3, M4, M55 = "qemu-mps2-an385", "qemu-mps2-an386", "qemu-mps3-an547"
CASES = {
    "groups": (M55, "one group instead of 2"),
    "depthwise": (M55, "16 channels instead of 15"),
    "layout": (M4, "torch.channels_last"),
    "chain": (M3, "torch.channels_last: this and 2 more convolutions then compute in int8"),
    "norm": (M3, "fuse_conv_bn_eval"),
    "linear": (M4, "preserve_ops"),
    "square": (M4, "x * x"),
    "division": (M3, "reciprocal"),
    "activation": (M3, "SiLU"),
    "bound": (M4, "nn.ReLU instead of clamp_min"),
    "reshaping": (M4, "the activation before the reshaping"),
    "pool": (M3, "the activation behind the maximum pool"),
    "edges": (M55, "padding_mode='zeros'"),
    "scratch": (M3, "padding_mode='zeros'"),
}
"""By pair: the board that tries it, and what the advice says."""


def instructions(model: str, board: str, folder: Path) -> float:
    """Instructions of all operators on a board that counts them as nanoseconds."""
    trace = harness.run(PAIRS / f"{model}.pte", board=board, output=folder / model).trace
    rows = trace.name == trace.names.index("OPERATOR_CALL")
    return int(harness.durations(trace)[rows].sum()) * 1e9 / float(trace.clocks[0].hz)


def advice(etharness: Etharness, folder: Path) -> list[dict[str, Any]]:
    """What the report of a run advises."""
    [run] = json.loads(etharness("report", folder, "--json").out)["runs"]
    return list(run.get("sections", {}).get("advice", {}).get("operators", []))


@pytest.mark.parametrize("name", CASES)
def test_an_advice_that_is_followed_saves_what_it_says(
    name: str, etharness: Etharness, tmp_path: Path
) -> None:
    board, words = CASES[name]
    before, after = (instructions(model, board, tmp_path) for model in (name, f"{name}_advised"))
    [found] = advice(etharness, tmp_path / name)
    worth = found["cores"][harness.Board.load(board).cpu]
    assert words in worth["attempt"]
    assert found["counted"] == "instructions"
    assert found["measured"] == pytest.approx(worth["instructions"], rel=0.5)
    assert before - after == pytest.approx(worth["saved"], rel=0.2)
    assert worth["of_all"] == pytest.approx((before - after) / before, rel=0.2)
    assert words not in str(advice(etharness, tmp_path / f"{name}_advised"))
    for report in ("run.md", "run.html"):
        etharness("report", tmp_path / name, "-o", tmp_path / report)
        assert "Advice on the slowest operators" in (tmp_path / report).read_text()


def test_a_damaged_record_is_an_error_that_names_it(etharness: Etharness, tmp_path: Path) -> None:
    file = tmp_path / "linear/result.json"
    instructions("linear", M4, tmp_path)
    result = json.loads(file.read_text())
    del result["files"], result["digest"]  # as earlier versions wrote it
    result["model"]["sections"]["advice"] = {"core": ""}
    file.write_text(json.dumps(result))
    ended = etharness("report", tmp_path / "linear")
    assert ended.code == 2
    assert "the run's advice is invalid" in ended.err
    assert "run the model again" in ended.err
