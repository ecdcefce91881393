"""Memory that `inspect --runtime executorch` states, and what ExecuTorch takes in Arm's image."""

from __future__ import annotations

import json
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import harness
from harness.extensions.mlek import machine
from harness.extensions.mlek.image import find_image
from harness.extensions.probes.debug_probe import attach
from harness.target.start import start_halted
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]
BOARD = "qemu-mps3-an547-mlek"

LOADED = [
    *("ad_f32", "arenas", "dynamic", "functions", "ic_f32", "images", "kws_f32", "methods"),
    *("rows_m55", "state", "vww_f32", "scalars", "unplanned"),
    # Loading takes memory for operators that are missing, too.
    *("ic_int8", "kws_int8", "picture_m4", "picture_m55", "small_int8"),
]

CALL_OF_LOADING, ALLOCATOR = 0xBEC6, struct.pack("<II", 0x11000170, 0x31000000)
"""The runner's call of Program::load_method; the type and the pool of its method allocator."""

HEAP = (0x11001458, 0xC0000)


def taken(model: Path) -> tuple[int, int]:
    """Bytes by which loading moves the end of the allocator, and those that it reports."""
    board = harness.Board.load(BOARD)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        loaded = ("-kernel", str(find_image()), "-device")
        loaded += (f"loader,file={model},addr={machine.MODEL_AT:#x},force-raw=on",)
        target = stack.enter_context(start_halted(board, board.target, folder / "gdb", loaded))
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        path = str(folder / "gdb")
        assert target.wait_for(lambda: not connection.connect_ex(path), 20)
        probe = attach(connection, "of the test")
        for address, code in machine.REPLACED.items():
            probe.write(address, code)
        states = []
        for address in (CALL_OF_LOADING, CALL_OF_LOADING + 4):
            probe.run_to(address, 30)
            heap = probe.read(*HEAP)
            state = struct.unpack_from("<8I", heap, heap.index(ALLOCATOR))
            states.append((state[3] - state[1], state[6]))
    (end, reported), (later, all_reported) = states
    return later - end, all_reported - reported


def stated_memory(etharness: Etharness, name: str) -> dict[str, int]:
    out = etharness("inspect", name, "--runtime", "executorch", "--json").out
    memory: dict[str, int] = json.loads(out)["methods"][0]["executorch"]
    return memory


@pytest.mark.parametrize("name", LOADED)
def test_the_method_allocator_takes_what_is_stated(etharness: Etharness, name: str) -> None:
    memory = stated_memory(etharness, name)
    assert taken(MODELS / f"{name}.pte") == (memory["method"], memory["requested"])


@pytest.mark.parametrize("name", ["ad_f32", "functions", "images", "kws_f32", "rows_m55", "state"])
def test_a_run_reports_the_planned_and_the_temporary_memory(
    etharness: Etharness, name: str, tmp_path: Path
) -> None:
    result = harness.run(name, board=BOARD, runs=1, output=tmp_path / "run").result
    memory = stated_memory(etharness, name)
    assert result.model is not None
    assert result.model.planned_bytes == memory["planned"]
    assert result.model.method_bytes == memory["requested"]
    assert result.model.temporary_bytes == memory["temporary"]


def test_inspect_states_the_memory_and_the_kernels(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", "kws_f32", "--runtime", "executorch", "--board", BOARD)
    assert code == 0
    assert "method       11,912  exact" in out
    assert "planned      64,000  exact" in out
    assert "temporary       148  exact: to load" in out
    assert "kernels: aten::_native_batch_norm_legit_no_training.out, aten::_softmax.out" in out
    assert "at least 75,912 of 2,097,152" in out


def test_the_scratch_of_cmsis_nn_is_stated(
    etharness: Etharness,
) -> None:
    code, out, _ = etharness(
        *("inspect", "picture_m55", "--runtime", "executorch", "--board", BOARD, "--json")
    )
    (method,) = json.loads(out)["methods"]
    assert method["executorch"]["scratch"] == 128
    assert method["executorch"]["planned"] == 544
    assert code == 0
    _, out, _ = etharness("inspect", "picture_m55", "--board", BOARD, "--json")
    assert json.loads(out)["methods"][0]["executorch"] is None


def test_the_memory_of_delegates_is_not_claimed(etharness: Etharness) -> None:
    _, out, _ = etharness("inspect", "npu_int", "--runtime", "executorch", "--board", "native")
    assert "ExecuTorch's memory is not known: backends of delegates take memory, too" in out
    assert "exact" not in out
