"""Programs that use what the networks do not: PyTorch's numbers on both simulated boards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.inspector import Inspector
from tests.conftest import MODELS, CommandResult
from tests.support.features import CASES, Case

pytestmark = pytest.mark.sim
BOARDS = ["native", "qemu-mps2-an385"]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("board", BOARDS)
def test_outputs_are_pytorchs(board: str, case: Case, tmp_path: Path) -> None:
    outcome = case.run(board, tmp_path)
    assert outcome.result.runs_completed == case.runs
    case.compare(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("arenas", {"planned_1": 112, "planned_2": 32}),
        ("unplanned", {"planned_1": 80, "unplanned": 96}),
    ],
)
def test_each_arena_is_an_allocator(name: str, expected: dict[str, int], tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.feature == name)
    outcome = case.run("native", tmp_path)
    totals = {allocator.label: allocator for allocator in outcome.allocators()}
    method = totals.pop("method")
    assert {name: allocator.total_bytes for name, allocator in totals.items()} == expected
    model = outcome.result.model
    assert model is not None
    assert sum(expected.values()) == model.planned_bytes
    assert 0 <= model.method_bytes - method.total_bytes < 16 * method.count


def test_an_input_beyond_its_bound_is_refused_with_the_bound(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    model, rows = MODELS / "dynamic.pte", tmp_path / "rows.npy"
    index = tmp_path / "index.npy"
    arguments = ("run", "--board", "native", "--model", model, "-o", tmp_path / "run")
    for shape, code in (((9, 6), 2), ((3, 7), 2), ((3,), 2), ((3, 6), 0)):
        np.save(rows, np.zeros(shape, np.float32))
        np.save(index, np.zeros(shape[0], np.int64))
        done = etharness(*arguments, "--input", rows, "--input", index)
        assert done.code == code
        assert code == 0 or "must be float32[8, 6] at most, but the file has" in done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["model"]["inputs"][0]["sizes"] == [3, 6]
    assert result["model"]["outputs"][0]["sizes"] == [3]


def test_scalars_stay_scalars_wherever_they_go(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    """As files, against references, as logged values, in Inspector and in a bundle."""
    [case] = [case for case in CASES if case.feature == "scalars"]
    home = tmp_path / "home"
    home.mkdir()
    arguments = ["--values", "outputs", "--report", tmp_path / "bundle.zip"]
    for option, arrays in (("input", case.inputs), ("reference", case.outputs)):
        for number, array in enumerate(arrays):
            path = home / f"{option}{number}.npy"
            np.save(path, array)
            arguments += [f"--{option}", path]
    model, run = MODELS / "scalars.pte", home / "run"
    done = etharness("run", "--board", "native", "--model", model, "-o", run, *arguments)
    assert done.code == 0, done.err
    assert [np.load(path).shape for path in sorted(run.glob("outputs/*.npy"))] == [()] * 3
    assert [np.load(path).shape for path in sorted(run.glob("inputs/*.npy"))] == [(2, 3), ()]
    assert etharness("check", run).code == 0

    [block] = [block for block in Inspector(run).event_blocks if block.name == "Execute"]
    assert [tuple(value.shape) for value in block.run_output] == [()] * 3
    for value, expected in zip(block.run_output, case.outputs, strict=True):
        np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-5)

    shutil.rmtree(home)
    replayed = etharness("replay", tmp_path / "bundle.zip")
    assert replayed.code == 0, replayed.out
    assert "identical to the verdict of" in replayed.out

    wrong = [value + 1 for value in case.outputs]
    for number, array in enumerate(wrong):
        np.save(tmp_path / f"{number}.npy", array)
    options = [f"--reference={tmp_path / f'{number}.npy'}" for number in range(len(wrong))]
    failed = etharness("run", "--board", "native", "--model", model, "-o", run, *options)
    assert failed.code == 1
    assert "1 of 1 element differs" in failed.out


def test_the_command_line_chooses_the_method(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    model, run = MODELS / "methods.pte", tmp_path / "run"
    arguments = ("run", "--board", "native", "--model", model, "-o", run)
    shapes = {}
    for method in ("encode", "forward"):
        assert etharness(*arguments, "--method", method).code == 0
        shapes[method] = np.load(run / "outputs" / "0.npy").shape
        assert json.loads((run / "result.json").read_text())["model"]["method"] == method
    assert shapes == {"encode": (1, 3), "forward": (1, 8)}

    refused = etharness(*arguments, "--method", "decode")
    assert refused.code == 2
    assert "methods.pte has no method 'decode'" in refused.err
    assert "select one with --method: encode, forward" in refused.err
