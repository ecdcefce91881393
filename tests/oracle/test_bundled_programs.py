"""Bundled programs by ExecuTorch: the same test sets pass and fail as in its own verification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import torch
from executorch.devtools import Inspector, parse_etrecord
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib

import harness
from harness import read_bundled_program
from tests.support.bundled import bundle, two_methods
from tests.support.exported import Exported

pytestmark = pytest.mark.oracle
RTOL, ATOL = 1e-5, 1e-8
"""ExecuTorch's tolerances."""


def theirs(data: bytes, method: str, index: int) -> bool:
    """Whether a test set passes on ExecuTorch's runtime, by its own verification."""
    bundled = portable_lib._load_bundled_program_from_buffer(data)
    try:
        bundled.verify_result_with_bundled_expected_output(method, index, RTOL, ATOL)
    except RuntimeError as error:
        if "verification failed" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("board", ["native", "native-executorch"])
def test_the_same_test_sets_fail_as_by_executorch(board: str, tmp_path: Path) -> None:
    wrong = {("forward", 1, 0): 0.5, ("encode", 0, 1): 1e-3}
    (tmp_path / "m.bpte").write_bytes(data := two_methods(wrong))
    run = harness.run(
        tmp_path / "m.bpte", board=board, rtol=RTOL, atol=ATOL, output=tmp_path / "run"
    )
    ours = [each.passed for each in run.test_sets]
    assert run.result is not None
    assert ours == [theirs(data, each.method, each.index) for each in run.result.test_sets]
    assert ours == [False, True, True, False, True]
    assert [check.subject for check in run.verdict.checks if check.failed] == [
        "encode, test set 0: outputs/1.npy",
        "forward, test set 1: outputs/0.npy",
    ]
    for each, index in zip(run.test_sets, (0, 1, 0, 1, 2), strict=True):
        assert {block.bundled_input_index for block in each.trace.blocks} == {index}


def test_every_kind_of_input_is_read(tmp_path: Path) -> None:
    y = torch.arange(5, dtype=torch.int64)
    half = torch.arange(12, dtype=torch.float16).reshape(3, 4)
    inputs: list[Any] = [y, -(2**40), 0.25, True, half, torch.ones(0, 3), torch.tensor(7)]
    (tmp_path / "m.pte").write_bytes(read_bundled_program(two_methods()).program)
    data = bundle(tmp_path / "m.pte", {"forward": [(inputs, [y, half])]})
    (test_set,) = read_bundled_program(data).test_sets
    for found, given in zip(
        (*test_set.inputs, *test_set.expected), (*inputs, y, half), strict=True
    ):
        if isinstance(given, torch.Tensor):
            assert isinstance(found, np.ndarray)
            assert found.dtype == given.numpy().dtype
            np.testing.assert_array_equal(found, given.numpy())
        else:
            assert found == given
            assert type(found) is type(given)


def test_channels_last_tensors_keep_their_logical_shape(tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    x = torch.randn(1, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    program = to_edge_transform_and_lower(torch.export.export(Twice(), (x,))).to_executorch()
    data = bundle(program, {"forward": [([x], [x + x])]})
    (test_set,) = read_bundled_program(data).test_sets
    (given,) = test_set.inputs
    assert isinstance(given, np.ndarray)
    np.testing.assert_array_equal(given, x.numpy())
    np.testing.assert_array_equal(test_set.expected[0], (x + x).numpy())
    (tmp_path / "m.bpte").write_bytes(data)
    assert harness.run(tmp_path / "m.bpte", board="native", output=tmp_path / "run").passed


def test_a_test_set_that_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.pte").write_bytes(read_bundled_program(two_methods()).program)
    good, y = torch.ones(2, 4), torch.ones(2, 3)
    data = bundle(tmp_path / "m.pte", {"forward": [([good], [y]), ([torch.ones(4, 2)], [y])]})
    (tmp_path / "m.bpte").write_bytes(data)
    with pytest.raises(harness.HarnessError) as caught:
        harness.run(tmp_path / "m.bpte", board="native", output=tmp_path / "run")
    assert caught.value.exit_code == 2
    message = (
        "forward, test set 1: input 0 must be float32[2, 4], but the test set has float32[4, 2]"
    )
    assert caught.value.message == message
    loaded = harness.load(tmp_path / "run")
    assert loaded.failure is not None
    assert loaded.failure.message == message
    assert [each.failure is None for each in loaded.test_sets] == [True, False]
    (tmp_path / "none.bpte").write_bytes(bundle(tmp_path / "m.pte", {"forward": [([], [y])]}))
    with pytest.raises(harness.HarnessError, match="test set 0 has 0 inputs, the method has 1"):
        harness.run(tmp_path / "none.bpte", board="native", output=tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("board", ["native", "native-executorch"])
def test_executorchs_inspector_finds_the_reference_of_the_test_set(
    portable_model: Exported, board: str, tmp_path: Path
) -> None:
    """With the index -1, which ExecuTorch's own tracer writes, it takes the last test case."""
    network, shape = portable_model.network, portable_model.inputs[0].shape
    assert network is not None
    cases = []
    for seed in range(3):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        cases.append(([x], [*network(x)]))
    (tmp_path / "m.bpte").write_bytes(bundle(portable_model.manager, {"forward": cases}))
    etrecord = parse_etrecord(str(portable_model.etrecord))
    etrecord.update_reference_outputs({"forward": [outputs for _, outputs in cases]})
    etrecord.save(tmp_path / "m.etrecord")
    run = tmp_path / "run"
    assert harness.run(tmp_path / "m.bpte", board=board, values="outputs", output=run).passed
    for index, (_, expected) in enumerate(cases):
        folder = run / "test_sets" / f"forward-{index}"
        inspector = Inspector(
            etdump_path=str(folder / "trace.etdp"),
            debug_buffer_path=str(folder / "debug_buffer.bin"),
            etrecord=str(tmp_path / "m.etrecord"),
        )
        block = next(each for each in inspector.event_blocks if each.name == "Execute")
        assert block.bundled_input_index == index
        for found, wanted, ran in zip(
            block.reference_output, expected, block.run_output, strict=True
        ):
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(ran, wanted)
