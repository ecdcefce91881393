"""Estimates of instructions: the fit, the measured data, and what inspect says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from benchmarks.instructions import (
    MeasuredCall,
    error_table,
    fit_operator,
    is_held_out,
    recorded_errors,
)
from harness.analyze.workload import Step
from tests.conftest import ROOT, CommandResult
from tests.support.programs import ProgramBuilder

Etharness = Callable[..., CommandResult]

MEASURED = sorted((ROOT / "boards/instructions").glob("*.json"))
LARGE = [file for file in MEASURED if file.stem != "cortex-m0"]
"""Of boards that have room for calls of every operator."""

SIZES = st.integers(1, 100_000)


def step(macs: int, elements: int, *, read: int = 0, of_type: str = "float32") -> Step:
    return Step(
        operator="aten::x.out",
        delegated=False,
        calls=1,
        macs=macs,
        elements=elements,
        bytes_read=read,
        bytes_written=0,
        chain=0,
        instruction=0,
        type=of_type,
        features=(1, macs, elements, read, 0, 0, 0, 0, 0, 0, 0),
    )


@given(
    call=st.integers(0, 2000),
    mac=st.integers(1, 60),
    element=st.integers(0, 200),
    sizes=st.lists(st.tuples(SIZES, SIZES), min_size=6, max_size=12, unique=True),
)
def test_a_fit_of_exact_instructions_is_close_everywhere(
    call: int, mac: int, element: int, sizes: list[tuple[int, int]]
) -> None:
    """It may leave out a term, but only one that hardly matters in what was measured."""
    samples = [MeasuredCall(step(m, e), call + mac * m + element * e) for m, e in sizes]
    found = fit_operator(samples)
    assert found is not None
    [terms] = found.types.values()
    assert min(terms.values()) > 0
    errors = [found.estimate(s.step) / s.instructions - 1 for s in samples]
    assert (sum(error**2 for error in errors) / len(errors)) ** 0.5 < 0.03


def test_one_size_says_nothing_about_others() -> None:
    assert fit_operator([MeasuredCall(step(0, 8), 100.0)] * 5) is None
    assert (
        fit_operator([MeasuredCall(step(0, 8), 80.0), MeasuredCall(step(0, 80), 800.0)]) is not None
    )


def test_the_work_of_a_number_has_no_size() -> None:
    found = fit_operator([MeasuredCall(step(0, 1), 140.0), MeasuredCall(step(0, 1), 150.0)])
    assert found is not None
    assert 140 < found.estimate(step(0, 1)) < 150


def test_types_have_instructions_of_their_own_and_lend_them_to_others() -> None:
    calls = [
        MeasuredCall(step(0, size, of_type=name), size * each)
        for name, each in (("float32", 50.0), ("int64", 20.0))
        for size in (10, 100)
    ]
    found = fit_operator(calls)
    assert found is not None
    expected = {"float32": 50, "int64": 20, "int16": 20, "bool": 50}
    for name, each in expected.items():
        assert found.estimate(step(0, 1000, of_type=name)) == pytest.approx(1000 * each)


@pytest.mark.parametrize("file", LARGE, ids=lambda file: file.stem)
def test_every_bundled_operator_has_an_estimate(file: Path) -> None:
    lines = (ROOT / "firmware_stub/src/kernels/operators.def").read_text().splitlines()
    names = {line.split('"')[1] for line in lines if line.startswith("ETD_OPERATOR(")}
    assert len(names) > 200
    measured = {name.partition(" ")[0] for name in json.loads(file.read_bytes())["operators"]}
    assert names - measured == set()


def test_the_page_states_the_errors_of_the_measured_data() -> None:
    assert error_table() in (ROOT / "docs/inspect.md").read_text()


def test_a_partial_fit_without_networks_that_are_held_back_has_no_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(LARGE[0].read_bytes()) | {"held_out": {}}
    (tmp_path / "instructions").mkdir()
    (tmp_path / "instructions/cortex-m3.json").write_text(json.dumps(data))
    monkeypatch.setattr("benchmarks.instructions.data_directory", lambda _name: tmp_path)
    assert f"| {len(data['fitted'])} | 0 | - | - | - |" in error_table()


@pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)
def test_the_stated_errors_are_those_of_the_recorded_calls(file: Path) -> None:
    """Of every network that is held back, with today's coefficients."""
    data, found = json.loads(file.read_bytes()), recorded_errors(file)
    assert found == pytest.approx(data["held_out"], abs=2e-4)
    assert all(map(is_held_out, found))
    assert not any(map(is_held_out, data["fitted"]))
    assert len(found) >= (15 if file.stem == "cortex-m0" else 60)


def estimates(etharness: Etharness, model: str | Path, *boards: str) -> list[dict[str, Any]]:
    """What inspect estimates for the first method of a model on each board, None if nothing."""
    options = [option for board in boards for option in ("--board", board)]
    [method, *_] = json.loads(etharness("inspect", model, *options, "--json").out)["methods"]
    return [board["estimate"] for board in method["boards"]]


@pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)
def test_measured_data_name_their_cpu_and_their_errors(file: Path, etharness: Etharness) -> None:
    data = json.loads(file.read_bytes())
    board = harness.Board.load(data["measured_on"])
    assert data["cpu"] == board.cpu == file.stem
    assert board.emulated_time
    assert not set(data["fitted"]) & set(data["held_out"])
    [found] = estimates(etharness, "kws_int8", data["measured_on"])
    assert (found["cpu"], found["measured_on"]) == (file.stem, data["measured_on"])
    assert found["networks"] == len(data["held_out"])
    assert 0 < found["median_error"] <= found["worst_error"]


def test_boards_with_other_kernels_have_no_estimate(etharness: Etharness) -> None:
    boards = ("native", "native-executorch", "esp32-s3-devkit")
    assert estimates(etharness, "kws_int8", *boards) == [None] * 3


def test_an_estimate_adds_up_and_names_what_it_leaves_out(
    etharness: Etharness, tmp_path: Path
) -> None:
    [found] = estimates(etharness, "kws_int8", "nucleo-f446re")
    assert found["unknown"] == []
    assert sum(item["calls"] for item in found["operators"]) == 16
    assert found["instructions"] == sum(item["instructions"] for item in found["operators"])
    builder = ProgramBuilder([0, 64])
    x, y = builder.tensor((4,), memory=(1, 0)), builder.tensor((4,), memory=(1, 16))
    builder.call("aten::frobnicate", x, y, y)
    (tmp_path / "strange.pte").write_bytes(builder.finish([x], [y]))
    [strange] = estimates(etharness, tmp_path / "strange.pte", "nucleo-f446re")
    assert strange["instructions"] == 0
    assert strange["unknown"] == ["aten::frobnicate.out"]


@pytest.mark.parametrize("scalar_type", [5, 15])
def test_types_that_kernels_do_not_compute_have_no_estimate(
    scalar_type: int, etharness: Etharness, tmp_path: Path
) -> None:
    """And `compare` states no difference to a program in float16 or bfloat16."""
    for name, kind in (("half", scalar_type), ("float", 6)):
        builder = ProgramBuilder([0, 128])
        x, y = (builder.tensor((8,), memory=(1, at), scalar_type=kind) for at in (0, 64))
        builder.call("aten::relu", x, y, y)
        (tmp_path / f"{name}.pte").write_bytes(builder.finish([x], [y]))
    [half] = estimates(etharness, tmp_path / "half.pte", "nucleo-f446re")
    assert (half["instructions"], half["unknown"]) == (0, ["aten::relu.out"])
    shown = etharness("inspect", tmp_path / "half.pte", "--board", "nucleo-f446re").out
    assert "\n\nEstimated instructions on nucleo-f446re" in shown
    files = (tmp_path / "float.pte", tmp_path / "half.pte")
    [why] = json.loads(etharness("compare", *files, "--json").out)["why"]
    assert [cause["kind"] for cause in why["causes"]] == ["dtype"]
    assert why["after"] is why["causes"][0]["difference"] is None
    assert any(note.endswith("1 operator without an estimate") for note in why["notes"])


def test_inspect_estimates_for_the_boards_it_is_asked_about(etharness: Etharness) -> None:
    code, out, _ = etharness(
        "inspect", "kws_int8", "--board", "qemu-mps2-an386", "--board", "native"
    )
    assert code == 0
    assert "Estimated instructions on qemu-mps2-an386 (cortex-m4, bundled C kernels)" in out
    assert "networks that were not fitted were off by" in out
    assert "native: no estimate of instructions: its CPU was not measured" in out
    assert "stimate" not in etharness("inspect", "kws_int8").out
    boards = ("--board", "qemu-mps2-an386", "--board", "native")
    [method] = json.loads(etharness("inspect", "kws_int8", *boards, "--json").out)["methods"]
    measured, unmeasured = (board["estimate"] for board in method["boards"])
    assert unmeasured is None
    assert measured["instructions"] > method["macs"]
    assert measured["median_error"] <= measured["worst_error"]


@pytest.mark.parametrize(
    ("model", "variants"),
    [
        ("kws_f32", {"", "depthwise", "pointwise"}),
        ("kws_int8", {"", "pointwise", "of one channel"}),
    ],
)
def test_convolutions_have_variants(model: str, variants: set[str], etharness: Etharness) -> None:
    [found] = estimates(etharness, model, "nucleo-f446re")
    names = [item["operator"] for item in found["operators"] if "conv" in item["operator"]]
    assert {name.partition(" ")[2] for name in names} == variants


def test_an_estimate_of_dynamic_shapes_is_an_upper_bound(etharness: Etharness) -> None:
    [found] = estimates(etharness, "dynamic", "qemu-mps2-an386")
    assert found["dynamic"]
    assert ": at most " in etharness("inspect", "dynamic", "--board", "qemu-mps2-an386").out
    assert not estimates(etharness, "kws_int8", "qemu-mps2-an386")[0]["dynamic"]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (["3x6"], "1 shape for the 2 inputs of method 'forward': float32[8, 6]?, int64[8]?"),
        (["9x6", "3"], "--input-shape 9x6 does not fit input 0 of 'forward', float32[8, 6]?"),
        (["3x5", "3x1"], "--input-shape 3x1 does not fit input 1"),
        (["3by6", "3"], "--input-shape '3by6' is no shape"),
    ],
)
def test_shapes_that_inputs_cannot_have_are_refused(
    shapes: list[str], words: str, etharness: Etharness
) -> None:
    options = [option for shape in shapes for option in ("--input-shape", shape)]
    ended = etharness("inspect", "dynamic", *options)
    assert ended.code == 2
    assert words in ended.err
