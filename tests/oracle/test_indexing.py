"""Slices, rearrangements and index tensors against PyTorch, on any shape and layout."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, ints, oracle, seeds, shapes
from tests.support.kernels import Array, Out, Tensor, TensorList, run
from tests.support.runtime import RuntimeFailure
from tests.support.torch_calls import check, laid_out

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
DTYPES = st.sampled_from([np.float32, np.int64, np.int8, np.bool_])


def draw_tensor(data: st.DataObject, shape: Shape) -> Array:
    dtype = data.draw(DTYPES)
    make = floats if dtype == np.float32 else ints
    return make(data.draw(seeds), shape, dtype)


def draw_indices(data: st.DataObject, shape: Shape, low: int, size: int) -> Array:
    rng = np.random.default_rng(data.draw(seeds))
    return np.asarray(rng.integers(low, size, shape))


def dims(data: st.DataObject, shape: Shape) -> list[int]:
    axes = st.integers(-len(shape), len(shape) - 1)
    return data.draw(st.lists(axes, unique_by=lambda axis: axis % len(shape)))


@oracle
@given(shapes(1, 4), st.data(), st.booleans())
def test_scattering_into_a_slice(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, whole: bool
) -> None:
    x = draw_tensor(data, shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    source = np.zeros_like(x)
    if whole:
        start, end = (data.draw(st.integers(-6, 6)) for _ in range(2))
        step = data.draw(st.integers(1, 3))
        source = torch.ops.aten.slice.Tensor(torch.from_numpy(source), dim, start, end, step)
        arguments: list[Any] = [x, np.array(source), dim, start, end, step]
    else:
        index = data.draw(st.integers(-shape[dim], shape[dim] - 1))
        arguments = [x, np.array(source.take(0, dim)), dim, index]
    name = "slice_scatter" if whole else "select_scatter"
    tensors = [torch.from_numpy(value) for value in arguments[:2]]
    expected = getattr(torch.ops.aten, name).default(*tensors, *arguments[2:])
    check(etstub, f"aten::{name}.out", arguments, expected, data)


@oracle
@given(shapes(1, 4), st.data())
def test_splitting_and_stacking(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    x = draw_tensor(data, shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = data.draw(st.integers(1, 6))
    tensor = torch.from_numpy(x)
    parts = torch.split(tensor, size, dim)
    check(etstub, "aten::split_copy.Tensor_out", [x, size, dim], parts, data, listed=True)
    sizes = [part.shape[dim] for part in parts]
    name = "aten::split_with_sizes_copy.out"
    check(etstub, name, [x, sizes, dim], parts, data, listed=True)
    rows = torch.unbind(tensor, dim)
    check(etstub, "aten::unbind_copy.int_out", [x, dim], rows, data, listed=True)
    tensors = TensorList([x, x[::-1].copy(), x])
    expected = torch.stack([torch.from_numpy(item) for item in tensors.tensors], dim)
    check(etstub, "aten::stack.out", [tensors, dim], expected, data)


@oracle
@given(shapes(1, 4), st.data())
def test_turning_and_repeating(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    x = draw_tensor(data, shape)
    tensor, axes = torch.from_numpy(x), dims(data, shape)
    check(etstub, "aten::flip.out", [x, axes], torch.flip(tensor, axes), data)
    a, b = (data.draw(st.integers(-len(shape), len(shape) - 1)) for _ in range(2))
    expected = torch.transpose(tensor, a, b)
    check(etstub, "aten::transpose_copy.int_out", [x, a, b], expected, data)
    repeats = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=5))
    check(etstub, "aten::repeat.out", [x, repeats], tensor.repeat(repeats), data)
    if axes:
        shifts = [data.draw(st.integers(-9, 9)) for _ in axes]
        check(etstub, "aten::roll.out", [x, shifts, axes], torch.roll(tensor, shifts, axes), data)
    size = data.draw(st.integers(0, shape[a]))
    step = data.draw(st.integers(1, 4))
    expected = tensor.unfold(a, size, step).contiguous()
    check(etstub, "aten::unfold_copy.out", [x, a, size, step], expected, data)


@oracle
@given(shapes(2, 4), st.integers(-6, 6), st.data())
def test_matrices_and_pixels(
    etstub: ct.CDLL, shape: Shape, diagonal: int, data: st.DataObject
) -> None:
    x = draw_tensor(data, shape)
    tensor = torch.from_numpy(x)
    check(etstub, "aten::tril.out", [x, diagonal], torch.tril(tensor, diagonal), data)
    check(etstub, "aten::triu.out", [x, diagonal], torch.triu(tensor, diagonal), data)
    matrix = torch.from_numpy(x.reshape(shape[0], -1))
    check(etstub, "aten::t_copy.out", [matrix.numpy()], matrix.t().contiguous(), data)
    factor = data.draw(st.integers(1, 3))
    image = floats(data.draw(seeds), (*shape[:1], shape[0] * factor**2, *shape[-2:]))
    expected = torch.nn.functional.pixel_shuffle(torch.from_numpy(image), factor)
    check(etstub, "aten::pixel_shuffle.out", [image, factor], expected, data)
    check(
        etstub,
        "aten::pixel_unshuffle.out",
        [expected.numpy(), factor],
        torch.from_numpy(image),
        data,
    )
    dims = data.draw(st.permutations(range(-len(shape), 0)))[:2]
    expected = torch.diagonal(tensor, diagonal, *dims).contiguous()
    check(etstub, "aten::diagonal_copy.out", [x, diagonal, *dims], expected, data)


@oracle
@given(shapes(1, 3), shapes(0, 3), st.data())
def test_strides_over_memory(
    etstub: ct.CDLL, shape: Shape, sizes: Shape, data: st.DataObject
) -> None:
    """Elements as memory has them; sizes and strides must stay within it."""
    x = draw_tensor(data, shape)
    strides = [data.draw(st.integers(0, 7)) for _ in sizes]
    start = data.draw(st.integers(0, 5))
    last = start + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    arguments = [x, list(sizes), strides, start]
    if last < x.size:
        expected = torch.from_numpy(x).as_strided(sizes, strides, start).contiguous()
        check(etstub, "aten::as_strided_copy.out", arguments, expected)
    else:
        out = Out(sizes, x.dtype.type)
        with pytest.raises(RuntimeFailure, match="storage_offset"):
            run(etstub, "aten::as_strided_copy", *arguments, out)


@oracle
@given(shapes(1, 4), st.data())
def test_indexes_along_a_dimension(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    x = draw_tensor(data, shape)
    tensor, dim = torch.from_numpy(x), data.draw(st.integers(-len(shape), len(shape) - 1))
    smaller = tuple(
        data.draw(st.integers(0, 6 if axis == dim % len(shape) else size))
        for axis, size in enumerate(shape)
    )
    indices = draw_indices(data, smaller, 0, shape[dim])
    places = torch.from_numpy(indices)
    expected = torch.gather(tensor, dim, places)
    check(etstub, "aten::gather.out", [x, dim, indices, False], expected, data)
    chosen = indices.ravel()[:5].astype(np.int32)
    expected = torch.index_select(tensor, dim, torch.from_numpy(chosen))
    check(etstub, "aten::index_select.out", [x, dim, chosen], expected, data)


@oracle
@given(shapes(1, 3), st.data())
def test_scattering(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    """To different places each, as PyTorch leaves open which of several values stays."""
    x, source = (floats(data.draw(seeds), shape) for _ in range(2))
    dim = data.draw(st.integers(0, len(shape) - 1))
    indices = np.argsort(floats(data.draw(seeds), shape), axis=dim)
    tensors = torch.from_numpy(x), dim, torch.from_numpy(indices)
    values = torch.from_numpy(source)
    check(
        etstub, "aten::scatter.src_out", [x, dim, indices, source], torch.scatter(*tensors, values)
    )
    expected = torch.ops.aten.scatter.value(*tensors, 2.5)
    check(etstub, "aten::scatter.value_out", [x, dim, indices, 2.5], expected, data)
    repeated = np.zeros_like(indices)
    expected = torch.scatter_add(tensors[0], dim, torch.from_numpy(repeated), values)
    check(etstub, "aten::scatter_add.out", [x, dim, repeated, source], expected, data)


@oracle
@given(shapes(1, 4), st.data(), st.booleans())
def test_index_tensors(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, accumulate: bool
) -> None:
    """Any dimensions are indexed, by tensors that broadcast and count from either end."""
    x = floats(data.draw(seeds), shape)
    joint = data.draw(shapes(0, 2, 3))
    indices: list[Array | None] = []
    for size in shape:
        kept = joint[data.draw(st.integers(0, len(joint))) :]
        chosen = draw_indices(data, kept, -size, size)
        indices.append(data.draw(st.sampled_from([None, chosen])))
    assume(any(index is not None for index in indices))
    while indices[-1] is None:
        indices.pop()
    tensors = [None if index is None else torch.from_numpy(index) for index in indices]
    expected = torch.ops.aten.index.Tensor(torch.from_numpy(x), tensors)
    assume(expected.dim() <= 8)
    check(etstub, "aten::index.Tensor_out", [x, TensorList(indices)], expected.contiguous(), data)
    values = np.full(expected.shape[-1:], data.draw(st.integers(-3, 3)), np.float32)
    expected = torch.ops.aten.index_put(
        torch.from_numpy(x), tensors, torch.from_numpy(values), accumulate
    )
    arguments = [x, TensorList(indices), values, accumulate]
    check(etstub, "aten::index_put.out", arguments, expected, data)


@oracle
@given(shapes(1, 4), st.data())
def test_filling_by_a_mask(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    x = draw_tensor(data, shape)
    mask = ints(data.draw(seeds), shape[data.draw(st.integers(0, len(shape))) :], np.bool_)
    expected = torch.masked_fill(torch.from_numpy(x), torch.from_numpy(mask), 1)
    check(etstub, "aten::masked_fill.Scalar_out", [x, mask, 1], expected, data)
    value = np.array(1, x.dtype)
    expected = torch.fill(torch.from_numpy(x), torch.from_numpy(value))
    check(etstub, "aten::fill.Tensor_out", [x, value], expected)


@oracle
@given(shapes(1, 4), st.data(), st.booleans(), st.sampled_from([0, 2]))
def test_masks_as_indexes(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, accumulate: bool, room: int
) -> None:
    """A mask over any adjacent dimensions; how much it chooses decides the output's size."""
    x = draw_tensor(data, shape)
    first = data.draw(st.integers(0, len(shape) - 1))
    end = data.draw(st.integers(first + 1, len(shape)))
    mask = ints(data.draw(seeds), shape[first:end], np.bool_)
    indices = [None] * first + [mask]
    tensors = [None] * first + [torch.from_numpy(mask)]
    tensor = torch.from_numpy(x)
    expected = torch.ops.aten.index.Tensor(tensor, tensors).contiguous()
    out = Out(expected.shape, x.dtype.type, room=room)
    found = run(etstub, "aten::index.Tensor_out", Tensor(x), TensorList(indices), out)
    np.testing.assert_array_equal(found, expected.numpy())
    values = np.asarray(expected.numpy()[:1] if expected.numel() else np.zeros(1, x.dtype))
    values = values if first == 0 and data.draw(st.booleans()) else np.ones(1, x.dtype)
    accumulate = accumulate and x.dtype != np.bool_
    arguments = [x, TensorList(indices), values, accumulate]
    expected = torch.ops.aten.index_put(tensor, tensors, torch.from_numpy(values), accumulate)
    check(etstub, "aten::index_put.out", arguments, expected, data)


@oracle
@given(shapes(0, 4), st.data(), st.sampled_from([0, 2]))
def test_choosing_by_a_mask(etstub: ct.CDLL, shape: Shape, data: st.DataObject, room: int) -> None:
    x = draw_tensor(data, shape)
    narrow = tuple(data.draw(st.sampled_from([1, size])) for size in shape)
    mask = ints(data.draw(seeds), narrow[data.draw(st.integers(0, len(shape))) :], np.bool_)
    tensor, chosen = torch.from_numpy(x), torch.from_numpy(mask)
    expected = torch.masked_select(tensor, chosen)
    out = Out(expected.shape, x.dtype.type, room=room)
    found = run(etstub, "aten::masked_select", laid_out(x, data), laid_out(mask, data), out)
    np.testing.assert_array_equal(found, expected.numpy())
    source = np.resize(x[::-1] if x.ndim else x, x.size + 1)
    expected = torch.masked_scatter(tensor, chosen, torch.from_numpy(source))
    check(etstub, "aten::masked_scatter.out", [x, mask, source], expected, data)
    expected = torch.nonzero(tensor)
    out = Out(expected.shape, np.int64, room=room)
    found = run(etstub, "aten::nonzero", laid_out(x, data), out)
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize(
    ("indices", "reason"),
    [
        ([np.array([True, False, True])], "other sizes"),
        ([None, np.ones((3, 1), np.bool_)], "other sizes"),
        ([np.ones((2, 3), np.bool_), None], "other sizes"),
        ([np.array(True)], "other sizes"),
        ([np.array([True, False]), np.array([0, 1])], "only as the only index"),
        ([np.array([True, False]), np.array([True, False, True])], "only as the only index"),
    ],
)
def test_masks_that_do_not_fit_are_refused(
    etstub: ct.CDLL, indices: list[Array | None], reason: str
) -> None:
    x, out, values = np.ones((2, 3), np.float32), Out((2, 3)), np.ones(1, np.float32)
    with pytest.raises(RuntimeFailure, match=reason):
        run(etstub, "aten::index.Tensor_out", x, TensorList(indices), out)
    with pytest.raises(RuntimeFailure, match=reason):
        run(etstub, "aten::index_put", x, TensorList(indices), values, False, out)


@oracle
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.booleans())
def test_repeated_indexes(etstub: ct.CDLL, counts: list[int], stated: bool) -> None:
    repeats = np.array(counts)
    expected = torch.repeat_interleave(torch.from_numpy(repeats))
    arguments = [repeats, sum(counts) if stated else None]
    check(etstub, "aten::repeat_interleave.Tensor_out", arguments, expected)
