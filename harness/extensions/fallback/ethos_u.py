"""Rules of the partitioner for Ethos-U: ``backends/arm/operator_support`` of ExecuTorch 1.5.1.

Its partitioner takes quantized operators. Ethos-U55 and U65 have more limits than U85: for which
one the delegates were compiled is in their blobs. Where it is not, the limits of all apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from msgspec.structs import replace

from harness.extensions.fallback.reasons import FallbackReason, OperatorFacts

BESIDE: Final = "beside the CPU"
"""Rule of what is only there for operators of the CPU."""

BACKEND: Final = "EthosUBackend"

_MOST_DIMENSIONS: Final = 6
_LARGEST: Final = 65_536
"""Largest dimension of U55 and U65, and largest window of a pooling."""

_TAKEN: Final = (
    "__lshift__.Scalar __rshift__.Scalar _adaptive_avg_pool2d _clone_dim_order _to_dim_order_copy "
    "abs acos acosh add alias_copy amax amin any any.all any.dims arange.start argmax "
    "as_strided_copy asin asinh atan atanh avg_pool2d bitwise_and.Scalar bitwise_and.Tensor "
    "bitwise_left_shift.Tensor bitwise_not bitwise_or.Scalar bitwise_or.Tensor "
    "bitwise_right_shift.Tensor bitwise_xor.Scalar bitwise_xor.Tensor bmm cat ceil celu clamp "
    "clamp.Tensor constant_pad_nd convolution copy cos cosh cumsum dequantize_per_channel "
    "dequantize_per_tensor detach_copy div.out_mode elu embedding eq.Scalar eq.Tensor erf erfinv "
    "exp expand_copy expm1 eye flip floor full full_like gather ge.Scalar ge.Tensor gelu "
    "gt.Scalar gt.Tensor hardsigmoid hardswish hardtanh index.Tensor index_put index_select "
    "le.Scalar le.Tensor leaky_relu linear linspace log log10 log1p logical_and logical_not "
    "logical_or logical_xor lt.Scalar lt.Tensor masked_fill.Scalar max_pool2d "
    "max_pool2d_with_indices maximum mean minimum mm mul neg pad permute_copy pow.Tensor_Scalar "
    "pow.Tensor_Tensor quantize_per_channel quantize_per_tensor reciprocal relu remainder.Scalar "
    "remainder.Tensor repeat round rsqrt scalar_tensor select_copy.int selu sigmoid sign silu sin "
    "sinh slice_copy.Tensor split_copy.Tensor split_with_sizes_copy squeeze_copy.dims sub "
    "sum.IntList tan tanh unfold_copy unsqueeze_copy upsample_bilinear2d.vec "
    "upsample_nearest2d.vec view_copy where.self"
)
"""Operators of the integer profile, as programs name them that were not delegated."""

_NOT_ON_U55: Final = (
    "any any.all any.dims bitwise_and.Scalar bitwise_and.Tensor bitwise_not bitwise_or.Scalar "
    "bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor eq.Scalar eq.Tensor gather ge.Scalar "
    "ge.Tensor gt.Scalar gt.Tensor index.Tensor index_put index_select le.Scalar le.Tensor "
    "logical_and logical_not logical_or logical_xor lt.Scalar lt.Tensor ne.Scalar ne.Tensor "
    "scatter.src scatter.value scatter_add select_scatter upsample_bilinear2d.vec where.self"
)
"""Operators that only an Ethos-U55 leaves (and an Ethos-U65)."""

_LEAVE: Final = "leave it to the application, after the model"
"""For an operator at the border of the model."""

_REMEDIES: Final = {
    "max.dim_max": "torch.amax, where the indices are not needed",
    "min.dim_min": "torch.amin, where the indices are not needed",
    "upsample_bilinear2d.vec": "upsample to the nearest value, by 2, 4 or 8",
    "where.self": "multiply by a mask in place of where",
}


def reason(facts: OperatorFacts) -> FallbackReason:
    """Return why the partitioner for Ethos-U left an operator."""
    operator = facts.name.partition(".")[0]
    if facts.name.startswith(("quantize_per", "dequantize_per")):
        return _border(facts)
    if facts.name not in _TAKEN.split():
        return FallbackReason(
            "operator",
            f"Ethos-U's partitioner does not take {operator}",
            _LEAVE
            if facts.name == "topk.values" and facts.border
            else _REMEDIES.get(facts.name, ""),
        )
    npu = _npu(facts)
    if npu != _U85 and facts.name in _NOT_ON_U55.split():
        return FallbackReason(
            "not on Ethos-U55",
            f"{npu} does not take {operator}; {_U85} does"
            if npu != _ANY
            else f"of Ethos-U only the U85 takes {operator}",
            _REMEDIES.get(facts.name, _COMPILE_FOR_U85),
        )
    for rule in (_shapes, *_ON_ALL.get(facts.name, [])):
        if found := rule(facts):
            return found
    for rule in [] if npu == _U85 else _ON_U55.get(facts.name, []):
        if found := rule(facts):
            return found if found.attempt else replace(found, attempt=_COMPILE_FOR_U85)
    if found := _types(facts):
        return found
    if facts.name in _NO_WORK.split():
        return FallbackReason(
            BESIDE, f"Ethos-U takes {operator} only together with operators that compute"
        )
    return _UNKNOWN


_U85: Final = "Ethos-U85"
_ANY: Final = "Ethos-U"
_COMPILE_FOR_U85: Final = "compile for Ethos-U85: EthosUCompileSpec('ethos-u85-256')"

_NO_WORK: Final = (
    "_clone_dim_order _to_dim_order_copy alias_copy as_strided_copy detach_copy expand_copy "
    "permute_copy squeeze_copy.dims view_copy"
)
"""Operators of which the partitioner makes no delegate without others."""

_UNKNOWN: Final = FallbackReason(
    "",
    "the rule is not known: Ethos-U's partitioner of ExecuTorch 1.5.1 takes this operator, if the "
    "quantizer annotated it, and its inputs and its output are quantized",
)


def _npu(facts: OperatorFacts) -> str:
    """Return for which Ethos-U the delegates were compiled; "Ethos-U" if it is not known."""
    return facts.targets.get(BACKEND, "").partition(",")[0] or _ANY


def _border(facts: OperatorFacts) -> FallbackReason:
    """A quantization at the border of the model, or of what the CPU executes."""
    if not facts.border:
        return FallbackReason(BESIDE, "it is beside an operator that the CPU executes in float32")
    back = facts.name.startswith("de")
    passes = "QuantizeOutputs" if back else "QuantizeInputs"
    return FallbackReason(
        "integers at the border",
        f"Ethos-U computes in integers, and the model's {'output' if back else 'input'} is float32",
        f"give the model integers: executorch.exir.passes.quantize_io_pass.{passes}",
        0.0,
    )


def _shapes(facts: OperatorFacts) -> FallbackReason | None:
    """Limits of shapes that all operators have."""
    tensors = [*facts.tensors, *facts.outputs]
    if facts.dynamic or any(tensor.dynamism for tensor in tensors):
        return FallbackReason(
            "static shapes", "Ethos-U takes static shapes only", "export static shapes"
        )
    rank = max((len(tensor.sizes) for tensor in tensors), default=0)
    if rank > _MOST_DIMENSIONS:
        return FallbackReason(
            "rank",
            f"Ethos-U takes tensors of up to {_MOST_DIMENSIONS} dimensions, not {rank}",
            f"reshape to {_MOST_DIMENSIONS} dimensions or fewer before it",
        )
    if facts.name == "_to_dim_order_copy" and len(facts.types) == 1:
        return FallbackReason(BESIDE, "it changes the layout for an operator that the CPU executes")
    return None


def _types(facts: OperatorFacts) -> FallbackReason | None:
    if {"float32", "float16"} & {*facts.types} and not facts.dequantized:
        return FallbackReason(
            "quantized",
            "Ethos-U takes operators that were quantized, and this one computes in "
            f"{', '.join(facts.types)}",
            "annotate it in the quantizer: EthosUQuantizer.set_global or set_module_type",
        )
    if "int64" in facts.types:
        return FallbackReason(
            "no int64", "Ethos-U takes no int64", "compute it in the application, or in int32"
        )
    if "float64" in facts.types:
        return FallbackReason("no float64", "Ethos-U takes no float64", "model.float()")
    if "bool" in facts.types and _npu(facts) != _U85:
        return FallbackReason("no bool", f"{_npu(facts)} takes no bool", _COMPILE_FOR_U85)
    return None


def _resize(facts: OperatorFacts) -> FallbackReason | None:
    """U55 and U65 resize one picture to the nearest value, by 2, 4 or 8."""
    if facts.rank != 4 or not facts.outputs:
        return None
    given, made = facts.sizes, facts.outputs[0].sizes
    if given[0] == 1 and any(made[2:] == (given[2] * by, given[3] * by) for by in (2, 4, 8)):
        return None
    return FallbackReason(
        "resize by 2, 4 or 8",
        f"{_npu(facts)} resizes one picture by 2, 4 or 8, not {given} to {made}",
        "resize by 2, 4 or 8, and crop with slices",
    )


def _pair(numbers: Sequence[int], absent: Sequence[int] = (1, 1)) -> tuple[int, int]:
    """Return a number for each direction."""
    numbers = numbers or absent
    return numbers[0], numbers[-1]


def _pooling(facts: OperatorFacts) -> FallbackReason | None:
    """Limits of pooling on U55 and U65."""
    npu, sizes, kernel = _npu(facts), facts.sizes, _pair(facts.ints(1))
    stride, average = _pair(facts.ints(2), kernel), facts.name == "avg_pool2d"
    counted = facts.value(5) is not False or facts.value(6) is not None
    padded = average and not counted and (any(facts.ints(3)) or facts.value(4) is True)
    if padded and max(kernel) > 8:
        return FallbackReason(
            "padded windows of 8",
            f"{npu} pads averages of windows up to 8 x 8, not {_by(kernel)}",
            "pad before it: torch.nn.functional.pad(x, ...), then avg_pool2d without padding",
        )
    if prod(kernel) > _LARGEST or kernel[1] > 256:
        return FallbackReason(
            "windows of 256",
            f"{npu} pools windows of up to 256 columns and {_LARGEST:,} elements, "
            f"not {_by(kernel)}",
        )
    if (wide := max(sizes[1:], default=0)) > _LARGEST:
        return FallbackReason(
            "sizes of 65,536", f"{npu} pools sizes up to {_LARGEST:,}, not {wide:,}"
        )
    if max(stride) > 3:
        return FallbackReason(
            "pooling by 3",
            f"{npu} pools with strides up to 3, not {', '.join(map(str, stride))}",
            _pooled_twice(facts),
        )
    if average and len(sizes) == 4 and sizes[0] != 1:
        return FallbackReason(
            "pooling of one", f"{npu} averages a batch of 1, not of {sizes[0]}", "export batch 1"
        )
    return None


def _dilated_pooling(facts: OperatorFacts) -> FallbackReason | None:
    kernel, dilations = _pair(facts.ints(1)), _pair(facts.ints(4))
    stride = _pair(facts.ints(2), kernel)
    if facts.rank not in (3, 4):
        return FallbackReason(
            "pooling of pictures",
            f"Ethos-U pools tensors of 3 or 4 dimensions, not {facts.rank}",
            "reshape to 4 dimensions before it",
        )
    single = facts.outputs and {*facts.outputs[0].sizes[-2:]} == {1}
    if single or all(gap == 1 or step == 1 for gap, step in zip(dilations, stride, strict=True)):
        return None
    return FallbackReason(
        "dilation or stride",
        f"Ethos-U pools with a dilation or a stride, not with a dilation of {_by(dilations)} and a "
        f"stride of {_by(stride)}",
        "pool with stride 1, and take every second value with slices",
    )


def _convolution(facts: OperatorFacts) -> FallbackReason | None:
    """Limits of convolutions on U55 and U65."""
    if len(facts.tensors) < 2 or facts.rank < 3 or len(facts.tensors[1].sizes) < 3:
        return None
    npu, weights, transposed = _npu(facts), facts.tensors[1].sizes, facts.value(6) is True
    kernel, stride = weights[2:], (facts.ints(3) or (1,))
    channels, groups = facts.sizes[1], facts.value(8)
    depthwise = channels == groups and facts.rank <= 4
    wide = max(facts.sizes[1:] if transposed or depthwise else (channels,))
    if wide > _LARGEST:
        return FallbackReason(
            "sizes of 65,536", f"{npu} convolves sizes up to {_LARGEST:,}, not {wide:,}"
        )
    # The partitioner bounds the width of a kernel, and the height of a transposed one.
    bounded = kernel[0] if transposed else kernel[1] if len(kernel) > 1 else 1
    if bounded > 64 or prod(kernel[:2]) > 4096:
        side = "rows" if transposed else "columns"
        return FallbackReason(
            "kernels of 64",
            f"{npu} takes kernels of up to 64 {side} and 4,096 elements, not {_by(kernel)}",
        )
    if len(kernel) > 2 and (kernel[2] != 1 or stride[-1] > 1):
        return FallbackReason(
            "convolutions of 2 dimensions",
            f"{npu} takes 3-d convolutions with a kernel and a stride of 1 in the last dimension",
            "convolve in 2 dimensions",
        )
    return (_transposed_stride if transposed else _stride)(facts, npu, kernel)


def _stride(facts: OperatorFacts, npu: str, _kernel: Sequence[int]) -> FallbackReason | None:
    stride, dilations = _pair(facts.ints(3)), _pair(facts.ints(5))
    padded, dilated = any(facts.ints(4)), max(dilations) > 1
    steps = zip(stride, dilations, strict=True)
    if not any(step > 3 and (padded or gap != 1) for step, gap in steps):
        return None
    has = "padding" if padded else f"a dilation of {_by(dilations)}"
    return FallbackReason(
        "strides of 3",
        f"{npu} convolves with strides over 3 only without padding and dilation, here "
        f"{_by(stride)} with {has}",
        "pad before it: torch.nn.functional.pad(x, ...), then the convolution without padding"
        if padded and not dilated
        else "",
    )


def _transposed_stride(
    facts: OperatorFacts, npu: str, kernel: Sequence[int]
) -> FallbackReason | None:
    if facts.rank != 4:
        return None  # _transposed says it
    (rows, columns), stride = facts.sizes[2:], _pair(facts.ints(3))
    single = (1, 2) if rows == kernel[0] == 1 else (2, 1) if columns == kernel[-1] == 1 else (1, 1)
    if stride in ((1, 1), (2, 2), single):
        return None
    return FallbackReason(
        "transposed strides of 2",
        f"{npu} takes transposed convolutions with strides of 1 x 1 and 2 x 2, not {_by(stride)}",
    )


def _transposed(facts: OperatorFacts) -> FallbackReason | None:
    """Limits of transposed convolutions on all Ethos-U."""
    if facts.value(6) is not True or len(facts.tensors) < 2:
        return None
    weights = facts.tensors[1].sizes
    if len(weights) != 4:
        return FallbackReason(
            "transposed in 2 dimensions",
            f"Ethos-U takes 2-d transposed convolutions, not {len(weights) - 2}-d",
            "reshape to 4 dimensions, and convolve in 2",
        )
    if any(gap != 1 for gap in facts.ints(5)):
        return FallbackReason(
            "transposed without dilation",
            "Ethos-U takes transposed convolutions without dilation",
            "leave the dilation out",
        )
    if facts.value(8) != 1:
        return FallbackReason(
            "transposed in one group",
            "Ethos-U takes transposed convolutions in groups with one scale for all weights only",
            "quantize with get_symmetric_quantization_config(is_per_channel=False)",
        )
    return None


def _argmax(facts: OperatorFacts) -> FallbackReason | None:
    if "int64" not in facts.types:
        return None
    keeps = facts.value(2) is True
    return FallbackReason(
        "argmax in int32",
        "Ethos-U's argmax "
        + ("keeps no dimension" if keeps else "gives int32, and this one gives int64"),
        _LEAVE if facts.border else "",
    )


def _indices(facts: OperatorFacts) -> FallbackReason | None:
    """Indices are int32."""
    wrong = [name for name in facts.types if name == "int64"]
    if not wrong:
        return None
    return FallbackReason(
        "indices in int32",
        "Ethos-U takes indices in int32, not int64",
        "give the indices as torch.int32",
    )


def _gather(facts: OperatorFacts) -> FallbackReason | None:
    if facts.rank in (2, 3) and facts.value(1) in (1, 1 - facts.rank):
        return None
    return FallbackReason(
        "gather of dimension 1",
        f"Ethos-U gathers dimension 1 of 2 or 3, not {facts.value(1)} of {facts.rank}",
        "transpose and reshape before it",
    )


def _sum(facts: OperatorFacts) -> FallbackReason | None:
    sizes = facts.sizes
    for dim in facts.ints(1) or range(len(sizes)):
        if -len(sizes) <= dim < len(sizes):
            dim %= len(sizes)
            parts = prod(sizes[:dim]), sizes[dim], prod(sizes[dim + 1 :])
            if max(parts) > _LARGEST:
                return FallbackReason(
                    "sums of 65,536",
                    f"{_npu(facts)} sums up to {_LARGEST:,} numbers, and as many sums before and "
                    f"behind them, here {' x '.join(f'{part:,}' for part in parts)}",
                )
    return None


def _flip(facts: OperatorFacts) -> FallbackReason | None:
    dims = facts.ints(1)
    if facts.rank == 4 and len(dims) == 1 and dims[0] % 4 in (1, 2):
        return None
    return FallbackReason(
        "flip of rows",
        f"{_npu(facts)} flips the channels or the rows of a 4-d tensor, not dimension "
        f"{', '.join(map(str, dims))} of {facts.rank}",
    )


def _unfold(facts: OperatorFacts) -> FallbackReason | None:
    dim, size, step = (facts.value(position) for position in (1, 2, 3))
    if not (isinstance(dim, int) and isinstance(size, int) and isinstance(step, int)):
        return None
    if not facts.rank or not step:
        return None
    windows = (facts.sizes[dim % facts.rank] - size) // step + 1
    if windows <= 16:
        return None
    return FallbackReason(
        "unfold of 16",
        f"{_npu(facts)} unfolds up to 16 windows, not {windows:,}",
        "take the windows with slices",
    )


def _conversion(facts: OperatorFacts) -> FallbackReason | None:
    """Integers are converted to integers, on U55 and U65 from int8 and int16."""
    if len(facts.types) < 2:
        return None
    given, made = facts.types[:2]
    floats = any(name.startswith(("float", "bfloat")) for name in facts.types)
    small = _npu(facts) != _U85 and (given in ("bool", "int32") or made == "bool")
    if not (floats or small or made == "int64"):
        return None
    return FallbackReason(
        "conversion of types",
        f"{_npu(facts)} does not convert {given} to {made}",
        "convert outside of the model, or keep one type",
    )


def _product(facts: OperatorFacts) -> FallbackReason | None:
    wrong = [name for name in facts.stored if name not in ("int8", "float32")]
    if not wrong:
        return None
    return FallbackReason(
        "products of int8",
        f"{_npu(facts)} multiplies matrices in int8, not {wrong[0]}",
        "quantize to int8: get_symmetric_quantization_config()",
    )


def _by(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))


_Rule = Callable[[OperatorFacts], FallbackReason | None]

_ON_U55: Final[dict[str, list[_Rule]]] = {
    "avg_pool2d": [_pooling],
    "bmm": [_product],
    "convolution": [_convolution],
    "flip": [_flip],
    "max_pool2d": [_pooling],
    "max_pool2d_with_indices": [_pooling],
    "mm": [_product],
    "sum.IntList": [_sum],
    "unfold_copy": [_unfold],
    "upsample_nearest2d.vec": [_resize],
}
"""Rules for U55 and U65."""

_ON_ALL: Final[dict[str, list[_Rule]]] = {
    "_to_dim_order_copy": [_conversion],
    "argmax": [_argmax],
    "convolution": [_transposed],
    "embedding": [_indices],
    "gather": [_indices, _gather],
    "index_select": [_indices],
    "max_pool2d": [_dilated_pooling],
    "max_pool2d_with_indices": [_dilated_pooling],
}
"""Rules for all of them."""


def _pooled_twice(facts: OperatorFacts) -> str:
    """Return a pooling of whole windows in two steps; "" for other windows."""
    kernel, stride = facts.ints(1), facts.ints(2) or facts.ints(1)
    whole = kernel == stride and not any(facts.ints(3)) and len({*kernel}) == 1
    if not whole or kernel[0] % 2 or kernel[0] > 6:
        return ""
    pool = f"torch.nn.functional.{facts.name.partition('_with')[0]}"
    return f"{pool}({pool}(x, 2), {kernel[0] // 2})"
