"""What `etharness inspect` predicts is what boards measure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import Capacity, DeviceRefusedError, Method, packaged_models, read_program
from harness.check.fit import SIZES_32, SIZES_64, arena_need, bundled_operators, fit
from harness.testing import Status
from tests.conftest import CommandResult
from tests.support.boards import INT8_MODELS_THAT_FIT, started
from tests.support.examples import sampled

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]
LARGEST_EMULATED = 60_000
"""Bytes of a model; QEMU takes half a minute for a megabyte."""

METHODS = [
    (path, method)
    for path in packaged_models().values()
    for method in read_program(path.read_bytes()).methods
]


def bytes_of(path: Path) -> int:
    return path.stat().st_size


@pytest.mark.parametrize(
    "name",
    sampled(["native", "qemu-mps2-an385", *INT8_MODELS_THAT_FIT], "native"),
)
def test_predicted_bytes_are_measured_bytes(name: str) -> None:
    board = harness.Board.load(name)
    sizes = SIZES_64 if name == "native" else SIZES_32
    tried: list[tuple[Path, Method]] = [
        (path, method)
        for path, method in METHODS
        if not method.delegates and (name == "native" or bytes_of(path) <= LARGEST_EMULATED)
    ]
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
        assert info.operators == len(bundled_operators())
        for path, method in tried:
            found, need = fit(method, bytes_of(path), board), arena_need(method, sizes)
            assert need.exact
            assert found.missing_operators == ()
            room = {each.resource: each.shortfall == 0 for each in found.needs}
            if not room["model"]:
                continue
            if not room["arena"] or not room["inputs"]:
                with pytest.raises(DeviceRefusedError) as caught:
                    bench.session.load_model(path.read_bytes(), method=method.name)
                wanted = Status.TOO_LARGE if room["arena"] else Status.OUT_OF_MEMORY
                assert caught.value.status == wanted
                refused += 1
                continue
            measured = bench.session.load_model(path.read_bytes(), method=method.name)
            assert measured.method_bytes == need.method, path.name
            assert measured.planned_bytes == need.planned + need.unplanned, path.name
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
