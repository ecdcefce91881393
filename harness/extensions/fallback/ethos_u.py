"""Rules of the partitioner for Ethos-U: ``backends/arm/operator_support`` of ExecuTorch 1.5.1.

Its partitioner takes quantized operators. The rules see one operator, not for which Ethos-U the
delegates beside it were made, so what only an Ethos-U55 leaves is said to be of that.
"""

from __future__ import annotations

from typing import Final

from harness.extensions.fallback.reasons import FallbackReason, OperatorFacts

BESIDE: Final = "beside the CPU"
"""Rule of what is only there for operators of the CPU."""

_MOST_DIMENSIONS: Final = 6

_TAKEN: Final = (
    "__lshift__.Scalar __rshift__.Scalar _adaptive_avg_pool2d _clone_dim_order _to_dim_order_copy "
    "abs acos acosh add addmm alias_copy amax amin any any.dim any.dims arange.start "
    "arange.start_step argmax as_strided_copy asin asinh atan atanh avg_pool2d bitwise_and.Scalar "
    "bitwise_and.Tensor bitwise_left_shift.Tensor bitwise_not bitwise_or.Scalar bitwise_or.Tensor "
    "bitwise_right_shift.Tensor bitwise_xor.Scalar bitwise_xor.Tensor bmm cat ceil celu clamp "
    "clamp.Tensor constant_pad_nd convolution copy cos cosh cumsum dequantize_per_channel "
    "dequantize_per_tensor detach_copy div.Tensor_mode elu embedding eq.Scalar eq.Tensor erf "
    "erfinv exp expand_copy expm1 eye flip floor full full_like gather ge.Scalar ge.Tensor gelu "
    "gt.Scalar gt.Tensor hardsigmoid hardswish hardtanh index.Tensor index_put index_select "
    "le.Scalar le.Tensor leaky_relu linear linspace log log10 log1p logical_and logical_not "
    "logical_or logical_xor lt.Scalar lt.Tensor masked_fill.Scalar max.dim_max max_pool2d "
    "max_pool2d_with_indices maximum mean min.dim_min minimum mm mul neg pad permute_copy "
    "pow.Tensor_Scalar pow.Tensor_Tensor quantize_per_channel quantize_per_tensor reciprocal relu "
    "remainder.Scalar remainder.Tensor repeat round rsqrt scalar_tensor select_copy.int selu "
    "sigmoid sign silu sin sinh slice_copy.Tensor split_copy.Tensor split_with_sizes_copy "
    "squeeze_copy.dims sub sum.IntList tan tanh unfold_copy unsqueeze_copy "
    "upsample_bilinear2d.vec upsample_nearest2d.vec view_copy where.self"
)
"""Operators of the integer profile, as programs name them that were not delegated."""

_NOT_ON_U55: Final = (
    "any any.dim any.dims bitwise_and.Scalar bitwise_and.Tensor bitwise_not bitwise_or.Scalar "
    "bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor eq.Scalar eq.Tensor gather ge.Scalar "
    "ge.Tensor gt.Scalar gt.Tensor index.Tensor index_put index_select le.Scalar le.Tensor "
    "logical_and logical_not logical_or logical_xor lt.Scalar lt.Tensor ne.Scalar ne.Tensor "
    "scatter.src scatter.value scatter_add select_scatter upsample_bilinear2d.vec where.self"
)
"""Operators that only an Ethos-U55 leaves (and an Ethos-U65)."""

_LEAVE: Final = "leave it to the application, after the model"
"""For an operator at the border of the model."""

_REMEDIES: Final = {
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
    if facts.rank > _MOST_DIMENSIONS:
        return FallbackReason(
            "rank",
            f"Ethos-U takes tensors of up to {_MOST_DIMENSIONS} dimensions, not {facts.rank}",
            f"reshape to {_MOST_DIMENSIONS} dimensions or fewer before it",
        )
    if facts.name in _NOT_ON_U55.split():
        return FallbackReason(
            "not on Ethos-U55",
            f"Ethos-U55 does not take {operator}; Ethos-U85 does",
            _REMEDIES.get(facts.name, _U85),
        )
    if facts.name == "_to_dim_order_copy" and len(facts.types) == 1:
        return FallbackReason(BESIDE, "it changes the layout for an operator that the CPU executes")
    return _windows(facts) or _resize(facts) or _types(facts) or _UNKNOWN


_U85: Final = "compile for Ethos-U85: EthosUCompileSpec('ethos-u85-256')"

_UNKNOWN: Final = FallbackReason(
    "",
    "the rule is not known: Ethos-U's partitioner of ExecuTorch 1.5.1 takes this operator, if its "
    "quantization and its neighbours allow it",
)


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
    return None


def _resize(facts: OperatorFacts) -> FallbackReason | None:
    """Ethos-U55 resizes one picture to the nearest value, by 2, 4 or 8."""
    if facts.name != "upsample_nearest2d.vec" or facts.rank != 4 or not facts.outputs:
        return None
    given, made = facts.sizes, facts.outputs[0].sizes
    if given[0] == 1 and any(made[2:] == (given[2] * by, given[3] * by) for by in (2, 4, 8)):
        return None
    return FallbackReason(
        "resize by 2, 4 or 8",
        f"Ethos-U55 resizes one picture by 2, 4 or 8, not {given} to {made}",
        "resize by 2, 4 or 8, and crop with slices",
    )


def _windows(facts: OperatorFacts) -> FallbackReason | None:
    """Limits of pooling on Ethos-U55."""
    if facts.name not in ("avg_pool2d", "max_pool2d", "max_pool2d_with_indices"):
        return None
    sizes, stride = facts.sizes, facts.ints(2) or facts.ints(1)
    if len(sizes) == 4 and sizes[0] != 1:
        return FallbackReason(
            "pooling of one", f"Ethos-U55 pools a batch of 1, not of {sizes[0]}", "export batch 1"
        )
    if max(stride, default=1) > 3:
        return FallbackReason(
            "pooling by 3",
            f"Ethos-U55 pools with strides up to 3, not {', '.join(map(str, stride))}",
            _pooled_twice(facts),
        )
    return None


def _pooled_twice(facts: OperatorFacts) -> str:
    """Return a pooling of whole windows in two steps; "" for other windows."""
    kernel, stride = facts.ints(1), facts.ints(2) or facts.ints(1)
    whole = kernel == stride and not any(facts.ints(3)) and len({*kernel}) == 1
    if not whole or kernel[0] % 2 or kernel[0] > 6:
        return ""
    pool = f"torch.nn.functional.{facts.name.partition('_with')[0]}"
    return f"{pool}({pool}(x, 2), {kernel[0] // 2})"
