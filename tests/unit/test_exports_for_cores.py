"""int8 exports belong to a core: `inspect` says to which, and `run` refuses them on another."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import Method, UsageError, packaged_models, read_program
from harness.check.fit import fit
from tests.conftest import CommandResult

Etharness = Callable[..., CommandResult]

pytestmark = pytest.mark.extension("executorch")

M3, M4, M55 = (
    f"qemu-{machine}-executorch" for machine in ("mps2-an385", "mps2-an386", "mps3-an547")
)
SETS = {M3: "no DSP", M4: "DSP", M55: "MVE"}

EXPORTS = {
    "kws_int8": {"no DSP"},
    "ic_int8": {"no DSP"},
    "vww_int8": {"no DSP"},
    # Its linear layers and activations need no scratch memory without MVE.
    "ad_int8": {"no DSP", "DSP"},
    "kws_int8_m4": {"DSP"},
    "ic_int8_m4": {"DSP"},
    "vww_int8_m4": {"DSP"},
    "kws_int8_m55": {"MVE"},
    "ic_int8_m55": {"MVE"},
    "vww_int8_m55": {"MVE"},
    "ad_int8_m55": {"MVE"},
    "small_int8": {"no DSP", "DSP"},
    "small_int8_m55": {"MVE"},
    "one_m0": {"no DSP", "DSP"},
    "picture_m4": {"DSP"},
    "picture_m55": {"MVE"},
    "rows_m55": {"MVE"},
}
"""For which instruction sets the packaged networks were exported (export.py, export_cpus.py)."""

RUNS = {(M3, f"{name}_m4") for name in ("picture", "kws_int8", "ic_int8", "vww_int8")}
"""Exports for another set that run all the same: they have more scratch memory than needed."""


@pytest.mark.parametrize("model", EXPORTS)
def test_inspect_names_the_cores(model: str, etharness: Etharness) -> None:
    [method] = json.loads(etharness("inspect", model, "--json").out)["methods"]
    made = method["made_for"]
    assert set(made["sets"]) == EXPORTS[model]
    for core, instructions in (
        ("cortex-m3", "no DSP"),
        ("cortex-m4", "DSP"),
        ("cortex-m85", "MVE"),
    ):
        assert (core in made["cores"]) == (instructions in EXPORTS[model])
    assert f"exported for          {made['text']}" in etharness("inspect", model).out


def test_inspect_names_no_core_of_float_networks(etharness: Etharness) -> None:
    [method] = json.loads(etharness("inspect", "kws_f32", "--json").out)["methods"]
    assert method["made_for"] is None
    assert "exported for" not in etharness("inspect", "kws_f32").out


@pytest.mark.parametrize("board", SETS)
@pytest.mark.parametrize("model", EXPORTS)
def test_run_refuses_an_export_for_another_core(
    board: str, model: str, etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it looks for ExecuTorch, builds or starts anything."""
    monkeypatch.delenv("EXECUTORCH_ROOT", raising=False)
    code, _, error = etharness("run", "--board", board, "--model", model, "-o", tmp_path / "out")
    assert code == 2
    suits = SETS[board] in EXPORTS[model] or (board, model) in RUNS
    if suits:
        assert "was exported for" not in error
        return
    core = harness.Board.load(board).cpu.removeprefix("cortex-").upper()
    assert "it was exported for Cortex-M" in error
    assert f"not for Cortex-{core} ({SETS[board]})" in error
    assert f"CortexMTargetConfig(cpu=CortexM.{core})" in error
    inspected = etharness("inspect", model, "--board", board)
    assert inspected.code == 1
    assert f"not for Cortex-{core} ({SETS[board]})" in inspected.out


@pytest.mark.parametrize("model", EXPORTS)
def test_the_bundled_kernels_take_exports_for_any_core(model: str, etharness: Etharness) -> None:
    for board in ("qemu-mps2-an385", "qemu-mps2-an386", "qemu-mps3-an547", "native"):
        assert etharness("inspect", model, "--board", board).code == 0


def network_of(model: str) -> str:
    return re.sub(r"_m\d+$", "", model)


def method_of(model: str) -> Method:
    return read_program(packaged_models()[model].read_bytes()).methods[0]


def test_every_packaged_int8_network_is_in_one_list() -> None:
    int8 = {name for name in packaged_models() if "int8" in name or "_m" in name}
    assert int8 == {*EXPORTS}


@pytest.mark.parametrize("board", SETS)
def test_every_network_is_shipped_for_each_kind_of_core(board: str) -> None:
    described = harness.Board.load(board)
    for network in ("kws", "ic", "vww", "ad", "small"):
        exports = [name for name in EXPORTS if name.startswith(f"{network}_int8")]
        assert any(fit(method_of(name), 1000, described).fits is not False for name in exports)


@pytest.mark.extension("qualify")
@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        *((M3, ""), (M4, "_m4"), (M55, "_m55"), ("qemu-mps3-an547", "_m55"), ("native", "")),
        ("nucleo-h743zi", "_m4"),
    ],
)
def test_qualify_runs_the_exports_for_a_boards_core(name: str, suffix: str) -> None:
    """One of each network, and none that the board refuses while there is a better one."""
    from harness.extensions.qualify.stages import packaged_networks

    board = harness.Board.load(name)
    chosen = [network.name for network in packaged_networks(board)]
    assert len({network_of(each) for each in chosen}) == len(chosen)
    assert {f"{network}_int8{suffix}" for network in ("kws", "ic", "vww")} <= {*chosen}
    assert f"ad_int8{suffix.replace('_m4', '')}" in chosen
    refused = {each for each in chosen if fit(method_of(each), 1000, board).lacks}
    others = {"one_m0", "picture_m4", "rows_m55", "npu_int", "npu_str"}
    assert refused <= others


def test_firmware_of_others_is_asked_for_its_runtime() -> None:
    """A board whose firmware is built elsewhere reports ExecuTorch when it answers."""
    method, board = method_of("kws_int8"), harness.Board.load("nucleo-h743zi")
    assert fit(method, 1000, board, bundled=False).lacks == ()
    found = fit(method, 1000, board, bundled=False, executorch=True)
    with pytest.raises(UsageError, match=r"not for Cortex-M7 \(DSP\)"):
        found.require("kws_int8.pte")


def test_an_export_of_another_version_is_not_refused() -> None:
    """Its operators have other arguments, so nothing is known of what they need."""
    method = method_of("kws_int8")
    [chain] = method.chains
    changed = tuple(
        dataclasses.replace(instruction, args=instruction.args[1:])
        if instruction.name == "cortex_m::quantized_depthwise_conv2d.out"
        else instruction
        for instruction in chain
    )
    assert changed != chain
    other = dataclasses.replace(method, chains=(changed,))
    assert fit(other, 1000, harness.Board.load(M55)).lacks == ()
    assert fit(method, 1000, harness.Board.load(M55)).lacks != ()
