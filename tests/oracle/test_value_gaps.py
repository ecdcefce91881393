"""One wrong weight and one wrong requantise shift are located to their operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from executorch.exir._serialize._program import deserialize_pte_binary

import harness
from harness.analyze.values import LoggedTrace, ValueComparison, compare_values
from harness.decode.program import Tensor
from harness.decode.pte import read_program
from harness.files import packaged_models
from harness.runs.source import load_source

pytestmark = pytest.mark.oracle
MODEL = packaged_models()["ic_int8"]
INSTRUCTION = 6
"""A convolution in the middle of the network."""


def logged(model: Path, directory: Path) -> LoggedTrace:
    harness.run(model, board="native", runs=1, values="intermediate", output=directory)
    source = load_source(directory)
    return LoggedTrace(source.trace, source.debug_buffer or b"")


def constant_of(argument: int) -> tuple[int, int]:
    """Offset and length in the file of a constant argument of the instruction."""
    data = MODEL.read_bytes()
    method = read_program(data).methods[0]
    instruction = method.chains[0][INSTRUCTION]
    assert "conv2d" in instruction.name
    tensor = method.values[instruction.args[argument]]
    assert isinstance(tensor, Tensor)
    theirs: Any = deserialize_pte_binary(data).program
    content = bytes(theirs.constant_buffer[tensor.data].storage)
    assert data.count(content) == 1
    return data.find(content), len(content)


def compared_with(damaged: bytes, tmp_path: Path) -> ValueComparison:
    (tmp_path / "damaged.pte").write_bytes(damaged)
    sound = logged(MODEL, tmp_path / "sound")
    return compare_values(sound, logged(tmp_path / "damaged.pte", tmp_path / "damaged"))


def assert_located(found: ValueComparison) -> None:
    assert found.unmatched == found.lost == 0
    first = found.first_diverging
    assert first is not None
    assert (first.chain, first.instruction) == (0, INSTRUCTION)
    assert first.operator == "native_call_quantized_conv2d.out"
    assert first.types == ("int8", "int8")
    for gap in found.gaps:
        if gap.chain >= 0 and gap.instruction < INSTRUCTION:
            assert gap.max_abs == 0
            assert gap.snr_db == np.inf


def test_one_wrong_weight_is_located(tmp_path: Path) -> None:
    at, length = constant_of(1)
    data = bytearray(MODEL.read_bytes())
    data[at + length // 2] ^= 0x40
    assert_located(compared_with(bytes(data), tmp_path))


def test_one_wrong_shift_is_located(tmp_path: Path) -> None:
    at, length = constant_of(9)
    data = bytearray(MODEL.read_bytes())
    shifts = np.frombuffer(data, "<i4", length // 4, at)
    assert (np.abs(shifts) < 32).all()  # these are shifts, not multipliers
    data[at : at + 4] = np.int32(shifts[0] + 1).tobytes()
    assert_located(compared_with(bytes(data), tmp_path))


def test_another_runtime_has_the_same_values(tmp_path: Path) -> None:
    """The float network on ExecuTorch's runtime and kernels, and on ours."""
    runs = []
    for board in ("native", "native-executorch"):
        directory = tmp_path / board
        harness.run("kws_f32", board=board, runs=1, values="intermediate", output=directory)
        source = load_source(directory)
        runs.append(LoggedTrace(source.trace, source.debug_buffer or b""))
    found = compare_values(*runs)
    assert found.first_diverging is None
    assert len(found.gaps) > 10
    assert any(gap.max_abs > 0 for gap in found.gaps)  # their kernels add in another order
