"""Calls of every bundled operator in several sizes, for the fit of instructions.

The zoo calls an everyday operator once or twice, and in one size. These programs call each in eight
or more: what a network holds beside its operators is left out, and no exporter is needed. Operands
larger than a tile are repeated on the device from a tile of random numbers, so that programs stay
small. The sound calls of `tests.support.operators` name the arguments of every operator.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from harness.config.board import Capacity
from tests.support.kernels import Array, Out, Tensor, TensorList, argument
from tests.support.operators import CALLS, CHAR, int32s
from tests.support.programs import ProgramBuilder

Shape = tuple[int, ...]
Arguments = list[Any]

TILE: Final = 61
"""Elements of a tile: a prime, so that rows differ."""

SOURCE: Final = 16_000
"""Bytes that a tile is repeated to; a larger operand is repeated on its own."""

ROOM: Final = 340_000
"""Bytes of planned memory of a program: what each emulated board but the smallest has."""

SMALL_ROOM: Final = 800
"""Bytes of planned memory of a program for a board with a few kilobytes."""

SHAPES: Final[list[Shape]] = [
    *((1, 6), (5, 4), (3, 40), (16, 16), (2, 300), (64, 24), (1, 2000)),
    *((4, 6, 10), (1, 8, 12, 12), (1, 16, 9, 5)),
]
IMAGES: Final[list[Shape]] = [
    *((1, 3, 8, 8), (1, 4, 16, 12), (1, 8, 10, 10), (2, 16, 6, 6), (1, 24, 12, 12)),
    (1, 1, 28, 28),
]
TALL: Final[list[Shape]] = [(2, 8), (5, 16), (12, 10), (8, 64), (40, 30), (3, 200), (64, 64)]
CUBES: Final[list[Shape]] = [
    (2, 3, 8),
    (4, 6, 16),
    (3, 10, 5),
    (8, 16, 16),
    (2, 40, 30),
    (16, 4, 48),
]


@dataclass
class Calibration:
    """A program, and the instructions that are measured; the others prepare operands."""

    program: bytes
    instructions: set[int]


def floats(*shape: int, low: float = 0.05, high: float = 0.95) -> Array:
    """Return random numbers that functions such as acos and log take."""
    return np.random.default_rng(3).uniform(low, high, shape).astype(np.float32)


def signed(*shape: int) -> Array:
    return floats(*shape, low=-2, high=2)


def int8s(*shape: int) -> Array:
    return np.random.default_rng(2).integers(-128, 128, shape, np.int8)


def whole(*shape: int, dtype: Any = np.int64) -> Array:
    return np.random.default_rng(4).integers(1, 50, shape).astype(dtype)


def masks(*shape: int) -> Array:
    return np.random.default_rng(5).integers(0, 2, shape) == 1


def out8(*shape: int) -> Out:
    return Out(shape, np.int8)


def last(data: Array) -> Tensor:
    """An image with adjacent channels."""
    return Tensor(data, (0, 2, 3, 1))


def last8(*shape: int) -> Out:
    return Out(shape, np.int8, (0, 2, 3, 1))


# Elementwise.

_SIGNED: Final = "relu sigmoid tanh gelu elu leaky_relu hardtanh hardsigmoid hardswish silu"
_UNARY: Final = (
    "abs acos asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 neg"
    " reciprocal round rsqrt sign sin sinh sqrt tan trunc"
)
_EXTRA: Final[dict[str, Arguments]] = {
    "gelu": ["none"],
    "elu": [1.0, 1.0, 1.0],
    "leaky_relu": [0.1],
    "hardtanh": [0.0, 6.0],
}
_COMPARED: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def _elementwise(name: str) -> Iterator[Arguments]:
    base, _, overload = name.removeprefix("aten::").partition(".")
    if not name.startswith("aten::"):
        return
    if base in _SIGNED.split() and overload == "out":
        for shape in SHAPES:
            yield [signed(*shape), *_EXTRA.get(base, ()), Out(shape)]
            if base in ("relu", "hardtanh"):  # the layers that compute on int8 itself
                yield [int8s(*shape), *map(int, _EXTRA.get(base, ())), Out(shape, np.int8)]
    elif base in _UNARY.split():
        for shape in SHAPES:
            yield [floats(*shape), Out(shape)]
    elif base == "acosh":
        for shape in SHAPES:
            yield [floats(*shape, low=1.1, high=4), Out(shape)]
    elif base in ("isnan", "isinf"):
        for shape in SHAPES:
            yield [floats(*shape), Out(shape, np.bool_)]
    elif base in _COMPARED or base.startswith("logical"):
        yield from _comparisons(base, overload)
    elif base in _ARITHMETIC:
        yield from _arithmetic(base, overload)
    elif base.startswith("bitwise") or "shift__" in base:
        small = 3 if "shift" in base else 50
        for shape in SHAPES:
            for dtype in (np.int64, np.int32):
                x, y = whole(*shape, dtype=dtype), whole(*shape, dtype=dtype) % small
                other = [] if base == "bitwise_not" else [3 if "Scalar" in overload else y]
                yield [x, *other, Out(shape, dtype)]
        if (
            base in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
            and "Scalar" not in name
        ):
            for shape in SHAPES[:6]:
                other = [] if base == "bitwise_not" else [masks(*shape)]
                yield [masks(*shape), *other, Out(shape, np.bool_)]


def _comparisons(base: str, overload: str) -> Iterator[Arguments]:
    for make in (floats, whole, masks):
        for shape in SHAPES if make is floats else SHAPES[:7]:
            x = make(*shape)
            if base == "logical_not":
                yield [x, Out(shape, np.bool_)]
            elif "Scalar" in overload:
                yield [x, 0.5 if make is floats else 1, Out(shape, np.bool_)]
            else:
                yield [x, make(*shape), Out(shape, np.bool_)]
                if len(shape) > 1 and shape[0] > 1:
                    yield [x, make(*shape[1:]), Out(shape, np.bool_)]


_ARITHMETIC: Final[dict[str, tuple[Arguments, str]]] = {
    "add": ([1], "fi"),
    "sub": ([1], "fi"),
    "rsub": ([1], "fi"),
    "mul": ([], "fi"),
    "div": ([], "f"),
    "maximum": ([], "fi"),
    "minimum": ([], "fi"),
    "fmod": ([], "fi"),
    "remainder": ([], "fi"),
    "floor_divide": ([], "f"),
    "atan2": ([], "f"),
    "pow": ([], "fi"),
}
"""Arguments behind the operands, and the types: float32, and int64 with int32."""


def _arithmetic(base: str, overload: str) -> Iterator[Arguments]:
    behind, types = _ARITHMETIC[base]
    if "mode" in overload:
        behind = ["floor"]
    for shape in SHAPES:
        for dtype in (np.float32, np.int64, np.int32) if types == "fi" else (np.float32,):
            if base == "fmod" and overload == "Tensor_out" and dtype != np.float32:
                continue
            kind = np.dtype(dtype).kind
            x, y = (
                signed(*s)
                if kind == "f" and base != "pow"
                else floats(*s) + 0.5
                if kind == "f"
                else whole(*s, dtype=dtype) % 7 + 1
                for s in (shape, shape)
            )
            x, y = x.astype(dtype), np.flip(y).astype(dtype)  # x / x is quick without an FPU
            number = 1.75 if kind == "f" else 2
            if base == "pow" and overload == "Scalar_out":
                yield [number, x, Out(shape, dtype)]
            elif "Scalar" in overload:
                yield [x, number, *behind, Out(shape, dtype)]
                if base == "pow" and kind == "f":
                    yield [x, 2, Out(shape, dtype)]
            else:
                yield [x, y, *behind, Out(shape, dtype)]
                if kind == "f":
                    yield from _broadcast(x, y, behind, shape)


def _broadcast(x: Array, y: Array, behind: Arguments, shape: Shape) -> Iterator[Arguments]:
    yield [x, y.reshape(-1)[:1], *behind, Out(shape)]
    if shape[0] > 1:
        yield [x, np.ascontiguousarray(y[0]), *behind, Out(shape)]
    if len(shape) == 4:
        yield [x, np.ascontiguousarray(y[:, :, :1, :1]), *behind, Out(shape)]
    elif shape[-1] > 1:
        yield [x, np.ascontiguousarray(y[..., :1]), *behind, Out(shape)]


# Reductions, orders and indexes.


def _reductions(name: str) -> Iterator[Arguments]:
    base, _, overload = name.removeprefix("aten::").partition(".")
    for shape in [*TALL, *CUBES]:
        x = floats(*shape)
        if base in ("all", "any"):
            x = masks(*shape)
        kind = x.dtype.type
        if overload in ("unary_out", "all_out", "dtype_out") or name == "aten::prod.out":
            none = [None] if overload == "dtype_out" or base == "prod" else []
            yield [x, *none, Out((), kind)]
            continue
        for dim in (len(shape) - 1, 0):
            kept = tuple(size for i, size in enumerate(shape) if i != dim)
            out = Out(kept, kind)
            index = Out(kept, np.int64)
            match base:
                case "mean" | "sum":
                    yield [x, [dim], False, None, out]
                case "amax" | "amin":
                    yield [x, [dim], False, out]
                case "all" | "any":
                    yield [x, [dim] if overload == "dims_out" else dim, False, out]
                case "prod":
                    yield [x, dim, False, None, out]
                case "cumsum":
                    yield [x, dim, None, Out(shape, kind)]
                case "var" if overload == "out":
                    yield [x, [dim], True, False, out]
                case "var":
                    yield [x, [dim], 1, False, out]
                case "var_mean":
                    yield [x, [dim], 1, False, out, Out(kept)]
                case "argmax" | "argmin":
                    yield [x, dim, False, index]
                case "max" | "min":
                    yield [x, dim, False, out, index]
                case "_softmax" | "_log_softmax":
                    yield [x, dim, False, Out(shape)]
                case "sort" if overload == "values":
                    yield [x, dim, True, Out(shape), Out(shape, np.int64)]
                case "sort":
                    yield [x, True, dim, False, Out(shape), Out(shape, np.int64)]
    if base == "sum":
        for shape in CUBES:
            yield [whole(*shape), [1], False, None, Out((shape[0], shape[2]), np.int64)]
    if name in ("aten::mean.out", "aten::sum.IntList_out"):
        for shape in IMAGES:
            yield [signed(*shape), [2, 3], True, None, Out((*shape[:2], 1, 1))]


_REDUCTIONS: Final = frozenset(
    (
        *("mean", "sum", "amax", "amin", "all", "any", "prod", "cumsum", "var", "var_mean", "max"),
        *("min", "argmax", "argmin", "sort", "_softmax", "_log_softmax"),
    )
)


def _topk() -> Iterator[Arguments]:
    for rows, width in [*TALL, (1, 500)]:
        for k in {1, min(5, width), width // 2}:
            yield [floats(rows, width), k, 1, True, True, Out((rows, k)), Out((rows, k), np.int64)]


def _indexed(name: str) -> Iterator[Arguments]:
    rng = np.random.default_rng(6)
    for rows, width in [*TALL, (100, 8), (300, 3)]:
        table = floats(rows, width)
        for count in {1, min(rows, 3), rows // 2}:
            index = rng.integers(0, rows, count)
            many = rng.integers(0, rows, (count, width))
            shape, chosen = Out((rows, width)), Out((count, width))
            match name:
                case "embedding":
                    yield [table, index, -1, False, False, chosen]
                case "index":
                    yield [table, TensorList([index]), chosen]
                    column = rng.integers(0, width, count)
                    yield [table, TensorList([index, column]), Out((count,))]
                case "index_select":
                    yield [table, 0, index, chosen]
                    column = rng.integers(0, width, count)
                    yield [table, 1, column, Out((rows, count))]
                    yield [int8s(rows, width), 0, index, Out((count, width), np.int8)]
                case "gather":
                    yield [table, 0, many, False, chosen]
                    yield (
                        [table, 1, many % width, False, chosen]
                        if count == rows
                        else [table, 0, many[:, :1], False, Out((count, 1))]
                    )
                case "index_put":
                    yield [table, TensorList([index]), floats(count, width), False, shape]
                case "index_put_":
                    yield [Out((rows, width)), TensorList([index]), floats(count, width), False]
                case "scatter.src" | "scatter_add":
                    yield [table, 0, many, floats(count, width), shape]
                case "scatter_reduce.two":
                    for kind in ("sum", "mean"):
                        yield [table, 0, many, floats(count, width), kind, True, shape]
                case "_embedding_bag" | "_embedding_bag_forward_only":
                    starts = np.arange(0, count, 2)[:TILE]  # repeated they would not be sorted
                    for mode in (0, 1):
                        bags = [Out((len(starts),), np.int64) for _ in range(2)]
                        outs = [Out((len(starts), width)), Out((count,), np.int64), *bags]
                        yield [table, index, starts, False, mode, False, None, False, -1, *outs]
                case "scatter.value":
                    yield [table, 0, many, 0.5, shape]
    for shape in CUBES if name == "index" else ():
        index = rng.integers(0, shape[1], max(1, shape[1] // 2))
        chosen = (shape[0], len(index), shape[2])
        yield [floats(*shape), TensorList([None, index]), Out(chosen)]
        yield [int8s(*shape), TensorList([None, index]), Out(chosen, np.int8)]
    for shape in CUBES if name == "index" else ():  # edges of images, whose orders ExecuTorch keeps
        channels, size = 4 * shape[0], shape[1] + 6
        edge = np.abs(np.arange(-1, size + 1) % size)
        image, wide = int8s(1, channels, size, size), int8s(1, channels, size, size + 2)
        at_columns, at_rows = TensorList([None, None, None, edge]), TensorList([None, None, edge])
        yield [last(image), at_columns, Out(wide.shape, np.int8, (0, 3, 2, 1))]
        tall = (1, channels, size + 2, size + 2)
        yield [Tensor(wide, (0, 3, 2, 1)), at_rows, Out(tall, np.int8, (0, 2, 1, 3))]


def _masked(name: str) -> Iterator[Arguments]:
    for shape in SHAPES:
        x, mask = floats(*shape), masks(*shape)
        count = int(_tiled(mask).sum())
        match name:
            case "aten::masked_fill.Scalar_out":
                yield [x, mask, 0.5, Out(shape)]
            case "aten::masked_select.out":
                yield [x, mask, Out((count,))]
            case "aten::masked_scatter.out":
                yield [x, mask, floats(count), Out(shape)]
            case "aten::nonzero.out":
                yield [mask, Out((count, len(shape)), np.int64)]
            case "aten::where.self_out":
                yield [mask, x, floats(*shape), Out(shape)]
                yield [mask, x, floats(1), Out(shape)]
            case "aten::clamp.Tensor_out":
                yield [x, floats(*shape), floats(*shape) + 0.5, Out(shape)]


# Copies.


def _copies(name: str) -> Iterator[Arguments]:
    base = name.partition("::")[2]
    for make in (floats, int8s):
        for shape in [*SHAPES, *CUBES] if make is floats else SHAPES[:6]:
            x = make(*shape)
            kind = x.dtype.type
            out = Out(shape, kind)
            rank, tail = len(shape), shape[1:]
            match base:
                case "clone.out":
                    yield [x, None, out]
                case "copy.out":
                    yield [x, x, False, out]
                case "copy_":
                    yield [out, x, False]
                case "alias_copy.out" | "detach_copy.out" | "lift_fresh_copy.out":
                    yield [x, out]
                case "_to_copy.out":
                    yield [x, False, None, out]
                    yield [x, False, None, Out(shape, np.int64)]
                case "_clone_dim_order.out":
                    yield [x, False, [*range(rank)], out]
                    if rank == 4:
                        yield [x, False, [0, 2, 3, 1], Out(shape, kind, (0, 2, 3, 1))]
                        yield [last(x), False, [0, 1, 2, 3], out]
                    elif kind is np.int8:
                        image = int8s(1, 4 + 2 * shape[0] % 9, 6 + shape[0] % 7, 6 + shape[-1] % 9)
                        for order in ((0, 1, 2, 3), (0, 2, 1, 3)):
                            copied = last8(*image.shape)
                            yield [Tensor(image, order), False, [0, 2, 3, 1], copied]
                case "_to_dim_order_copy.out":
                    yield [x, False, [*range(rank)], out]
                    yield [x, False, [*range(rank)], Out(shape, np.int64)]
                case "_empty_dim_order.out":
                    yield [[*shape], [*range(rank)], out]
                case "view_copy.out":
                    yield [x, [prod(shape)], Out((prod(shape),), kind)]
                case "unsqueeze_copy.out":
                    yield [x, 1, Out((shape[0], 1, *tail), kind)]
                case "squeeze_copy.dim_out":
                    yield [x.reshape(shape[0], 1, *tail), 1, out]
                case "squeeze_copy.dims_out":
                    yield [x.reshape(shape[0], 1, *tail), [1], out]
                case "permute_copy.out" | "transpose.out" if base[0] == "p" or kind is np.int8:
                    orders = [[1, 0]] if rank == 2 else [[0, 2, 1], [2, 0, 1]]
                    for order in [[0, 2, 3, 1], [0, 3, 1, 2]] if rank == 4 else orders:
                        yield [x, order, Out(tuple(shape[i] for i in order), kind)]
                case "transpose_copy.int_out":
                    sizes = (shape[1], shape[0], *shape[2:])
                    yield [x, 0, 1, Out(sizes, kind)]
                    yield [x, rank - 2, rank - 1, Out((*shape[:-2], shape[-1], shape[-2]), kind)]
                case "t_copy.out" if rank == 2:
                    yield [x, Out(shape[::-1], kind)]
                case "expand_copy.out":
                    yield [x, [3, *shape], False, Out((3, *shape), kind)]
                    one = np.ascontiguousarray(x[..., :1])
                    yield [one, [*shape[:-1], 20], False, Out((*shape[:-1], 20), kind)]
                case "repeat.out":
                    yield [x, [2] * rank, Out(tuple(2 * size for size in shape), kind)]
                    yield [x, [*[1] * (rank - 1), 3], Out((*shape[:-1], 3 * shape[-1]), kind)]
                case "flip.out":
                    yield [x, [rank - 1], out]
                    yield [x, [0], out]
                case "roll.out":
                    yield [x, [1], [rank - 1], out]
                    yield [x, [1], [0], out]
                case "cat.out":
                    for dim in {0, 1, rank - 1}:
                        sizes = [*shape]
                        sizes[dim] *= 2
                        yield [TensorList([x, x]), dim, Out(sizes, kind)]
                case "stack.out":
                    yield [TensorList([x, x]), 0, Out((2, *shape), kind)]
                    yield [TensorList([x, x]), rank, Out((*shape, 2), kind)]
                case "slice_copy.Tensor_out":
                    for dim in {0, 1, rank - 1}:
                        size = -(-shape[dim] // 2)
                        sizes = (*shape[:dim], size, *shape[dim + 1 :])
                        yield [x, dim, 0, size, 1, Out(sizes, kind)]
                        yield [x, dim, 0, shape[dim], 2, Out(sizes, kind)]
                case "slice_scatter.out":
                    size = -(-shape[1] // 2)
                    y = make(shape[0], size, *shape[2:])
                    yield [x, y, 1, 0, size, 1, out]
                case "select_copy.int_out":
                    yield [x, 0, 0, Out(tail, kind)]
                    yield [x, rank - 1, 0, Out(shape[:-1], kind)]
                case "select_scatter.out":
                    yield [x, make(*tail), 0, 0, out]
                case "narrow_copy.out":
                    yield [x, 1, 0, shape[1] // 2, Out((shape[0], shape[1] // 2, *shape[2:]), kind)]
                case "split_copy.Tensor_out" if shape[1] % 2 == 0:
                    half = (shape[0], shape[1] // 2, *shape[2:])
                    yield [x, shape[1] // 2, 1, TensorList([Out(half, kind), Out(half, kind)])]
                case "split_with_sizes_copy.out" if shape[1] % 2 == 0:
                    half = (shape[0], shape[1] // 2, *shape[2:])
                    size = shape[1] // 2
                    yield [x, [size, size], 1, TensorList([Out(half, kind), Out(half, kind)])]
                case "unbind_copy.int_out" if shape[0] <= 8:
                    yield [x, 0, TensorList([Out(tail, kind) for _ in range(shape[0])])]
                case "tril.out" | "triu.out":
                    yield [x, 0, out]
                case "constant_pad_nd.out":
                    yield [
                        x,
                        [1, 2],
                        0.5 if make is floats else 1,
                        Out((*shape[:-1], shape[-1] + 3), kind),
                    ]
                    if rank > 2:
                        sizes = (*shape[:-2], shape[-2] + 2, shape[-1] + 2)
                        yield [x, [1, 1, 1, 1], 0.0 if make is floats else 0, Out(sizes, kind)]
                case "pad.out" if kind is np.int8:
                    y = x.reshape((1,) * (4 - rank) + shape)
                    pads = [0, 1, 1, 0] if rank == 4 else [0, 0, 0, 2]
                    sizes = tuple(a + 2 * b for a, b in zip(y.shape, pads, strict=True))
                    yield [x, pads, pads, 7, Out(sizes[4 - rank :], kind)]
                case "as_strided_copy.out":
                    sizes = (shape[0], max(1, shape[1] // 2))
                    yield [x, [*sizes], [prod(tail), 1], 0, Out(sizes, kind)]
                    yield [x, [*sizes], [1, shape[0]], 0, Out(sizes, kind)]
                case "diagonal_copy.out":
                    yield [x, 0, 0, 1, Out((*shape[2:], min(shape[:2])), kind)]
                case "unfold_copy.out" if shape[1] >= 4:
                    count = (shape[1] - 3) // 2 + 1
                    yield [x, 1, 3, 2, Out((shape[0], count, *shape[2:], 3), kind)]
                case "et_view.default":
                    yield [x, [prod(shape)], Out((prod(shape),), kind)]
                case "et_copy_index.tensor":
                    yield [Out((3, *shape), kind), x, 2]


def _made(name: str) -> Iterator[Arguments]:
    for shape in SHAPES:
        for kind in (np.float32, np.int64):
            out, count = Out(shape, kind), prod(shape)
            match name.partition("::")[2]:
                case "arange.out":
                    yield [count, Out((count,), kind)]
                case "arange.start_out":
                    yield [2, 2 + 2 * count, 2, Out((count,), kind)]
                case "empty.out":
                    yield [[*shape], None, out]
                case "full.out":
                    yield [[*shape], 1.5 if kind is np.float32 else 2, out]
                case "full_like.out":
                    yield [floats(*shape), 1.5 if kind is np.float32 else 2, None, out]
                case "fill.Scalar_out" if kind is np.float32:
                    yield [floats(*shape), 1.5, out]
                case "fill.Tensor_out" if kind is np.float32:
                    yield [floats(*shape), np.array(1.5, np.float32), out]
                case "ones.out" | "zeros.out":
                    yield [[*shape], out]
        match name.partition("::")[2]:
            case "sym_numel":
                yield [floats(*shape), 0]
            case "sym_size.int":
                yield [floats(*shape), 1, 0]
    if name == "aten::repeat_interleave.Tensor_out":
        for count in (2, 5, 20, 100, 400):
            repeats = whole(count) % 4
            total = int(_tiled(repeats).sum())
            yield [repeats, total, Out((total,), np.int64)]


# Images, normalization and products of float32.


def _images(name: str) -> Iterator[Arguments]:
    base = name.removeprefix("aten::")
    for shape in IMAGES:
        n, c, h, w = shape
        x = signed(*shape)
        halves = (n, c, h // 2, w // 2)
        large = (n, c, h * 2, w * 2)
        stats = [floats(c) for _ in range(4)]
        match base:
            case "_adaptive_avg_pool2d.out":
                for size in ([1, 1], [2, 2], [3, 2]):
                    yield [x, size, Out((n, c, *size))]
            case "adaptive_max_pool2d.out":
                for size in ([1, 1], [2, 2], [3, 2]):
                    yield [x, size, Out((n, c, *size)), Out((n, c, *size), np.int64)]
            case "avg_pool2d.out":
                yield [x, [2, 2], [2, 2], [0, 0], False, True, None, Out(halves)]
                yield [x, [3, 3], [1, 1], [1, 1], False, True, None, Out(shape)]
                yield [x, [h, w], [h, w], [0, 0], False, True, None, Out((n, c, 1, 1))]
            case "max_pool2d_with_indices.out":
                for k, s, p, sizes in ((2, 2, 0, halves), (3, 1, 1, shape)):
                    outs = Out(sizes), Out(sizes, np.int64)
                    yield [x, [k, k], [s, s], [p, p], [1, 1], False, *outs]
            case "avg_pool3d.out":
                for k in ([1, 2, 2], [c, 1, 1]):
                    out = Out((n, c // k[0], h // k[1], w // k[2]))
                    yield [x, k, k, [0, 0, 0], False, True, None, out]
            case "max_pool3d_with_indices.out":
                for k in ([1, 2, 2], [c, 1, 1]):
                    pooled = n, c // k[0], h // k[1], w // k[2]
                    outs = Out(pooled), Out(pooled, np.int64)
                    yield [x, k, k, [0, 0, 0], [1, 1, 1], False, *outs]
            case "_upsample_bilinear2d_aa.out":
                yield [x, [h // 2, w // 2], False, None, None, Out(halves)]
                yield [x, [2 * h, 2 * w], False, None, None, Out(large)]
            case "upsample_bilinear2d.out":
                yield [x, [2 * h, 2 * w], False, 2.0, 2.0, Out(large)]
            case "upsample_bilinear2d.vec_out":
                yield [x, None, False, [2.0, 2.0], Out(large)]
            case "upsample_nearest2d.out":
                yield [x, [2 * h, 2 * w], 2.0, 2.0, Out(large)]
            case "upsample_nearest2d.vec_out":
                yield [x, None, [2.0, 2.0], Out(large)]
            case "grid_sampler_2d.out":
                grid = floats(n, h, w, 2, low=-1, high=1)
                yield [x, grid, 0, 0, False, Out(shape)]
                yield [x, grid[:, : h // 2], 0, 0, False, Out((n, c, h // 2, w))]
            case "_native_batch_norm_legit_no_training.out":
                yield [x, *stats, 0.1, 1e-5, Out(shape), Out((0,)), Out((0,))]
                yield [
                    last(x),
                    *stats,
                    0.1,
                    1e-5,
                    Out(shape, order=(0, 2, 3, 1)),
                    Out((0,)),
                    Out((0,)),
                ]
            case "_native_batch_norm_legit.out":
                yield [x, *stats, False, 0.1, 1e-5, Out(shape), Out((0,)), Out((0,))]
            case "_native_batch_norm_legit.no_stats_out":
                yield [x, *stats[:2], True, 0.1, 1e-5, Out(shape), Out((c,)), Out((c,))]
            case "native_group_norm.out":
                for g in {1, 2 if c % 2 == 0 else 1, c}:
                    sums = Out((n, g)), Out((n, g))
                    yield [x, *stats[:2], n, c, h * w, g, 1e-5, Out(shape), *sums]
            case "pixel_shuffle.out" if c % 4 == 0:
                yield [x, 2, Out((n, c // 4, h * 2, w * 2))]
            case "pixel_unshuffle.out":
                yield [x, 2, Out((n, c * 4, h // 2, w // 2))]
            case "reflection_pad2d.out" | "replication_pad2d.out":
                yield [x, [1, 2, 1, 2], Out((n, c, h + 3, w + 3))]
            case "reflection_pad3d.out" | "replication_pad3d.out":
                yield [x, [1, 1, 1, 1, 0, 0], Out((n, c, h + 2, w + 2))]
            case "reflection_pad1d.out" | "replication_pad1d.out":
                yield [signed(n * c, h * w), [1, 2], Out((n * c, h * w + 3))]
            case "glu.out":
                yield [x, 3, Out((n, c, h, w // 2))]
                if c % 2 == 0:
                    yield [x, 1, Out((n, c // 2, h, w))]
            case "logit.out":
                yield [floats(*shape), 0.25, Out(shape)]
            case "native_layer_norm.out":
                yield [
                    x,
                    [w],
                    floats(w),
                    floats(w),
                    1e-5,
                    Out(shape),
                    Out((n, c, h, 1)),
                    Out((n, c, h, 1)),
                ]
                rows, width = n * c, h * w
                outs = Out((rows, width)), Out((rows, 1)), Out((rows, 1))
                y = signed(rows, width)
                yield [y, [width], floats(width), floats(width), 1e-5, *outs]
            case "clamp.out":
                yield [x, -1.0, 1.0, Out(shape)]
                yield [x, None, 1.0, Out(shape)]
                yield [whole(*shape), 2, 20, Out(shape, np.int64)]
                yield [int8s(*shape), -100, 100, Out(shape, np.int8)]
            case "_cdist_forward.out":
                yield [floats(h, w), floats(c, w), 2.0, None, Out((h, c))]
            case "_pdist_forward.out":
                yield [floats(h, w), 2.0, Out((h * (h - 1) // 2,))]
            case "choose_qparams.Tensor_out":
                pass


_SIZES: Final = [
    (1, 8, 4),
    (3, 16, 10),
    (8, 12, 12),
    (1, 128, 40),
    (16, 32, 32),
    (5, 7, 9),
    (1, 400, 30),
    (20, 64, 8),
]
"""Rows, length of the sum and columns of matrix products."""


def _products(name: str) -> Iterator[Arguments]:
    for rows, length, columns in _SIZES:
        x, y = signed(rows, length), signed(length, columns)
        w, bias, out = signed(columns, length), signed(columns), Out((rows, columns))
        match name:
            case "aten::mm.out":
                yield [x, y, out]
            case "aten::addmm.out":
                yield [bias, x, y, 1, 1, out]
            case "aten::linear.out":
                yield [x, w, bias, out]
            case "aten::bmm.out":
                for batch in (1, 4):
                    a, b = signed(batch, rows, length), signed(batch, length, columns)
                    yield [a, b, Out((batch, rows, columns))]
            case "cortex_m::quantized_linear.out":
                x8, w8 = int8s(rows, length), int8s(columns, length)
                numbers = [None, 5, 0, 3, [1 << 30], [-7], 127, -128]
                yield [x8, w8, int32s(columns, 9), *numbers, out8(rows, columns)]
            case "cortex_m::quantized_batch_matmul.out":
                for batch in (1, 4):
                    a, b = int8s(batch, rows, length), int8s(batch, columns, length)
                    yield [a, 5, b, 6, 3, 1 << 30, -7, None, out8(batch, rows, columns)]


_MULTIPLIED: Final = [
    ((1, 4, 8, 8), 8, 3, 1, 1, 4),
    ((1, 8, 10, 10), 16, 3, 1, 1, 8),
    ((1, 3, 12, 12), 12, 3, 1, 0, 3),
    ((1, 16, 6, 6), 32, 3, 2, 1, 16),
    ((1, 6, 1, 40), 12, (1, 5), 1, (0, 2), 6),
]
_LAYERS: Final = [
    # image, output channels, kernel, stride, padding, groups
    ((1, 2, 4, 4), 4, 2, 2, 0, 1),
    ((1, 16, 8, 8), 8, 2, 2, 0, 1),
    ((1, 4, 10, 10), 4, 2, 2, 0, 1),
    ((1, 8, 7, 7), 6, 4, 2, 1, 1),
    ((1, 4, 6, 6), 4, 3, 2, 1, 1),
    ((1, 6, 5, 5), 3, 3, 1, 1, 1),
    ((1, 4, 8, 8), 4, 2, 1, 0, 1),
    ((1, 3, 12, 12), 8, 3, 1, 1, 1),
    ((1, 8, 10, 10), 16, 3, 1, 1, 1),
    ((1, 16, 8, 8), 16, 3, 2, 1, 1),
    ((1, 6, 9, 9), 10, 3, 1, 0, 1),
    ((1, 4, 16, 16), 12, 5, 2, 2, 1),
    ((1, 32, 6, 6), 8, 3, 1, 1, 1),
    ((1, 8, 12, 12), 16, 1, 1, 0, 1),
    ((1, 32, 6, 6), 32, 1, 1, 0, 1),
    ((1, 10, 8, 8), 6, 1, 1, 0, 1),
    ((1, 64, 4, 4), 24, 1, 1, 0, 1),
    ((1, 16, 10, 10), 16, 1, 2, 0, 1),
    ((1, 8, 12, 12), 8, 3, 1, 1, 8),
    ((1, 16, 10, 10), 16, 3, 2, 1, 16),
    ((1, 32, 6, 6), 32, 3, 1, 1, 32),
    ((1, 6, 14, 9), 6, 5, 1, 2, 6),
    ((1, 24, 1, 40), 24, (1, 3), 1, (0, 1), 24),
    ((1, 13, 12, 12), 13, 3, 1, 1, 13),
    ((1, 15, 10, 10), 15, 3, 1, 1, 15),
    ((1, 30, 8, 8), 30, 3, 1, 1, 30),
    ((1, 48, 6, 6), 48, 3, 1, 1, 48),
    ((1, 18, 9, 9), 18, 3, 2, 1, 18),
    ((1, 8, 10, 10), 8, 3, 1, 1, 2),
    ((1, 16, 8, 8), 16, 3, 1, 1, 4),
    ((1, 24, 6, 6), 24, 1, 1, 0, 3),
    ((1, 12, 9, 9), 24, 3, 2, 1, 3),
    ((1, 32, 8, 8), 32, 1, 1, 0, 4),
    ((1, 16, 12, 12), 16, 3, 1, 1, 2),
    ((1, 32, 6, 6), 16, 3, 1, 1, 2),
    ((1, 10, 10, 10), 20, 5, 1, 2, 5),
    ((1, 12, 14, 14), 12, 3, 1, 0, 4),
    ((1, 32, 10, 10), 64, 1, 1, 0, 2),
    *_MULTIPLIED,
    ((1, 16, 1, 60), 16, (1, 5), 1, (0, 2), 1),
    ((1, 1, 20, 12), 16, 3, 1, 1, 1),
    ((1, 1, 28, 28), 8, 5, 1, 0, 1),
]


def _pair(value: int | Shape) -> Shape:
    return value if isinstance(value, tuple) else (value, value)


def _stage(channels: int) -> Arguments:
    return [5, 3, int32s(channels, 1 << 30), int32s(channels, -9), -128, 127]


def _convolutions(name: str) -> Iterator[Arguments]:
    for shape, channels, kernel, stride, padding, groups in _LAYERS:
        n, c, h, w = shape
        k, p, s = _pair(kernel), _pair(padding), (stride, stride)
        size = [(a + 2 * b - d) // stride + 1 for a, b, d in zip((h, w), p, k, strict=True)]
        out = (n, channels, *size)
        common = [[*s], [*p], [1, 1]]
        per = c // groups
        depthwise = groups == c or c == 1
        if name == "aten::convolution.out":
            weight, bias = signed(channels, per, *k), signed(channels)
            tail = [*common, False, [0, 0], groups]
            yield [signed(*shape), weight, bias, *tail, Out(out)]
            yield [last(signed(*shape)), last(weight), bias, *tail, Out(out, order=(0, 2, 3, 1))]
            if groups == 1:
                up = tuple(
                    (a - 1) * stride - 2 * b + d for a, b, d in zip((h, w), p, k, strict=True)
                )
                turned = [*common, True, [0, 0], 1]
                yield [
                    signed(*shape),
                    signed(c, channels, *k),
                    bias,
                    *turned,
                    Out((n, channels, *up)),
                ]
            continue
        x, bias8 = int8s(*shape), int32s(channels, 9)
        scratch = Out((4 * k[0] * k[1] * c,), np.int8)
        nhwc = name.endswith("_nhwc.out")
        image: Any = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if nhwc else last(x)
        result = out8(n, *size, channels) if nhwc else last8(*out)
        if "depthwise" in name:
            if depthwise:
                weight8 = int8s(1, *k, channels)
                numbers = [*common, channels // c, *_stage(channels)]
                yield [image, weight8, bias8, *numbers, scratch, result]
                if c > 1 and not nhwc:
                    yield [x, weight8, bias8, *numbers, scratch, out8(*out)]
        elif "transpose" in name:
            if groups == 1:
                weight8 = int8s(channels, *k, c)
                up = tuple(
                    (a - 1) * stride - 2 * b + d for a, b, d in zip((h, w), p, k, strict=True)
                )
                result = out8(n, *up, channels) if nhwc else last8(n, channels, *up)
                middle = [weight8, bias8, [*s], [*p], [0, 0], [1, 1], *_stage(channels)]
                yield [image, *middle, scratch, scratch, result]
                if c > 1 and not nhwc:
                    yield [x, *middle, scratch, scratch, out8(n, channels, *up)]
        elif not (groups == c and groups > 1) and c > 1:
            weight8 = int8s(channels, *k, per)
            yield [image, weight8, bias8, *common, *_stage(channels), scratch, result]
            if not nhwc:
                yield [x, weight8, bias8, *common, *_stage(channels), scratch, out8(*out)]


# int8 and other quantized operators.


def _quantized(name: str) -> Iterator[Arguments]:
    space, _, base = name.partition("::")
    quantized = [0.02, 3, -128, 127, CHAR]
    side = [3, 1 << 30, -1]
    for shape in SHAPES:
        x, f, out = int8s(*shape), signed(*shape), out8(*shape)
        match base if space != "aten" else "":
            case "dequantize_per_tensor.out":
                none = [] if space == "cortex_m" else [None]
                yield [x, *quantized, *none, Out(shape)]
            case "quantize_per_tensor.out":
                yield [f, *quantized, out]
            case "maximum.out" | "minimum.out":
                yield [x, int8s(*shape), out]
                yield [x, int8s(1), out]
            case "quantized_activation.out":
                yield [x, int8s(256), out]
            case "quantized_add.out":
                yield [x, *side, int8s(*shape), *side, *side, -128, 127, out]
                if shape[0] > 1:
                    yield [x, *side, int8s(*shape[1:]), *side, *side, -128, 127, out]
            case "quantized_mul.out":
                yield [x, 3, int8s(*shape), 4, *side, out]
                if len(shape) == 4:
                    yield [x, 3, int8s(*shape[:2], 1, 1), 4, *side, out]
            case "quantized_div.out":
                yield [x, 3, int8s(*shape), 4, 5, 0.5, out]
            case "softmax.out":
                yield [x, len(shape) - 1, 3, -128, 1 << 30, 20, -100, out]
            case "add.out":
                u, numbers = (x.view(np.uint8)), [0.5, 3, 0, 200]
                yield [u, *numbers, u, *numbers, *numbers, Out(shape, np.uint8)]
            case "dequantize_per_channel.out" | "quantize_per_channel.out":
                count = shape[1]
                channels = [floats(count), np.arange(count) % 5, 1, -100, 100, CHAR]
                if base[0] == "d":
                    yield [x, *channels, None, Out(shape)]
                else:
                    yield [f, *channels, out]
            case "dequantize_per_tensor.Tensor_out":
                yield [x, np.array([0.5]), np.array([3]), -100, 100, CHAR, None, Out(shape)]
            case "quantize_per_tensor.Tensor_out":
                yield [f, np.array([0.5]), np.array([3]), -100, 100, CHAR, out]
            case "choose_qparams.Tensor_out":
                yield [f, -128, 127, 1e-5, CHAR, Out((1,), np.float64), Out((1,), np.int64)]
    rng = np.random.default_rng(7)
    for rows, width in TALL if base.startswith("embedding_") else ():
        pack = {"2": 4, "4": 2, "b": 1}[base[len("embedding_")]]
        table = rng.integers(0, 255, (rows, width)).astype(np.uint8)
        for count in (1, 3, rows):
            index = rng.integers(0, rows, (1, count))
            limits = {4: [-2, 1], 2: [-8, 7], 1: [0, 255]}[pack]
            scales = [floats(rows, 1), floats(rows, 1)]
            none = [None] if "dtype" in base else []
            yield [table, *scales, *limits, index, *none, Out((1, count, width * pack))]
    for n, c, h, w in IMAGES if space == "cortex_m" and "pool2d" in base else ():
        nhwc = base.endswith("_nhwc.out")
        x = int8s(n, c, h, w)
        image: Any = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if nhwc else last(x)
        for k, s, p in (([2, 2], [2, 2], 0), ([3, 3], [1, 1], 1), ([h, w], [h, w], 0)):
            size = [(a + 2 * p - b) // d + 1 for a, b, d in zip((h, w), k, s, strict=True)]
            out = out8(n, *size, c) if nhwc else last8(n, c, *size)
            if "avg" in base:
                yield [image, k, s, [p, p], False, 3, 1 << 30, -2, None, out]
            elif k[0] < 4:
                yield [image, k, s, [p, p], [1, 1], False, 3, 3, -128, 127, out]


def _families() -> Iterator[tuple[str, Iterable[Arguments]]]:
    for name in CALLS:
        base = name.partition("::")[2].partition(".")[0]
        if name == "aten::topk.values":
            yield name, _topk()
        elif name.startswith("aten::") and base in _REDUCTIONS:
            yield name, _reductions(name)
        elif "conv2d" in base or base == "convolution":
            yield name, _convolutions(name)
        else:
            indexed = name.removeprefix("aten::").replace("_out", "").replace(".out", "")
            indexed = indexed.removesuffix(".Tensor") if base != "scatter" else indexed
            sources = (_elementwise, _made, _images, _products, _copies, _masked, _quantized)
            calls = [arguments for make in sources for arguments in make(name)]
            yield name, [*_indexed(indexed), *calls] if name.startswith("aten::") else calls


def operator_calls() -> dict[str, list[Arguments]]:
    """Return calls of every operator; the sound call alone where no size changes the work."""
    return {name: [*calls] or [CALLS[name].arguments] for name, calls in _families()}


def _tiled(data: Array) -> Array:
    """Return the numbers that the operand has on the device."""
    if data.size <= TILE:
        return data
    return np.resize(data.reshape(-1)[:TILE], data.size).reshape(data.shape)


class _Packer:
    """Puts calls into a program, all at the same planned memory, one after the other."""

    def __init__(self, room: int) -> None:
        self.program = ProgramBuilder([0, room])
        self.count = 0
        self.measured: set[int] = set()
        self.sources: dict[tuple[str, bytes], int] = {}
        self.place, self.room = 0, room

    def reserve(self, nbytes: int) -> int:
        place = self.place
        self.place += -(-nbytes // 16) * 16
        if self.place > self.room:
            raise ValueError("the call takes more planned memory than a program has")
        return place

    def operand(self, value: Any) -> Any:
        """Append a large tensor as repeats of a tile; return its number, others as they are."""
        match value:
            case TensorList():
                return self.program.tensors(
                    *(-1 if item is None else self.number(item) for item in value.tensors),
                    optional=any(item is None for item in value.tensors),
                )
            case Out():
                place = self.reserve(value.nbytes)
                return self.program.tensor(
                    value.shape, value.dtype, memory=(1, place), dim_order=value.order
                )
            case Tensor():
                return self.tensor(value.data, value.order)
            case np.ndarray():
                return self.tensor(value, None)
        return argument(self.program, value)

    number = operand

    def tensor(self, data: Array, order: Sequence[int] | None) -> int:
        if data.size <= TILE:
            return self.program.constant(data, order)
        tile = data.reshape(-1)[:TILE]
        key = (data.dtype.str, tile.tobytes())
        if key not in self.sources or data.nbytes > SOURCE:
            times = -(-max(data.nbytes, SOURCE) // tile.nbytes)
            self.room -= -(-times * tile.nbytes // 16) * 16
            if self.room < self.place:
                raise ValueError("the operands take more planned memory than a program has")
            whole_ = self.program.tensor((times * TILE,), data.dtype, memory=(1, self.room))
            repeats = self.program.integers(times)
            self.program.call("aten::repeat", self.program.constant(tile), repeats, whole_, whole_)
            self.count += 1
            self.sources[key] = self.room
        place = self.sources[key]
        return self.program.tensor(data.shape, data.dtype, memory=(1, place), dim_order=order)

    def add(self, operator: str, arguments: Arguments) -> None:
        self.place = 0
        numbers = [self.operand(value) for value in arguments]
        name, _, overload = operator.partition(".")
        outs = [n for n, value in zip(numbers, arguments, strict=True) if isinstance(value, Out)]
        if len(outs) > 1 and name.startswith(("aten", "quantized_")):  # as exporters write several
            numbers.append(self.program.tensors(*outs))
        elif isinstance(arguments[-1], Out):  # and they write a single one twice
            numbers.append(numbers[-1])
        self.program.call(name, *numbers, overload=overload)
        self.measured.add(self.count)
        self.count += 1

    def finish(self) -> Calibration:
        # A method has an output; this one is not written.
        out = self.program.tensor((1,), memory=(1, 0))
        return Calibration(self.program.finish(outputs=[out]), self.measured)


def packed(calls: Iterable[tuple[str, Arguments]]) -> Calibration:
    """Return one program of these calls, in their order."""
    packer = _Packer(ROOM)
    for name, arguments in calls:
        packer.add(name, arguments)
    return packer.finish()


def calibrations(capacity: Capacity, names: Container[str] = CALLS) -> Iterator[Calibration]:
    """Yield programs that call the operators: all calls that a board has room for."""
    small = capacity.arena < ROOM
    room, most = (SMALL_ROOM, 3) if small else (ROOM, 150)
    packer = _Packer(room)
    for name, calls in operator_calls().items():
        for arguments in calls if name in names else ():
            if small and not _is_small(name, arguments, capacity):
                continue
            try:
                packer.add(name, arguments)
            except ValueError:  # sources of other calls take too much of the memory
                yield packer.finish()
                packer = _Packer(room)
                packer.add(name, arguments)
            if packer.count >= most or packer.room < room // 2:
                yield packer.finish()
                packer = _Packer(room)
    if packer.count:
        yield packer.finish()


def _is_small(name: str, arguments: Arguments, capacity: Capacity) -> bool:
    """Return whether three of such calls fit a small board."""
    packer = _Packer(SMALL_ROOM)
    try:
        packer.add(name, arguments)
    except ValueError:
        return False
    return packer.count == 1 and 3 * len(packer.finish().program) < capacity.model
