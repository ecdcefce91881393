"""Sound calls of the operators that share a loop with others: slices, indexes, folds and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.calls import Call, call
from tests.support.kernels import Array, Out, TensorList


def floats(*shape: int) -> Array:
    return np.random.default_rng(3).uniform(0.5, 2, shape).astype(np.float32)


def long(*shape: int) -> Out:
    return Out(shape, np.int64)


def truth(*shape: int) -> Out:
    return Out(shape, np.bool_)


ROWS, CUBE = floats(2, 3), floats(2, 3, 4)
IMAGE, BATCH = floats(2, 3, 4, 6), floats(2, 4, 4, 6)
ROW_INDEX = np.array([[1, 0, 1]])
VECTOR_INDEX = np.array([2, 0])
WHOLE = np.array([[7, -8, 9], [3, 2, -5]])
MASK = np.array([[True, False, True], [False, True, True]])
SHIFTS = np.array([[0, 1, 2], [63, 64, -1]])
SHIFT_NAMES = [
    (name, "Tensor_out")
    for name in ("__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift")
]
SHIFTS_BY_SCALAR = [
    ("__lshift__", "Scalar_out"),
    ("__rshift__", "Scalar_out"),
    ("bitwise_left_shift", "Tensor_Scalar_out"),
    ("bitwise_right_shift", "Tensor_Scalar_out"),
]
ANY_NUMBER = "0 values, 1 values"
BYTES = np.array([[1, 200, 3, 90], [4, 5, 6, 255], [16, 17, 18, 19]], np.uint8)
FLATTER = "0 flatter, 1 flatter"  # what broadcasts
ANY_SHAPE = "0 deeper, 0 flatter, 0 size0, 0 size1"

SLICES = {
    "select_scatter.out": call(CUBE, floats(2, 4), 1, 2, Out((2, 3, 4))),
    "slice_scatter.out": call(
        CUBE, floats(2, 2, 4), 1, 0, 3, 2, Out((2, 3, 4)), accepts="3 range, 4 range"
    ),
    "split_copy.Tensor_out": call(CUBE, 2, 1, TensorList([Out((2, 2, 4)), Out((2, 1, 4))])),
    "split_with_sizes_copy.out": call(
        CUBE, [1, 2], 1, TensorList([Out((2, 1, 4)), Out((2, 2, 4))])
    ),
    "stack.out": call(TensorList([ROWS, ROWS]), 1, Out((2, 2, 3))),
    "unbind_copy.int_out": call(ROWS, 0, TensorList([Out((3,)), Out((3,))])),
}
REARRANGED = {
    "as_strided_copy.out": call(
        CUBE,
        [2, 3],
        [4, 1],
        5,
        Out((2, 3)),
        accepts="0 deeper, 0 flatter, 0 size0, 0 size1, 0 size2",
    ),
    "diagonal_copy.out": call(CUBE, 1, 0, 2, Out((3, 2)), accepts="0 size2"),
    "flip.out": call(CUBE, [0, 2], Out((2, 3, 4))),
    "narrow_copy.out": call(CUBE, 1, 0, 2, Out((2, 2, 4)), accepts="0 size1"),
    "pixel_unshuffle.out": call(BATCH, 2, Out((2, 16, 2, 3))),
    "pixel_shuffle.out": call(BATCH, 2, Out((2, 1, 8, 12))),
    "repeat.out": call(ROWS, [2, 1, 2], Out((2, 2, 6))),
    "roll.out": call(CUBE, [1, -2], [0, 2], Out((2, 3, 4))),
    "t_copy.out": call(ROWS, Out((3, 2))),
    "transpose_copy.int_out": call(CUBE, 0, -1, Out((4, 3, 2))),
    "tril.out": call(ROWS, 0, Out((2, 3))),
    "triu.out": call(ROWS, 1, Out((2, 3))),
    "unfold_copy.out": call(floats(2, 7), 1, 3, 2, Out((2, 3, 3)), accepts="0 size1"),
}
INDEXED = {
    "gather.out": call(
        ROWS, 0, ROW_INDEX, False, Out((1, 3)), accepts="0 size0, 0 size1, 2 type, 3 *"
    ),
    "index.Tensor_out": call(
        CUBE, TensorList([None, VECTOR_INDEX]), Out((2, 2, 4)), accepts="0 size1, 1 type"
    ),
    "index_put.out": call(
        CUBE,
        TensorList([None, VECTOR_INDEX]),
        floats(2, 4),
        False,
        Out((2, 3, 4)),
        accepts="1 deeper, 1 flatter, 1 type, 2 deeper, 2 flatter",
    ),
    "index_put_": call(
        Out((4, 3)),
        TensorList([VECTOR_INDEX]),
        floats(2, 3),
        False,
        accepts="0 size0, 1 deeper, 1 type, 2 flatter",
    ),
    "index_select.out": call(CUBE, 1, VECTOR_INDEX, Out((2, 2, 4)), accepts="0 size1, 2 type"),
    "masked_scatter.out": call(
        ROWS, MASK, floats(5), Out((2, 3)), accepts=f"{FLATTER}, 2 deeper, 2 size0"
    ),
    "masked_select.out": call(ROWS, MASK, Out((4,)), accepts=FLATTER),
    "nonzero.out": call(MASK, long(4, 2), accepts="0 type"),
    "repeat_interleave.Tensor_out": call(np.array([2, 0, 1]), 3, long(3)),
    "masked_fill.Scalar_out": call(ROWS, MASK, 0.5, Out((2, 3)), accepts=FLATTER),
    "scatter.src_out": call(
        ROWS, 0, ROW_INDEX, floats(1, 3), Out((2, 3)), accepts="2 type, 3 size0, 3 size1"
    ),
    "scatter.value_out": call(ROWS, 0, ROW_INDEX, 0.5, Out((2, 3)), accepts="2 size0, 2 type"),
    "scatter_reduce.two_out": call(
        ROWS,
        0,
        ROW_INDEX,
        floats(1, 3),
        "mean",
        False,
        Out((2, 3)),
        accepts="2 type, 3 size0, 3 size1",
    ),
    **{
        f"_embedding_bag{name}.out": call(
            floats(4, 3),
            np.array([1, 0, 3, 3]),
            np.array([0, 1]),
            False,
            0,
            False,
            floats(4),
            False,
            2,
            *[Out((2, 3)), Out((4,), np.int64), Out((2,), np.int64), Out((2,), np.int64)],
            accepts="0 size0, 1 type, 2 type, 3 *, 5 *, 10 *, 11 *, 12 *",
        )
        for name in ("", "_forward_only")
    },
    "scatter_add.out": call(
        ROWS, 0, ROW_INDEX, floats(1, 3), Out((2, 3)), accepts="2 type, 3 size0, 3 size1"
    ),
}
FOLDED = {
    **{
        f"{name}.out": call(ROWS, [1], False, Out((2,)), accepts="0 size1")
        for name in ("amax", "amin")
    },
    **{
        f"{name}.all_out": call(MASK, truth(), accepts=f"{ANY_SHAPE}, 0 type")
        for name in ("all", "any")
    },
    **{
        f"{name}.out": call(MASK, 1, False, truth(2), accepts="0 size1, 0 type")
        for name in ("all", "any")
    },
    **{
        f"{name}.dims_out": call(MASK, [1], False, truth(2), accepts="0 size1, 0 type")
        for name in ("all", "any")
    },
    "cumsum.out": call(ROWS, 1, None, Out((2, 3))),
    "max.unary_out": call(ROWS, Out(()), accepts=ANY_SHAPE),
    "min.unary_out": call(ROWS, Out(()), accepts=ANY_SHAPE),
    "prod.int_out": call(ROWS, 1, False, None, Out((2,)), accepts="0 size1"),
    "prod.out": call(ROWS, None, Out(()), accepts=ANY_SHAPE),
    "var.correction_out": call(ROWS, [1], 1, False, Out((2,)), accepts="0 size1, 2 range"),
    "var.out": call(ROWS, [1], True, False, Out((2,)), accepts="0 size1"),
    "var_mean.correction_out": call(
        ROWS, [1], 1, False, Out((2,)), Out((2,)), accepts="0 size1, 2 range"
    ),
}
ORDERED = {
    "argmax.out": call(ROWS, 1, False, long(2), accepts="0 size1, 0 type"),
    "argmin.out": call(ROWS, 1, False, long(2), accepts="0 size1, 0 type"),
    "max.dim_max": call(ROWS, 1, False, Out((2,)), long(2), accepts="0 size1"),
    "min.dim_min": call(ROWS, 1, False, Out((2,)), long(2), accepts="0 size1"),
    "sort.values": call(ROWS, 1, True, Out((2, 3)), long(2, 3)),
    "sort.values_stable": call(ROWS, True, 1, False, Out((2, 3)), long(2, 3)),
    "topk.values": call(ROWS, 2, 1, True, True, Out((2, 2)), long(2, 2), accepts="0 size1"),
}
PAIRS = {
    **{
        f"bitwise_{name}.Tensor_out": call(
            WHOLE, WHOLE, long(2, 3), accepts=f"{FLATTER}, 0 values, 1 values"
        )
        for name in ("and", "or", "xor")
    },
    **{
        f"bitwise_{name}.Scalar_out": call(WHOLE, 5, long(2, 3), accepts="0 values, 1 range")
        for name in ("and", "or", "xor")
    },
    **{
        f"{name}.Tensor_out": call(ROWS, ROWS, Out((2, 3)), accepts=FLATTER)
        for name in ("fmod", "remainder")
    },
    **{f"{name}.Scalar_out": call(ROWS, 0.75, Out((2, 3))) for name in ("fmod", "remainder")},
    **{
        f"{name}.{overload}": call(WHOLE, SHIFTS, long(2, 3), accepts=f"{FLATTER}, {ANY_NUMBER}")
        for name, overload in SHIFT_NAMES
    },
    **{
        f"{name}.{overload}": call(WHOLE, 5, long(2, 3), accepts="0 values, 1 range")
        for name, overload in SHIFTS_BY_SCALAR
    },
    "atan2.out": call(ROWS, ROWS, Out((2, 3)), accepts=FLATTER),
    "bitwise_not.out": call(WHOLE, long(2, 3), accepts="0 values"),
    "div.Scalar_mode_out": call(ROWS, 0.75, "floor", Out((2, 3))),
    "div.out_mode": call(ROWS, ROWS, "trunc", Out((2, 3)), accepts=FLATTER),
    "floor_divide.out": call(ROWS, ROWS, Out((2, 3)), accepts=FLATTER),
    "logical_xor.out": call(ROWS, ROWS, truth(2, 3), accepts=FLATTER),
}
UNARY = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "exp2", "expm1"]
UNARY += ["hardsigmoid", "hardswish", "log10", "log1p", "log2", "sign", "silu", "sinh"]
UNARY += ["tan", "trunc"]
FUNCTIONS = {
    **{f"{name}.out": call(ROWS, Out((2, 3))) for name in UNARY},
    **{f"{name}.out": call(ROWS, truth(2, 3)) for name in ("isnan", "isinf")},
    "_log_softmax.out": call(ROWS, 1, False, Out((2, 3))),
    "clamp.Tensor_out": call(
        ROWS, floats(3), ROWS, Out((2, 3)), accepts="0 flatter, 1 deeper, 1 flatter, 2 flatter"
    ),
    "glu.out": call(CUBE, 2, Out((2, 3, 2))),
    "logit.out": call(ROWS, 0.25, Out((2, 3))),
    "pow.Scalar_out": call(2.5, ROWS, Out((2, 3))),
    "elu.out": call(ROWS, 1.0, 1.0, 1.0, Out((2, 3))),
}
COPIES = {
    "_to_copy.out": call(ROWS, False, None, Out((2, 3)), accepts="0 type, 1 *, 2 *, 3 type"),
    "alias_copy.out": call(ROWS, Out((2, 3)), accepts="0 type, 1 type"),
    "clone.out": call(ROWS, None, Out((2, 3)), accepts="0 type, 1 *, 2 type"),
    "detach_copy.out": call(ROWS, Out((2, 3)), accepts="0 type, 1 type"),
    "lift_fresh_copy.out": call(ROWS, Out((2, 3)), accepts="0 type, 1 type"),
}
MADE = {
    "arange.out": call(5, long(5), accepts="1 type"),
    "arange.start_out": call(2, 11, 2, long(5), accepts="3 type"),
    "empty.out": call([2, 3], None, Out((2, 3)), accepts="1 *, 2 type"),
    "fill.Scalar_out": call(ROWS, 1.5, Out((2, 3))),
    "fill.Tensor_out": call(ROWS, np.array(1.5, np.float32), Out((2, 3)), accepts="1 type"),
    "ones.out": call([2, 3], Out((2, 3)), accepts="1 type"),
    "zeros.out": call([2, 3], Out((2, 3)), accepts="1 type"),
}
IMAGES = {
    "_adaptive_avg_pool2d.out": call(IMAGE, [2, 4], Out((2, 3, 2, 4)), accepts="0 size2, 0 size3"),
    "adaptive_max_pool2d.out": call(
        IMAGE, [2, 4], Out((2, 3, 2, 4)), long(2, 3, 2, 4), accepts="0 size2, 0 size3"
    ),
    "upsample_bilinear2d.out": call(
        IMAGE, [8, 9], False, 2.0, 1.5, Out((2, 3, 8, 9)), accepts="0 size2, 0 size3"
    ),
    "upsample_bilinear2d.vec_out": call(IMAGE, None, False, [2.0, 1.5], Out((2, 3, 8, 9))),
    "upsample_nearest2d.out": call(
        IMAGE, [8, 9], 2.0, 1.5, Out((2, 3, 8, 9)), accepts="0 size2, 0 size3"
    ),
    "upsample_nearest2d.vec_out": call(IMAGE, None, [2.0, 1.5], Out((2, 3, 8, 9))),
}
PADDED = {
    f"{kind}_pad{count}d.out": call(
        floats(2, *(3,) * count), [1, 2] * count, Out((2, *(6,) * count)), accepts=accepts
    )
    for kind, accepts in [("reflection", ""), ("replication", "")]
    for count in (1, 2, 3)
}
DISTANCES = {
    "_cdist_forward.out": call(ROWS, floats(4, 3), 2.0, None, Out((2, 4)), accepts="3 *"),
    "_pdist_forward.out": call(floats(3, 2), 2.0, Out((3,)), accepts="0 size1"),
    "_upsample_bilinear2d_aa.out": call(
        IMAGE, [3, 4], False, None, None, Out((2, 3, 3, 4)), accepts="0 size2, 0 size3"
    ),
    "grid_sampler_2d.out": call(
        IMAGE, floats(2, 5, 4, 2), 0, 1, False, Out((2, 3, 5, 4)), accepts="0 size2, 0 size3"
    ),
}
STATISTICS = [floats(3) for _ in range(4)]
LAYERS = {
    "_native_batch_norm_legit.no_stats_out": call(
        IMAGE,
        floats(3),
        floats(3),
        True,
        0.1,
        1e-5,
        Out(IMAGE.shape),
        Out((3,)),
        Out((3,)),
        accepts="4 *",
    ),
    "_native_batch_norm_legit.out": call(
        IMAGE,
        *STATISTICS,
        False,
        0.1,
        1e-5,
        Out(IMAGE.shape),
        Out((0,)),
        Out((0,)),
        accepts="6 *, 9 *, 10 *",
    ),
    "linear.out": call(CUBE, floats(5, 4), floats(5), Out((2, 3, 5))),
    "native_group_norm.out": call(
        BATCH, floats(4), floats(4), 2, 4, 24, 2, 1e-5, Out(BATCH.shape), Out((2, 2)), Out((2, 2))
    ),
}
ATEN: dict[str, Call] = SLICES | REARRANGED | INDEXED | FOLDED | ORDERED | PAIRS | FUNCTIONS
ATEN |= COPIES | MADE | IMAGES | PADDED | DISTANCES | LAYERS

COLUMN_MASK = np.array([True, False, True])
MASK_INDEXES: dict[str, Call] = {
    "index.Tensor_out": call(CUBE, TensorList([None, COLUMN_MASK]), Out((2, 2, 4))),
    "index_put.out": call(
        CUBE,
        TensorList([None, COLUMN_MASK]),
        floats(2, 1),
        True,
        Out((2, 3, 4)),
        accepts="2 deeper, 2 flatter",
    ),
    "index_put_": call(
        Out((4, 3)), TensorList([None, COLUMN_MASK]), floats(4, 2), False, accepts="2 flatter"
    ),
}

SCALE, ZERO = np.array([0.5]), np.array([3])
BY_TENSORS: list[Any] = [SCALE, ZERO, -100, 100, 1]
TABLE: list[Any] = [BYTES, floats(3, 2), floats(3, 2), 0, 255, np.array([[2, 0]])]
PACKED: list[Any] = [*TABLE[:3], -8, 7, TABLE[5]]
QUARTERS: list[Any] = [*TABLE[:3], -2, 1, TABLE[5]]
SIDE: list[Any] = [0.5, 3, 0, 200]
QUANTIZED: dict[str, Call] = {
    "choose_qparams.Tensor_out": call(
        ROWS, -128, 127, 1e-5, 1, Out((1,), np.float64), Out((1,), np.int64), accepts=ANY_SHAPE
    ),
    "dequantize_per_tensor.Tensor_out": call(
        np.array([[3, -4, 5]], np.int8),
        *BY_TENSORS,
        None,
        Out((1, 3)),
        accepts="1 flatter, 1 type, 2 flatter, 2 type",
    ),
    "quantize_per_tensor.Tensor_out": call(
        ROWS, *BY_TENSORS, Out((2, 3), np.int8), accepts="1 flatter, 1 type, 2 flatter, 2 type"
    ),
    "add.out": call(BYTES, *SIDE, BYTES, *SIDE, *SIDE, Out((3, 4), np.uint8)),
    "embedding_2bit.dtype_out": call(*QUARTERS, None, Out((1, 2, 16)), accepts="2 type, 5 type"),
    "embedding_2bit.out": call(*QUARTERS, Out((1, 2, 16)), accepts="2 type, 5 type"),
    "embedding_4bit.dtype_out": call(*PACKED, None, Out((1, 2, 8)), accepts="2 type, 5 type"),
    "embedding_4bit.out": call(*PACKED, Out((1, 2, 8)), accepts="2 type, 5 type"),
    "embedding_byte.dtype_out": call(
        *TABLE, None, Out((1, 2, 4)), accepts="0 type, 2 type, 3 *, 4 *, 5 type"
    ),
    "embedding_byte.out": call(*TABLE, Out((1, 2, 4)), accepts="0 type, 2 type, 3 *, 4 *, 5 type"),
}
