"""Tensors between files, arrays and device memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import TargetError, UsageError, tensor_from_bytes, tensor_to_bytes
from harness.runs.device import dtype_of, read_inputs
from harness.runs.source import read_npy
from harness.testing import messages


def info(
    sizes: tuple[int, ...], scalar_type: int = 6, dim_order: tuple[int, ...] | None = None
) -> messages.TensorInfo:
    order = tuple(range(len(sizes))) if dim_order is None else dim_order
    nbytes = int(np.prod(sizes)) * dtype_of(scalar_type).itemsize
    return messages.TensorInfo(scalar_type=scalar_type, sizes=sizes, nbytes=nbytes, dim_order=order)


@given(st.data(), st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 11]))
def test_bytes_come_back_in_any_dim_order(data: st.DataObject, scalar_type: int) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))
    order = tuple(data.draw(st.permutations(range(len(sizes)))))
    tensor = info(sizes, scalar_type, order)
    [array] = read_inputs([], [tensor], seed=data.draw(st.integers(0, 9)))
    assert array.shape == sizes
    found = tensor_from_bytes(tensor_to_bytes(array, tensor), tensor)
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, array)


def test_channels_last_puts_channels_next_to_each_other() -> None:
    array = np.arange(8, dtype=np.int8).reshape(1, 2, 2, 2)
    assert tensor_to_bytes(array, info((1, 2, 2, 2), 1, (0, 2, 3, 1))) == bytes(
        [0, 4, 1, 5, 2, 6, 3, 7]
    )


def test_wrong_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    wanted = [info((2, 3))]
    with pytest.raises(UsageError, match=r"x\.npy: not a readable \.npy file"):
        read_inputs([path], wanted, 0)
    np.save(path, np.zeros((3, 2), np.float32))
    with pytest.raises(UsageError) as raised:
        read_inputs([path], wanted, 0)
    assert raised.value.message == (
        f"{path}: input 0 must be float32[2, 3], but the file has float32[3, 2]"
    )
    with pytest.raises(UsageError, match="the model has 1 inputs, but 2 files were given"):
        read_inputs([path, path], wanted, 0)


def header(text: str) -> bytes:
    """The beginning of a ``.npy`` file of version 1.0."""
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.attack(
    "Files", "a `.npy` file that claims 10^12 elements", "exit code 2 before memory is allocated"
)
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (35184372088832,)}"), "trunc"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}") + b"1234", "truncated"),
        (header("{'descr': '<f4', 'fortran_order': (False, 'shape'}\n"), "not a readable"),
        (b"\x93NUMPY\7\0" + bytes(40), "not a readable"),
        (b"PK\3\4" + bytes(40), "several arrays"),
        (b"", "not a readable"),
    ],
)
def test_a_damaged_array_is_refused_before_memory_is_taken(
    data: bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(UsageError, match=why):
        read_npy(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_a_short_answer_of_the_device_is_its_fault() -> None:
    with pytest.raises(TargetError, match="sent 3 bytes for a tensor of 24"):
        tensor_from_bytes(b"abc", info((2, 3)))
    with pytest.raises(TargetError, match="scalar type 8"):
        dtype_of(8)
