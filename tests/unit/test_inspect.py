"""`etharness inspect`: what a model contains, and where it fits."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import harness
from harness import Call, Instruction, Method, packaged_models, read_program
from harness.check.fit import fit
from tests.conftest import BOARDS, ROOT, CommandResult

Etharness = Callable[..., CommandResult]

MLPERF_TINY = {"kws": 2_656_768, "ic": 12_501_632, "vww": 7_489_664, "ad": 264_192}
"""Multiply-accumulates of MLPerf Tiny's networks, as their layers give them."""


def method_of(model: str) -> Method:
    return read_program(packaged_models()[model].read_bytes()).methods[0]


def inspected(etharness: Etharness, model: str) -> dict[str, Any]:
    """What inspect says of the only method of a model."""
    [method] = json.loads(etharness("inspect", model, "--json").out)["methods"]
    return dict(method)


@pytest.mark.parametrize("kind", ["f32", "int8"])
@pytest.mark.parametrize("network", MLPERF_TINY)
def test_float_and_int8_networks_have_the_same_macs(
    network: str, kind: str, etharness: Etharness
) -> None:
    assert inspected(etharness, f"{network}_{kind}")["macs"] == MLPERF_TINY[network]


def test_bytes_moved_are_those_of_the_tensors(etharness: Etharness) -> None:
    operators = inspected(etharness, "ad_int8")["operators"]
    [linear] = [item for item in operators if "linear" in item["operator"]]
    widths = [640, *[128] * 4, 8, *[128] * 4, 640]
    layers = list(pairwise(widths))
    assert linear["macs"] == sum(inputs * outputs for inputs, outputs in layers)
    assert linear["elements"] == linear["bytes_written"] == sum(widths[1:])
    # Of each layer int8[1, inputs], int8[outputs, inputs] and int32[outputs]; int8[1, outputs].
    assert linear["bytes_read"] == sum(
        inputs + outputs * inputs + 4 * outputs for inputs, outputs in layers
    )


def test_the_work_of_a_delegate_is_not_known(etharness: Etharness) -> None:
    found = json.loads(etharness("inspect", "npu_int", "--board", "native", "--json").out)
    [method] = found["methods"]
    assert method["backends"] == ["SimulatedNpu", "SimulatedNpu"]
    [npu] = [work for work in method["operators"] if work["delegated"]]
    assert (npu["operator"], npu["calls"], npu["macs"]) == ("SimulatedNpu", 2, None)
    [board] = method["boards"]
    assert board["fits"] is None
    assert [need["exact"] for need in board["needs"]] == [True, False, True]


@pytest.mark.parametrize("model", sorted(packaged_models()))
@pytest.mark.slow
def test_json_follows_its_schema_for_every_packaged_model(model: str, etharness: Etharness) -> None:
    schema = json.loads((ROOT / "schema/inspect.schema.json").read_text())
    code, out, _ = etharness("inspect", model, "--json")
    assert code == 0  # without --board nothing is asked, so nothing fails
    document = json.loads(out)
    jsonschema.validate(document, schema)
    assert document["bytes"] == packaged_models()[model].stat().st_size
    for method in document["methods"]:
        assert [board["board"] for board in method["boards"]] == BOARDS
        for pool in method["pools"]:
            assert pool["peak"] <= pool["planned"]


def test_a_board_that_is_too_small_fails_with_the_missing_bytes(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", "kws_int8", "--board", "native", "--board", "microbit-v1")
    assert code == 1
    assert "multiply-accumulates  2,656,768" in out
    assert "microbit-v1: model: 49,328 bytes are missing; use a smaller" in out
    assert "native: model" not in out
    assert etharness("inspect", "one_m0", "--board", "microbit-v1").code == 0


def test_verbose_lists_the_tensors_of_planned_memory(etharness: Etharness) -> None:
    brief, full = (etharness("inspect", "kws_int8", *more).out for more in ([], ["-v"]))
    assert "to instruction" not in brief
    assert "to instruction" in full


def test_every_missing_operator_and_backend_is_named() -> None:
    method = method_of("kws_int8")
    extra = tuple(Instruction(Call.KERNEL, f"my::op{i}.out", ()) for i in (2, 1, 2))
    npu = (Instruction(Call.DELEGATE, "NoSuchNpu", (), 0),)
    larger = dataclasses.replace(
        method, chains=(method.chains[0] + extra + npu,), delegates=("NoSuchNpu",)
    )
    found = fit(larger, 1000, harness.Board.load("native"))
    assert found.missing_operators == ("my::op1.out", "my::op2.out")
    assert found.missing_backends == ("NoSuchNpu",)
    assert found.fits is False
    # A connected device with other kernels may have other backends than its board file says.
    own = fit(larger, 1000, harness.Board.load("native"), bundled=False)
    assert (own.missing_operators, own.missing_backends, own.fits) == (None, (), None)


def test_a_board_file_without_capacities_decides_nothing(tmp_path: Path) -> None:
    text = (ROOT / "boards/native.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("capacity", "budget"))]
    path = tmp_path / "native.toml"
    path.write_text("\n".join(lines))
    found = fit(method_of("kws_int8"), 10**9, harness.Board.load(path))
    assert found.fits is None
    assert all(need.available is None and need.shortfall == 0 for need in found.needs)


def test_files_that_are_no_models_are_refused(etharness: Etharness, tmp_path: Path) -> None:
    code, _, err = etharness("inspect", tmp_path / "none.pte")
    assert code == 2
    assert "cannot read the model" in err
    (tmp_path / "text.pte").write_text("no model at all")
    code, _, err = etharness("inspect", tmp_path / "text.pte")
    assert code == 2
    assert "text.pte" in err
