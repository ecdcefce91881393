"""Tensors between files, arrays and device memory."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import TargetError, tensor_from_bytes, tensor_to_bytes
from harness.testing import messages
from tests.conftest import CommandResult

Etharness = Callable[..., CommandResult]


NAMES = ("u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?")
TYPES = dict(zip((*range(8), 11), map(np.dtype, NAMES), strict=True))
"""NumPy's types of ExecuTorch's scalar types."""


def info(
    sizes: tuple[int, ...], scalar_type: int = 6, dim_order: tuple[int, ...] | None = None
) -> messages.TensorInfo:
    order = tuple(range(len(sizes))) if dim_order is None else dim_order
    nbytes = int(np.prod(sizes)) * TYPES.get(scalar_type, np.dtype("c8")).itemsize
    return messages.TensorInfo(scalar_type=scalar_type, sizes=sizes, nbytes=nbytes, dim_order=order)


@given(st.data(), st.sampled_from([*TYPES]))
def test_bytes_come_back_in_any_dim_order(data: st.DataObject, scalar_type: int) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))
    order = tuple(data.draw(st.permutations(range(len(sizes)))))
    tensor = info(sizes, scalar_type, order)
    numbers = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 100, sizes)
    array = numbers.astype(TYPES[scalar_type])
    found = tensor_from_bytes(tensor_to_bytes(array, tensor), tensor)
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, array)


def test_channels_last_puts_channels_next_to_each_other() -> None:
    array = np.arange(8, dtype=np.int8).reshape(1, 2, 2, 2)
    assert tensor_to_bytes(array, info((1, 2, 2, 2), 1, (0, 2, 3, 1))) == bytes(
        [0, 4, 1, 5, 2, 6, 3, 7]
    )


def test_wrong_files_are_named(tmp_path: Path, etharness: Etharness) -> None:
    path = tmp_path / "x.npy"
    run = ("run", "--board", "native", "--model", "small_int8", "-o", tmp_path / "run")
    said = etharness(*run, "--input", path)
    assert (said.code, "x.npy: not a readable .npy file" in said.err) == (2, True), said.err
    np.save(path, np.zeros((3, 2), np.float32))
    said = etharness(*run, "--input", path)
    assert said.code == 2
    assert re.search(
        r"x\.npy: input 0 must be float32\[[\d, ]+\], but the file has float32\[3, 2\]", said.err
    )
    said = etharness(*run, "--input", path, "--input", path)
    assert said.code == 2
    assert "the model has 1 input, not 2" in said.err


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
    data: bytes, why: str, tmp_path: Path, etharness: Etharness
) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    run = ("run", "--board", "native", "--model", "small_int8", "-o", tmp_path / "run")
    tracemalloc.start()
    said = etharness(*run, "--reference", path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (said.code, why in said.err) == (2, True), said.err
    assert peak < 100_000_000


def test_a_short_answer_of_the_device_is_its_fault() -> None:
    with pytest.raises(TargetError, match="sent 3 bytes for a tensor of 24"):
        tensor_from_bytes(b"abc", info((2, 3)))
    with pytest.raises(TargetError, match="scalar type 8"):
        tensor_from_bytes(bytes(8), info((1,), 8))
