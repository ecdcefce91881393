"""Estimates of instructions: the fit, the measured data, and what inspect says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from benchmarks.instructions import MeasuredCall, fit_coefficients
from harness import packaged_models, read_program
from harness.analyze.instructions import (
    InstructionModel,
    estimate_method,
    instruction_model,
)
from harness.analyze.workload import Step, method_steps
from tests.conftest import ROOT, CommandResult

Etharness = Callable[..., CommandResult]

MEASURED = sorted((ROOT / "boards/instructions").glob("*.json"))
SIZES = st.integers(1, 100_000)


def step(macs: int, elements: int, *, read: int = 0, constant: int = 0) -> Step:
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
        constant_bytes=constant,
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
    found = fit_coefficients(samples)
    assert found is not None
    assert min(found.call, found.mac, found.element) >= 0
    errors = [found.estimate(s.step) / s.instructions - 1 for s in samples]
    assert (sum(error**2 for error in errors) / len(errors)) ** 0.5 < 0.03


def test_one_size_says_nothing_about_others() -> None:
    assert fit_coefficients([MeasuredCall(step(0, 8), 100.0)] * 5) is None
    assert (
        fit_coefficients([MeasuredCall(step(0, 8), 80.0), MeasuredCall(step(0, 80), 800.0)])
        is not None
    )


@pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)
def test_measured_data_name_their_cpu_and_their_errors(file: Path) -> None:
    model = msgspec.json.decode(file.read_bytes(), type=InstructionModel)
    board = harness.Board.load(model.measured_on)
    assert model.cpu == board.cpu == file.stem
    assert board.emulated_time
    assert instruction_model(board) == model
    assert not set(model.fitted) & model.held_out.keys()
    assert model.median_error is not None
    assert model.worst_error is not None
    assert model.median_error <= model.worst_error


def test_boards_with_other_kernels_have_no_estimate() -> None:
    for name in ("native", "native-executorch", "esp32-s3-devkit"):
        assert instruction_model(harness.Board.load(name)) is None


def test_an_estimate_adds_up_and_names_what_it_leaves_out() -> None:
    method = read_program(packaged_models()["kws_int8"].read_bytes()).methods[0]
    steps = method_steps(method)
    model = instruction_model(harness.Board.load("nucleo-f446re"))
    found = estimate_method(steps, model)
    assert found is not None
    assert model is not None
    assert found.unknown == []
    assert sum(item.calls for item in found.operators) == len(steps)
    assert found.instructions == sum(item.instructions or 0 for item in found.operators)
    known = dict(list(model.operators.items())[:0])
    none = estimate_method(steps, msgspec.structs.replace(model, operators=known))
    assert none is not None
    assert none.instructions == 0
    assert set(none.unknown) == {step.kind for step in steps}


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
    [("kws_f32", {"", "depthwise", "pointwise"}), ("kws_int8", {"", "pointwise"})],
)
def test_convolutions_have_variants(model: str, variants: set[str]) -> None:
    method = read_program(packaged_models()[model].read_bytes()).methods[0]
    steps = [s for s in method_steps(method) if "conv" in s.operator]
    assert {s.variant for s in steps} == variants
    assert all(0 < s.constant_bytes < s.bytes_read for s in steps)
