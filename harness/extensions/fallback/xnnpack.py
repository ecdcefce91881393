"""Rules of XNNPACK's partitioner: ``backends/xnnpack/partition/config`` of ExecuTorch 1.5.1.

The partitioner decides on the nodes of the edge program. A ``.pte`` has what its rules ask of the
operators that were left: types, shapes, and arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import msgspec

from harness.extensions.fallback.reasons import FallbackReason, OperatorFacts

VERSION: Final = "1.5.1"

_FLOATS: Final = frozenset({"float32", "float16"})
_INTEGERS: Final = frozenset({"int8", "uint8", "int32"})

_TAKEN: Final = (
    "_clone_dim_order _native_batch_norm_legit_no_training _softmax _to_dim_order_copy abs "
    "add addmm avg_pool2d bmm cat ceil clamp clone constant_pad_nd convolution cos "
    "dequantize_per_tensor div exp floor gelu hardswish hardtanh leaky_relu linear log "
    "max.dim_max max_pool2d maximum mean minimum mm mul neg "
    "permute_copy pow.Tensor_Scalar prelu quantize_per_tensor relu rsqrt sigmoid sin "
    "slice_copy.Tensor sqrt sub tanh unsqueeze_copy upsample_bilinear2d.vec view_copy"
)
"""Operators with a rule, as programs name them that were not delegated."""

_LEAVE: Final = "leave it to the application: return its input from the model"
"""For an operator at the border of the model."""

_INSTEAD: Final = {
    "_adaptive_avg_pool2d": "torch.nn.functional.avg_pool2d(x, N), if the sizes divide",
    "argmax": _LEAVE,
    "div.out_mode": "torch.floor(x / y) for rounding_mode='floor'",
    "embedding": "leave it to the application: make its output an input of the model",
    "max_pool2d_with_indices": "torch.nn.functional.max_pool2d of 4 dimensions without indices, in "
    "place of max_pool1d; export with to_edge_transform_and_lower(program, "
    "partitioner=[XnnpackPartitioner()])",
    "hardsigmoid": "torch.clamp(x / 6.0 + 0.5, 0.0, 1.0)",
    "topk.values": _LEAVE,
}
"""What to write in place of operators without a rule."""


def reason(operands: OperatorFacts) -> FallbackReason:
    """Return why XNNPACK's partitioner left an operator."""
    own = _RULES.get(operands.name)
    if operands.name not in _TAKEN.split():
        found = own(operands) if own else None
        if found is not None:
            return found
        operator = operands.name.partition(".")[0]
        alike = [name for name in _TAKEN.split() if name.partition(".")[0] == operator]
        return FallbackReason(
            "operator",
            f"XNNPACK's partitioner takes {' and '.join(alike)}, not {operands.name}"
            if alike
            else f"XNNPACK's partitioner does not take {operator}",
            _instead(operands),
            0.2 if operands.name == "_log_softmax" else 0.05,
        )
    if operands.name == "_to_dim_order_copy" and len(operands.types) > 1:
        return _conversion(operands)
    return _types(operands) or (own and own(operands)) or _TAKEN_BUT_OUTSIDE


_TAKEN_BUT_OUTSIDE: Final = FallbackReason(
    "",
    f"the rule is not known: XNNPACK's partitioner of ExecuTorch {VERSION} takes this operator, so "
    "it was added after partitioning, or the partitioner was restricted or of another version",
)


def _instead(operands: OperatorFacts) -> str:
    """Return what to write in place of an operator without a rule; "" if nothing is known."""
    back = _listed(operands.outputs[0].sizes) if len(operands.outputs) == 1 else ""
    if operands.name.startswith("squeeze_copy") and back:
        return f"x.reshape({back}) in place of squeeze"
    if operands.name == "_log_softmax" and operands.value(1) in (-1, operands.rank - 1):
        return "torch.log(torch.softmax(x, -1))"
    if operands.name in ("split_copy.Tensor", "split_with_sizes_copy"):
        return _slices(operands)
    if operands.name == "select_copy.int" and back:
        dim, index = operands.value(1), operands.value(2)
        if isinstance(dim, int) and isinstance(index, int) and 0 <= dim < operands.rank:
            index %= max(operands.sizes[dim], 1)
            return f"x[{':, ' * dim}{index}:{index + 1}].reshape({back})"
    instead = _INSTEAD.get(operands.name, "")
    return "" if instead == _LEAVE and not operands.border else instead


def _slices(operands: OperatorFacts) -> str:
    """Return the slices that are the parts of a tensor; "" if they are not known."""
    dim, whole = operands.value(2), operands.sizes
    parts = operands.ints(1)
    if not isinstance(dim, int) or not -len(whole) <= dim < len(whole) or operands.dynamic:
        return ""
    size = operands.value(1)
    if isinstance(size, int) and size > 0:
        parts = (size,) * -(-whole[dim] // size)
    before, ends = ":, " * (dim % len(whole)), [sum(parts[: n + 1]) for n in range(len(parts))]
    starts = [str(end) for end in ends[:-1]]
    slices = [
        f"x[{before}{start}:{end}]" for start, end in zip(["", *starts], [*starts, ""], strict=True)
    ]
    most = [*slices[:2], "...", slices[-1]] if len(slices) > 3 else slices
    return f"take the parts with slices: {', '.join(most)}"


def _types(operands: OperatorFacts) -> FallbackReason | None:
    """Floats only; integers around a quantization; all inputs of one type."""
    quantized = "quantize" in operands.name
    allowed = _FLOATS | _INTEGERS if quantized else _FLOATS
    # max.dim and max_pool2d return indices, too; rules of their own ask whether these are used.
    checked = operands.types if len(operands.outputs) < 2 else operands.types[:1]
    if wrong := [name for name in checked if name not in allowed]:
        cast = "compute it in float32, x.float(), if it is no index"
        if {"float64", "bfloat16"} & {*wrong}:
            cast = "export the model in float32: model.float()"
        return FallbackReason(
            "type", f"XNNPACK takes float32 and float16, not {', '.join(wrong)}", cast
        )
    inputs = {tensor.scalar_type for tensor in operands.tensors}
    if len(inputs) > 1 and not quantized:
        return FallbackReason(
            "mixed types",
            f"XNNPACK takes inputs of one type, not {' and '.join(operands.types[: len(inputs)])}",
            "cast its inputs to one type before it",
        )
    if any(0 in tensor.sizes for tensor in operands.tensors):
        return FallbackReason("empty tensor", "XNNPACK takes no tensor without elements")
    return None


def _conversion(operands: OperatorFacts) -> FallbackReason:
    """A conversion of types; most are of whole numbers among floats, as in `x * 2`."""
    given, made = operands.types[:2]
    attempt = "convert outside of the model, or keep one type"
    if operands.tensors and operands.tensors[0].constant and not operands.rank:
        attempt = "write the number as a float: x * 2.0 in place of x * 2"
    why = f"XNNPACK does not convert types, here {given} to {made}"
    return FallbackReason("conversion of types", why, attempt)


def _mean(operands: OperatorFacts) -> FallbackReason | None:
    rank, dims = operands.rank, sorted({dim % max(operands.rank, 1) for dim in operands.ints(1)})
    if rank != 4:
        return FallbackReason(
            "mean of 4 dimensions",
            f"XNNPACK takes mean of 4-d tensors, not of {rank}-d ones",
            _reshaped_mean(operands, dims),
        )
    if dims != [2, 3]:
        return FallbackReason(
            "mean over 2 and 3",
            f"XNNPACK takes mean over dimensions 2 and 3, not over {_listed(dims)}",
            _reshaped_mean(operands, dims),
        )
    if operands.value(2) is not True:
        return FallbackReason(
            "mean keeps dimensions",
            "XNNPACK takes mean with keepdim=True only",
            "x.mean((2, 3), keepdim=True).flatten(1)",
        )
    if operands.value(3) is not None:
        return FallbackReason(
            "mean without dtype", "XNNPACK takes mean without dtype", "cast before it"
        )
    return None


def _mean_of_all(_operands: OperatorFacts) -> FallbackReason:
    return FallbackReason(
        "mean over 2 and 3",
        "XNNPACK takes mean over dimensions 2 and 3, not over all",
        "x.reshape(1, 1, -1, 1).mean((2, 3), keepdim=True).reshape(())",
    )


def _reshaped_mean(operands: OperatorFacts, dims: list[int]) -> str:
    """Return a mean over any dimensions as one over dimensions 2 and 3."""
    if not (dims and operands.rank and operands.outputs) or operands.dynamic:
        return ""
    sizes = operands.sizes
    kept = [dim for dim in range(len(sizes)) if dim not in dims]
    order, reduced = [*kept, *dims], prod(sizes[dim] for dim in dims)
    moved = "" if order == sorted(order) else f".permute({_listed(order)})"
    shape = f"1, {prod(sizes[dim] for dim in kept)}, {reduced}, 1"
    back = _listed(operands.outputs[0].sizes)
    return f"x{moved}.reshape({shape}).mean((2, 3), keepdim=True).reshape({back})"


def _softmax(operands: OperatorFacts) -> FallbackReason | None:
    dim, rank = operands.value(1), operands.rank
    if not isinstance(dim, int) or dim in (-1, rank - 1):
        return None
    return FallbackReason(
        "softmax over the last dimension",
        f"XNNPACK takes softmax over the last dimension, not over {dim} of {rank}",
        f"torch.softmax(x.transpose({dim}, -1), -1).transpose({dim}, -1)",
        0.1,
    )


def _pow(operands: OperatorFacts) -> FallbackReason | None:
    power = operands.value(1)
    if power == 2 and isinstance(power, int):
        return None
    instead = {
        0.5: "torch.sqrt(x)",
        -0.5: "torch.rsqrt(x)",
        2.0: "x * x, or torch.pow(x, 2) with an integer",
        3.0: "x * x * x",
        4.0: "torch.pow(torch.pow(x, 2), 2)",
    }
    attempt = instead.get(float(power), "") if isinstance(power, int | float) else ""
    return FallbackReason("pow of 2", f"XNNPACK takes pow(x, 2), not pow(x, {power})", attempt)


def _avg_pool(operands: OperatorFacts) -> FallbackReason | None:
    kernel, padding = operands.ints(1), operands.ints(3)
    if operands.value(4) is True:
        return FallbackReason(
            "avg_pool2d without ceil_mode",
            "XNNPACK takes avg_pool2d with ceil_mode=False only",
            "leave ceil_mode out, which drops windows that are not whole",
        )
    if operands.value(5) is not False and any(padding):
        pads = padding * 2 if len(padding) == 1 else padding
        rows, columns = pads[0], pads[-1]
        return FallbackReason(
            "avg_pool2d without counted padding",
            f"XNNPACK does not count padding into the average, here {_listed(padding)}",
            f"torch.nn.functional.pad(x, ({columns}, {columns}, {rows}, {rows})), then avg_pool2d "
            "without padding; or count_include_pad=False, which changes the border",
        )
    divisor = operands.value(6)
    area = kernel[0] * kernel[-1] if kernel else 0
    if divisor is not None and divisor != area:
        return FallbackReason(
            "avg_pool2d without divisor",
            f"XNNPACK takes avg_pool2d divided by its window of {area}, not by {divisor}",
            f"leave divisor_override out, and multiply by {area} / {divisor}",
        )
    return None


def _max_pool(operands: OperatorFacts) -> FallbackReason | None:
    kernel = operands.ints(1)
    stride = operands.ints(2) or kernel
    if operands.value(5) is True and operands.dynamic:
        return FallbackReason(
            "max_pool2d without ceil_mode",
            "XNNPACK takes max_pool2d with ceil_mode=True for static shapes only",
            "export static shapes, or leave ceil_mode out",
        )
    if kernel and (stride[0] > kernel[0] or stride[-1] > kernel[-1]):
        return FallbackReason(
            "max_pool2d without gaps",
            f"XNNPACK takes strides up to the kernel size {_listed(kernel)}, not {_listed(stride)}",
        )
    return None


def _alpha(operands: OperatorFacts) -> FallbackReason | None:
    alpha = operands.value(2)
    if not isinstance(alpha, int | float) or abs(alpha - 1) < 1e-9:
        return None
    sign = "+" if operands.name == "add" else "-"
    return FallbackReason(
        "alpha of 1",
        f"XNNPACK takes {operands.name} with alpha=1, not {alpha}",
        f"x {sign} {float(alpha)} * y",
    )


def _unsqueeze(operands: OperatorFacts) -> FallbackReason | None:
    dim = operands.value(1)
    if dim in (-1, operands.rank):
        return None
    return FallbackReason(
        "unsqueeze of the last dimension",
        f"XNNPACK takes unsqueeze of the last dimension, not of {dim}",
        f"x.reshape({_listed(operands.outputs[0].sizes)}) in place of unsqueeze"
        if operands.outputs
        else "",
    )


def _slice(operands: OperatorFacts) -> FallbackReason | None:
    dim, start, step = (operands.value(position) for position in (1, 2, 4))
    if step in (1, None) or not isinstance(step, int):
        return _static(operands)
    attempt, rank = "", operands.rank
    if isinstance(dim, int) and -rank <= dim < rank and start in (0, None) and step > 0:
        dim, sizes = dim % rank, operands.sizes
        if sizes[dim] % step == 0 and operands.outputs and not operands.dynamic:
            shape = (*sizes[:dim], sizes[dim] // step, step, *sizes[dim + 1 :])
            back = _listed(operands.outputs[0].sizes)
            attempt = f"x.reshape({_listed(shape)})[{':, ' * (dim + 1)}:1].reshape({back})"
    return FallbackReason("slice of step 1", f"XNNPACK takes slices of step 1, not {step}", attempt)


def _pad(operands: OperatorFacts) -> FallbackReason | None:
    if all(amount >= 0 for amount in operands.ints(1)):
        return None
    return FallbackReason(
        "padding of 0 or more",
        f"XNNPACK does not crop: padding is {_listed(operands.ints(1))}",
        "crop with slices",
    )


def _dim_order(operands: OperatorFacts) -> FallbackReason | None:
    if not operands.tensors or not operands.outputs:
        return None
    given, made = operands.tensors[0], operands.outputs[0]
    if given.dim_order == made.dim_order:
        return None
    return FallbackReason(
        "clone in the same layout",
        "XNNPACK takes clones that keep the layout, not from "
        f"{_listed(given.dim_order)} to {_listed(made.dim_order)}",
        "give the model inputs in the layout that it computes in, and leave the clone out",
    )


def _convolution(operands: OperatorFacts) -> FallbackReason | None:
    if len(operands.tensors) > 1 and len(operands.tensors[1].sizes) > 4:
        return FallbackReason(
            "convolutions of 1 or 2 dimensions",
            f"XNNPACK takes 1-d and 2-d convolutions, not {len(operands.tensors[1].sizes) - 2}-d",
        )
    return _weights(operands, 1)


def _weights(operands: OperatorFacts, position: int) -> FallbackReason | None:
    """Weights that are computed are no parameters."""
    weight = operands.tensors[position] if len(operands.tensors) > position else None
    if weight is None or weight.constant:
        return None
    return FallbackReason(
        "constant weights",
        "XNNPACK takes weights that are parameters, and these are computed or an input",
        "make the weights a parameter of the module",
    )


def _product(operands: OperatorFacts) -> FallbackReason | None:
    found = _weights(operands, 2 if operands.name == "addmm" else 1)
    if found is None or operands.name != "mm":
        return found
    if operands.rank != 2 or len(operands.tensors[1].sizes) != 2:
        return found
    (rows, inner), columns = operands.sizes, operands.tensors[1].sizes[-1]
    factors = f"x.reshape(1, {rows}, {inner}), y.reshape(1, {inner}, {columns})"
    return msgspec.structs.replace(
        found, attempt=f"torch.bmm({factors}).reshape({rows}, {columns})"
    )


def _max_dim(operands: OperatorFacts) -> FallbackReason | None:
    if operands.rank != 4:
        return FallbackReason(
            "max of 4 dimensions",
            f"XNNPACK takes max of 4-d tensors, not of {operands.rank}-d ones",
        )
    return FallbackReason(
        "max without indices",
        "XNNPACK takes max over a dimension whose indices are not used",
        "use torch.amax where the indices are not needed",
    )


def _gelu(operands: OperatorFacts) -> FallbackReason | None:
    if "float16" not in operands.types:
        return None
    return FallbackReason(
        "gelu in float32", "XNNPACK takes gelu in float32, not float16", "x.float()"
    )


def _static(operands: OperatorFacts) -> FallbackReason | None:
    """Resizing, slices and reshapes are of static sizes."""
    if not (operands.dynamic or any(tensor.dynamism for tensor in operands.tensors)):
        return None
    operator = operands.name.partition(".")[0].removesuffix("_copy")
    return FallbackReason(
        "static sizes",
        f"XNNPACK takes {operator} of static sizes only",
        "export static shapes",
    )


def _cat(operands: OperatorFacts) -> FallbackReason | None:
    if len(operands.distinct) > 2:  # the dimension is a value, too
        return None
    return FallbackReason(
        "cat of 2 or more",
        "XNNPACK takes cat of two or more different tensors, not of one",
        "" if len(operands.tensors) > 1 else "leave it out",
    )


def _batch_norm(operands: OperatorFacts) -> FallbackReason | None:
    if operands.rank in (2, 3, 4):
        return _weights(operands, 1)
    return FallbackReason(
        "batch norm of 2 to 4 dimensions",
        f"XNNPACK takes batch norms of 2 to 4 dimensions, not of {operands.rank}",
        "reshape to 4 dimensions before it",
    )


def _prelu(operands: OperatorFacts) -> FallbackReason | None:
    return _weights(operands, 1)


def _listed(numbers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


_RULES: Final[dict[str, Callable[[OperatorFacts], FallbackReason | None]]] = {
    "_clone_dim_order": _dim_order,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "_softmax": _softmax,
    "add": _alpha,
    "addmm": _product,
    "avg_pool2d": _avg_pool,
    "cat": _cat,
    "clone": _dim_order,
    "constant_pad_nd": _pad,
    "convolution": _convolution,
    "gelu": _gelu,
    "linear": _product,
    "max.dim_max": _max_dim,
    "max_pool2d": _max_pool,
    "max_pool2d_with_indices": _max_pool,
    "mean": _mean,
    "mean.dtype": _mean_of_all,
    "mm": _product,
    "pow.Tensor_Scalar": _pow,
    "prelu": _prelu,
    "slice_copy.Tensor": _slice,
    "sub": _alpha,
    "unsqueeze_copy": _unsqueeze,
    "upsample_bilinear2d.vec": _static,
    "view_copy": _static,
}
