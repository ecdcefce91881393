"""A sound call of every registered operator, with all that it accepts besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support import aten_operators
from tests.support.calls import Call, call
from tests.support.kernels import Array, Out, TensorList
from tests.support.runtime import DTYPES


def floats(*shape: int) -> Array:
    return np.random.default_rng(1).uniform(0.5, 2, shape).astype(np.float32)


def int8s(*shape: int) -> Array:
    return np.random.default_rng(2).integers(-128, 128, shape, np.int8)


def int32s(length: int, value: int) -> Array:
    return np.full(length, value, np.int32)


def out8(*shape: int) -> Out:
    return Out(shape, np.int8)


FLOAT = DTYPES[np.dtype(np.float32)]
CHAR = DTYPES[np.dtype(np.int8)]
IMAGE, IMAGE8 = floats(2, 3, 5, 6), int8s(2, 3, 5, 6)
LAST8 = int8s(2, 5, 6, 3)  # as _nhwc operators name the dimensions
ROWS, ROWS8 = floats(2, 3), int8s(2, 3)
CUBE = floats(2, 3, 4)
TABLE = floats(4, 3)
INDICES = np.array([[1, 0], [3, 2]])
POOL: list[Any] = [[2, 2], [2, 2], [0, 0]]
VOLUME = floats(2, 3, 4, 2, 4)
POOL3: list[Any] = [[2, 2, 2], [2, 2, 2], [0, 0, 0]]
PLAIN: list[Any] = [[1, 1], [0, 0], [1, 1]]  # stride, padding and dilation


def stage(channels: int) -> list[Any]:
    """Input and output offset, multipliers, shifts and limits of an int8 layer."""
    return [5, 3, int32s(channels, 1 << 30), int32s(channels, -7), -128, 127]


def conv(x: Array, out: Out) -> Call:
    weight = int8s(4, 2, 2, 3)
    return call(
        x, weight, int32s(4, 9), *PLAIN, *stage(4), None, out, accepts="12 *, 2 values, 8 values"
    )


def depthwise(x: Array, out: Out) -> Call:
    weight = int8s(1, 2, 2, 6)
    return call(
        x, weight, int32s(6, 9), *PLAIN, 2, *stage(6), None, out, accepts="13 *, 2 values, 9 values"
    )


def transposed(x: Array, out: Out) -> Call:
    weight = int8s(4, 2, 2, 3)
    head = [x, weight, int32s(4, 9), [1, 1], [0, 0], [0, 0], [1, 1]]
    return call(*head, *stage(4), None, None, out, accepts="13 *, 14 *, 2 values, 9 values")


def average(x: Array, out: Out, accepts: str) -> Call:
    return call(x, *POOL, False, 3, 1 << 30, -2, None, out, accepts=f"8 *, {accepts}")


def maximum(x: Array, out: Out, accepts: str) -> Call:
    return call(x, *POOL, [1, 1], False, 3, 3, -128, 127, out, accepts=accepts)


def prims(names: str, *arguments: Any) -> dict[str, Call]:
    """Numbers of any size, and something to put the result in."""
    accepts = ", ".join(f"{index} range" for index in range(len(arguments)))
    return {
        f"executorch_prim::{name}.Scalar": call(*arguments, accepts=accepts)
        for name in names.split()
    }


SIDE = [3, 1 << 30, -1]  # zero point, multiplier and shift
QUANTIZED = [0.5, 3, -100, 100, CHAR]  # scale, zero point, range and type
CHANNELS = [floats(3), np.array([1, 2, 3]), 1, -100, 100, CHAR]

ATEN = {
    "_local_scalar_dense": call(floats(1), 0, accepts="0 flatter, 0 type, 1 range"),
    "_native_batch_norm_legit_no_training.out": call(
        IMAGE,
        *(floats(3) for _ in range(4)),
        0.1,
        1e-5,
        Out(IMAGE.shape),
        Out((0,)),
        Out((0,)),
        accepts="5 *, 8 *, 9 *",
    ),
    "_softmax.out": call(ROWS, 1, False, Out((2, 3))),
    "add.out": call(ROWS, ROWS, 1, Out((2, 3)), accepts="0 flatter, 1 flatter, 2 range"),
    "addmm.out": call(
        floats(4),
        ROWS,
        floats(3, 4),
        1,
        1,
        Out((2, 4)),
        accepts="0 deeper, 0 flatter, 3 range, 4 range",
    ),
    "avg_pool2d.out": call(IMAGE, *POOL, False, True, None, Out((2, 3, 2, 3)), accepts="0 size3"),
    "avg_pool3d.out": call(
        VOLUME, *POOL3, False, True, None, Out((2, 3, 2, 1, 2)), accepts="0 size2, 0 size3, 0 size4"
    ),
    "bmm.out": call(CUBE, floats(2, 4, 5), Out((2, 3, 5))),
    "cat.out": call(TensorList([ROWS, ROWS]), 0, Out((4, 3))),
    "clamp.out": call(ROWS, -1.0, 1.0, Out((2, 3))),
    "constant_pad_nd.out": call(ROWS, [1, 0], 0.5, Out((2, 4))),
    "convolution.out": call(
        IMAGE,
        floats(4, 3, 2, 2),
        floats(4),
        *PLAIN,
        False,
        [0, 0],
        1,
        Out((2, 4, 4, 5)),
        accepts="7 *",
    ),
    "copy.out": call(ROWS, ROWS, False, Out((2, 3)), accepts="1 flatter, 1 type, 2 *"),
    "copy_": call(Out((2, 3)), ROWS, False, accepts="0 deeper, 0 type, 1 flatter, 1 type, 2 *"),
    "div.out": call(ROWS, ROWS, Out((2, 3)), accepts="0 flatter, 1 flatter"),
    "embedding.out": call(
        TABLE, INDICES, -1, False, False, Out((2, 2, 3)), accepts="0 size0, 1 type, 2 *, 3 *, 4 *"
    ),
    "expand_copy.out": call(
        floats(1, 3), [2, 3], False, Out((2, 3)), accepts="0 flatter, 0 size0, 2 *"
    ),
    "full.out": call([2, 3], 1.5, Out((2, 3)), accepts="2 type"),
    "full_like.out": call(ROWS, 1.5, None, Out((2, 3)), accepts="0 type, 2 *, 3 type"),
    "gelu.out": call(ROWS, "none", Out((2, 3))),
    "hardtanh.out": call(ROWS, -1.0, 1.0, Out((2, 3))),
    "leaky_relu.out": call(ROWS, 0.1, Out((2, 3))),
    "max_pool3d_with_indices.out": call(
        VOLUME,
        *POOL3,
        [1, 1, 1],
        False,
        Out((2, 3, 2, 1, 2)),
        Out((2, 3, 2, 1, 2), np.int64),
        accepts="0 size2, 0 size3, 0 size4",
    ),
    "max_pool2d_with_indices.out": call(
        IMAGE,
        *POOL,
        [1, 1],
        False,
        Out((2, 3, 2, 3)),
        Out((2, 3, 2, 3), np.int64),
        accepts="0 size3",
    ),
    "mean.dtype_out": call(ROWS, None, Out(()), accepts="0 deeper, 0 flatter, 0 size0, 0 size1"),
    "mean.out": call(ROWS, [1], False, None, Out((2,)), accepts="0 size1"),
    "mm.out": call(ROWS, floats(3, 4), Out((2, 4))),
    "mul.out": call(ROWS, ROWS, Out((2, 3)), accepts="0 flatter, 1 flatter"),
    "native_layer_norm.out": call(
        ROWS, [3], floats(3), floats(3), 1e-5, Out((2, 3)), Out((2, 1)), Out((2, 1))
    ),
    "permute_copy.out": call(CUBE, [2, 0, 1], Out((4, 2, 3))),
    "relu.out": call(ROWS, Out((2, 3))),
    "scalar_tensor.out": call(1.5, Out(()), accepts="1 type"),
    "select_copy.int_out": call(CUBE, 1, 2, Out((2, 4)), accepts="0 size1"),
    "sigmoid.out": call(ROWS, Out((2, 3))),
    "slice_copy.Tensor_out": call(CUBE, 1, 1, 3, 1, Out((2, 2, 4)), accepts="0 size1, 3 range"),
    "squeeze_copy.dim_out": call(floats(2, 1, 3), 1, Out((2, 3))),
    "squeeze_copy.dims_out": call(floats(2, 1, 3), [1], Out((2, 3))),
    "sub.out": call(ROWS, ROWS, 1, Out((2, 3)), accepts="0 flatter, 1 flatter, 2 range"),
    "sum.IntList_out": call(ROWS, [1], False, None, Out((2,)), accepts="0 size1"),
    "sym_numel": call(ROWS, 0, accepts="0 deeper, 0 flatter, 0 size0, 0 size1, 0 type, 1 range"),
    "sym_size.int": call(ROWS, 1, 0, accepts="0 deeper, 0 size0, 0 size1, 0 type, 2 range"),
    "tanh.out": call(ROWS, Out((2, 3))),
    "unsqueeze_copy.out": call(ROWS, 1, Out((2, 1, 3))),
    "view_copy.out": call(ROWS, [3, 2], Out((3, 2))),
}
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
FUNCTIONS = ["abs", "ceil", "cos", "exp", "floor", "log", "neg"]
FUNCTIONS += ["reciprocal", "round", "rsqrt", "sin", "sqrt"]
FLATTER = "0 flatter, 1 flatter"  # what broadcasts
TRUTHS = {
    f"{name}.Tensor_out": call(ROWS, ROWS, Out((2, 3), np.bool_), accepts=FLATTER)
    for name in COMPARISONS
}
TRUTHS |= {
    f"{name}.Scalar_out": call(ROWS, 1.5, Out((2, 3), np.bool_), accepts="0 type")
    for name in COMPARISONS
}
TRUTHS |= {
    "logical_and.out": call(ROWS, ROWS, Out((2, 3), np.bool_), accepts=FLATTER),
    "logical_or.out": call(ROWS, ROWS, Out((2, 3), np.bool_), accepts=FLATTER),
    "logical_not.out": call(ROWS, Out((2, 3), np.bool_), accepts="0 type"),
}
ELEMENTWISE = {
    f"{name}.out": call(ROWS, Out((2, 3)))
    for name in [
        "abs",
        "ceil",
        "cos",
        "exp",
        "floor",
        "log",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sin",
        "sqrt",
    ]
}
ELEMENTWISE |= {
    f"{name}.Scalar_out": call(ROWS, 2.5, 1, Out((2, 3)), accepts="2 range")
    for name in ["add", "sub", "rsub"]
}
ELEMENTWISE |= {
    "div.Scalar_out": call(ROWS, 2.5, Out((2, 3))),
    "maximum.out": call(ROWS, ROWS, Out((2, 3)), accepts=FLATTER),
    "minimum.out": call(ROWS, ROWS, Out((2, 3)), accepts=FLATTER),
    "mul.Scalar_out": call(ROWS, 2.5, Out((2, 3))),
    "pow.Tensor_Scalar_out": call(ROWS, 2.5, Out((2, 3))),
    "pow.Tensor_Tensor_out": call(ROWS, ROWS, Out((2, 3)), accepts=FLATTER),
    "where.self_out": call(
        ROWS > 1, ROWS, ROWS, Out((2, 3)), accepts="0 flatter, 1 flatter, 2 flatter"
    ),
}
CORTEX_M = {
    "dequantize_per_tensor.out": call(ROWS8, *QUANTIZED, Out((2, 3))),
    "maximum.out": call(ROWS8, ROWS8, out8(2, 3), accepts="0 flatter, 1 flatter"),
    "minimum.out": call(ROWS8, ROWS8, out8(2, 3), accepts="0 flatter, 1 flatter"),
    "pad.out": call(ROWS8, [0, 0, 0, 1], [0, 0, 0, 0], 7, out8(2, 4), accepts="1 range, 2 range"),
    "quantize_per_tensor.out": call(ROWS, *QUANTIZED, out8(2, 3)),
    "quantized_activation.out": call(ROWS8, int8s(256), out8(2, 3)),
    "quantized_add.out": call(
        ROWS8, *SIDE, ROWS8, *SIDE, *SIDE, -128, 127, out8(2, 3), accepts="0 flatter, 4 flatter"
    ),
    "quantized_avg_pool2d.out": average(IMAGE8, out8(2, 3, 2, 3), "0 size3"),
    "quantized_avg_pool2d_nhwc.out": average(LAST8, out8(2, 2, 3, 3), "0 size2"),
    "quantized_batch_matmul.out": call(
        int8s(2, 3, 4), 5, int8s(2, 5, 4), 6, *SIDE, None, out8(2, 3, 5), accepts="7 *"
    ),
    "quantized_conv2d.out": conv(IMAGE8, out8(2, 4, 4, 5)),
    "quantized_conv2d_nhwc.out": conv(LAST8, out8(2, 4, 5, 4)),
    "quantized_depthwise_conv2d.out": depthwise(IMAGE8, out8(2, 6, 4, 5)),
    "quantized_depthwise_conv2d_nhwc.out": depthwise(LAST8, out8(2, 4, 5, 6)),
    "quantized_div.out": call(ROWS8, 3, ROWS8, 4, 5, 0.5, out8(2, 3)),
    "quantized_linear.out": call(
        ROWS8,
        int8s(4, 3),
        int32s(4, 9),
        None,
        5,
        0,
        3,
        [1 << 30],
        [-7],
        127,
        -128,
        out8(2, 4),
        accepts="2 values",
    ),
    "quantized_max_pool2d.out": maximum(IMAGE8, out8(2, 3, 2, 3), "0 size3"),
    "quantized_max_pool2d_nhwc.out": maximum(LAST8, out8(2, 2, 3, 3), "0 size2"),
    "quantized_mul.out": call(
        ROWS8, 3, ROWS8, 4, *SIDE, out8(2, 3), accepts="0 flatter, 2 flatter"
    ),
    "quantized_transpose_conv2d.out": transposed(IMAGE8, out8(2, 4, 6, 7)),
    "quantized_transpose_conv2d_nhwc.out": transposed(LAST8, out8(2, 6, 7, 4)),
    "softmax.out": call(ROWS8, 1, 3, -128, 1 << 30, 20, -100, out8(2, 3), accepts="6 *"),
    "transpose.out": call(int8s(2, 3, 4), [2, 0, 1], out8(4, 2, 3)),
}
DECOMPOSED = {
    "dequantize_per_channel.out": call(
        ROWS8, *CHANNELS, None, Out((2, 3)), accepts="1 type, 2 type, 2 values"
    ),
    "dequantize_per_tensor.out": call(ROWS8, *QUANTIZED, None, Out((2, 3))),
    "quantize_per_channel.out": call(
        ROWS, *CHANNELS, out8(2, 3), accepts="1 type, 2 type, 2 values"
    ),
    "quantize_per_tensor.out": call(ROWS, *QUANTIZED, out8(2, 3)),
}
DIM_ORDER = {
    "_empty_dim_order.out": call([2, 3], [0, 1], Out((2, 3)), accepts="1 *, 2 type"),
    "_clone_dim_order.out": call(
        ROWS, False, [0, 1], Out((2, 3)), accepts="0 type, 1 *, 2 *, 3 type"
    ),
    "_to_dim_order_copy.out": call(
        ROWS, False, [0, 1], Out((2, 3)), accepts="0 type, 1 *, 2 *, 3 type"
    ),
}
VARIANTS = [
    *((f"aten::{name}", value) for name, value in aten_operators.MASK_INDEXES.items()),
    (
        "aten::convolution.out",
        call(
            VOLUME,
            floats(4, 3, 2, 2, 3),
            floats(4),
            *([number] * 3 for number in (1, 0, 1)),
            False,
            [0, 0, 0],
            1,
            Out((2, 4, 3, 1, 2)),
            accepts="7 *",
        ),
    ),
]
"""Further calls of operators, for what a kernel does apart from the others."""

CALLS = {
    **{
        f"aten::{name}": value
        for name, value in (ATEN | TRUTHS | ELEMENTWISE | aten_operators.ATEN).items()
    },
    **{f"cortex_m::{name}": value for name, value in CORTEX_M.items()},
    **{
        f"quantized_decomposed::{name}": value
        for name, value in (DECOMPOSED | aten_operators.QUANTIZED).items()
    },
    **{f"dim_order_ops::{name}": value for name, value in DIM_ORDER.items()},
    **prims("add eq floordiv ge gt le lt mod mul sub sym_max sym_min truediv", 7, 2, 0),
    **prims("ceil neg round sym_float sym_int sym_not trunc", 7, 0),
    "executorch_prim::sym_ite.Scalar": call(True, 7, 2, 0, accepts="1 range, 2 range, 3 range"),
    "executorch_prim::et_copy_index.tensor": call(Out((3, 2, 4)), floats(2, 4), 2),
    "executorch_prim::floordiv.int": call(7, 2, 0, accepts="0 range, 1 range, 2 range"),
    "executorch_prim::mod.int": call(7, 2, 0, accepts="0 range, 1 range, 2 range"),
    "executorch_prim::et_view.default": call(ROWS, [3, 2], Out((3, 2)), accepts="2 constant"),
}
