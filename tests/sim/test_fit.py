"""What `etharness inspect` predicts is what boards measure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import Capacity, DeviceRefusedError, packaged_models, read_program
from harness.testing import Status
from tests.conftest import ROOT, CommandResult
from tests.support.boards import INT8_MODELS_THAT_FIT, started
from tests.support.examples import sampled

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]
LARGEST_EMULATED = 60_000
"""Bytes of a model; QEMU takes half a minute for a megabyte."""


def bytes_of(path: Path) -> int:
    return path.stat().st_size


@pytest.mark.parametrize(
    "name",
    sampled(["native", "qemu-mps2-an385", *INT8_MODELS_THAT_FIT], "native"),
)
def test_predicted_bytes_are_measured_bytes(name: str, etharness: Etharness) -> None:
    board = harness.Board.load(name)
    tried = [
        (path, method)
        for path in packaged_models().values()
        if name == "native" or bytes_of(path) <= LARGEST_EMULATED
        for method in json.loads(etharness("inspect", path, "--board", name, "--json").out)[
            "methods"
        ]
        if not method["backends"]
    ]
    listed = re.findall(r"^\| `[^`]+`", (ROOT / "docs/operators.md").read_text(), re.MULTILINE)
    loaded = refused = 0
    with started(name, deadline_s=60) as bench:
        info = bench.session.hello(60)
        stated = Capacity(
            info.model_capacity,
            info.arena_capacity,
            info.input_capacity,
            info.trace_capacity,
            info.debug_capacity,
        )
        assert stated == board.capacity
        assert info.operators == len(listed)
        for path, method in tried:
            [predicted] = method["boards"]
            needs = {each["resource"]: each for each in predicted["needs"]}
            assert needs["arena"]["exact"]
            assert predicted["missing_operators"] == []
            room = {resource: need["shortfall"] == 0 for resource, need in needs.items()}
            if not room["model"]:
                continue
            if not room["arena"] or not room["inputs"]:
                with pytest.raises(DeviceRefusedError) as caught:
                    bench.session.load_model(path.read_bytes(), method=method["name"])
                wanted = Status.TOO_LARGE if room["arena"] else Status.OUT_OF_MEMORY
                assert caught.value.status == wanted
                refused += 1
                continue
            measured = bench.session.load_model(path.read_bytes(), method=method["name"])
            taken = measured.method_bytes + measured.planned_bytes
            assert taken == needs["arena"]["needed"], path.name
            loaded += 1
    assert loaded > 0
    assert loaded + refused > (20 if name == "native" else 1)


def test_run_names_every_missing_operator_before_it_uploads(
    etharness: Etharness, tmp_path: Path
) -> None:
    """Two operators of a model get names that no kernel has, of the same length."""
    data = packaged_models()["kws_f32"].read_bytes()
    model = tmp_path / "model.pte"
    model.write_bytes(
        data.replace(b"aten::addmm\0", b"aten::xddmm\0").replace(b"aten::mean\0", b"aten::xean\0")
    )
    code, _, err = etharness("run", "--board", "native", "--model", model, "-o", tmp_path / "run")
    names = [
        instruction.name
        for chain in read_program(model.read_bytes()).methods[0].chains
        for instruction in chain
        if "::x" in instruction.name
    ]
    assert names
    assert code == 2
    assert f"native cannot run {model}: no kernel for {', '.join(sorted(set(names)))}" in err
    assert not (tmp_path / "run" / "console.txt").exists(), "nothing was started"
