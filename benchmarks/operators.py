"""Write docs/operators.md: every operator, the types that it takes, and the networks that call it.

    .venv-oracle/bin/python -m benchmarks.operators

Types are tried, one call each, on the device's code built for this host. Networks are those of
``firmware_stub/models/export_zoo.py``, exported anew, which takes two minutes.
"""

from __future__ import annotations

import ctypes as ct
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.files import data_directory
from harness.target.build import build_directory, build_preset
from tests.support.calls import fresh
from tests.support.kernels import Out, TensorList, one_call
from tests.support.mirrors import load_library
from tests.support.operators import CALLS
from tests.support.runtime import DTYPES, RuntimeFailure, load

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/operators.md"
NAMED = 6
"""Networks that the row of an operator names; others are counted."""

ABSENT = {
    "complex numbers": (
        "aten::_conj_physical.out",
        "aten::_fft_c2r.out",
        "aten::_fft_r2c.out",
        "aten::view_as_real_copy.out",
    ),
    "training": (
        "aten::convolution_backward.out",
        "aten::max_pool2d_with_indices_backward.grad_input",
        "aten::native_dropout.out",
    ),
    "random numbers, because their results cannot be compared": (
        "aten::rand.out",
        "aten::randn.out",
    ),
    "processors with separate memory": (
        "et_copy::_d2h_copy.out",
        "et_copy::_h2d_copy.out",
    ),
    "ExecuTorch's own tests": ("aten::allclose.Tensor", "aten::allclose.out"),
    "caches of language models, and their layers that XNNPACK executes": (
        "quantized_decomposed::choose_qparams_per_token_asymmetric.out",
        "quantized_decomposed::dequantize_per_token.out",
        "quantized_decomposed::quantize_per_token.out",
    ),
    "int8 weights with float activations, which no ExecuTorch pass exports": (
        "quantized_decomposed::mixed_linear.out",
        "quantized_decomposed::mixed_mm.out",
    ),
}
"""Operators of ExecuTorch that the device has no kernel for, by what they are for."""

EXECUTORCH = "1.5.1"
"""The release of ExecuTorch that `ABSENT` is about."""

BEYOND = (
    "aten::_embedding_bag.out",
    "aten::_embedding_bag_forward_only.out",
    "aten::__lshift__.Scalar_out",
    "aten::__lshift__.Tensor_out",
    "aten::__rshift__.Scalar_out",
    "aten::__rshift__.Tensor_out",
    "aten::adaptive_max_pool2d.out",
    "aten::all.all_out",
    "aten::all.dims_out",
    "aten::all.out",
    "aten::avg_pool3d.out",
    "aten::exp2.out",
    "aten::hardsigmoid.out",
    "aten::hardswish.out",
    "aten::max_pool3d_with_indices.out",
    "aten::scatter_reduce.two_out",
    "aten::silu.out",
    "aten::sort.values",
    "aten::sort.values_stable",
    "aten::triu.out",
    "aten::upsample_bilinear2d.out",
    "aten::upsample_nearest2d.out",
)
"""Operators for which these libraries of ExecuTorch have no kernel."""

INTRODUCTION = """# Operators

This page lists the operators of the bundled C kernels. `benchmarks/operators.py` writes it. A model
with an unsupported operator is refused when it is loaded; the error names the operator.

**Types** lists the accepted types of the first tensor of a call. Indexes, masks and scales have
other types. Operators of `executorch_prim` compute with numbers instead of tensors.

**Networks** lists the networks of `firmware_stub/models/export_zoo.py` that call the operator. They
are small networks of many architectures. All of them compute the same outputs as PyTorch; int8
exports for Cortex-M are bit-identical. The other networks log the same events as ExecuTorch's own
runtime. `tests/oracle/test_zoo.py` tests both.

A board can link a subset: `-DETD_OPERATORS="aten::relu.out;aten::addmm.out"`.

Many functions of PyTorch need no kernel, because the exporter replaces them. `torch.matmul` becomes
`mm`, `bmm` or products and sums (network `broadcast_products`), pooling over one dimension becomes
pooling over two (`pooled_audio`), and mirrored or repeated edges become indexes (`style_block`).
The kernels for `reflection_pad` and `replication_pad` are for programs that preserve these
operators (`preserve_ops` of `EdgeCompileConfig`).

ExecuTorch exports some functions that its own runtime does not run. With ExecuTorch 1.5.1,
`max_pool3d`, `avg_pool3d` (which `LocalResponseNorm` becomes), `scatter_reduce` and `EmbeddingBag`
stay operators without a kernel ("kernel 'aten::avg_pool3d.out' not found"), and the kernel of
`aten::convolution` refuses three spatial dimensions ("Expect input tensor to be 3-D or 4-D").
The bundled kernels run them in float32 (`scatter_reduce` in every type but bool): networks
`video_clip`, `local_response`, `neighbour_statistics` and `bag_of_words`. Transposed convolutions
of volumes are refused. The last three outputs of `_embedding_bag` are for training; they are zeros.
`tests/oracle/test_beyond_executorch.py` repeats the experiment.
"""


def changed(value: Any, before: np.dtype[Any], after: np.dtype[Any]) -> Any:
    """An argument in which tensors of one type have another."""
    match value:
        case Out() if np.dtype(value.dtype) == before:
            return replace(value, dtype=after.type)
        case np.ndarray() if value.dtype == before:
            return value.astype(after)
        case TensorList():
            return TensorList([changed(item, before, after) for item in value.tensors])
        case _:
            return value


def first_type(arguments: Sequence[Any]) -> np.dtype[Any] | None:
    """The type of the first tensor among the arguments."""
    for value in arguments:
        for item in value.tensors if isinstance(value, TensorList) else [value]:
            if isinstance(item, (np.ndarray, Out)):
                return np.dtype(item.dtype)
    return None


def variants(
    arguments: Sequence[Any], before: np.dtype[Any], after: np.dtype[Any]
) -> Iterator[list[Any]]:
    """Calls with another type of inputs, while outputs follow, stay or become int64.

    Each is made once more with whole numbers.
    """
    inputs = [v if isinstance(v, Out) else changed(v, before, after) for v in arguments]
    widened = [
        changed(value, before, np.dtype(np.int64)) if isinstance(value, Out) else value
        for value in inputs
    ]
    for call in ([changed(value, before, after) for value in arguments], inputs, widened):
        yield call
        yield [round(value) if isinstance(value, float) else value for value in call]


def is_accepted(library: ct.CDLL, operator: str, call: Sequence[Any]) -> bool:
    """Whether the kernel computes this call."""
    try:
        load(library, one_call(operator, fresh(list(call)))).execute()
    except RuntimeFailure:
        return False
    return True


def types(library: ct.CDLL, operator: str) -> str:
    """Names of the types that the operator takes."""
    arguments = CALLS[operator].arguments
    before = first_type(arguments)
    if before is None:
        return "numbers"
    accepted = [
        after.name
        for after in DTYPES
        if any(is_accepted(library, operator, c) for c in variants(arguments, before, after))
    ]
    return ", ".join(accepted)


def operator_rows(library: ct.CDLL, networks: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of the table of operators."""
    lines = ["| operator | types | networks |", "|---|---|---|"]
    for operator in sorted(CALLS):
        users = [name for name, called in networks.items() if operator in called]
        named = ", ".join(users[:NAMED])
        if len(users) > NAMED:
            named += f" and {len(users) - NAMED} more"
        lines.append(f"| `{operator}` | {types(library, operator)} | {named} |")
    return lines


def network_rows(networks: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of the table of networks."""
    lines = ["| network | operators |", "|---|---|"]
    for name, called in networks.items():
        lines.append(f"| {name} | {', '.join(f'`{operator}`' for operator in called)} |")
    return lines


def absent_rows() -> list[str]:
    """Operators that only ExecuTorch supports, and those that only we support."""
    absent = [
        f"- {purpose}: {', '.join(f'`{name}`' for name in names)}"
        for purpose, names in ABSENT.items()
    ]
    count = sum(len(names) for names in ABSENT.values())
    return [
        "",
        "## Operators that only ExecuTorch supports",
        "",
        f"ExecuTorch {EXECUTORCH} has portable, quantized, Cortex-M or primitive kernels",
        f"for {count} operators that are not supported here, by purpose:",
        "",
        *absent,
        "",
        "None of ExecuTorch's operators for language models (`llama::`) is supported.",
        "",
        f"ExecuTorch has no kernel for {len(BEYOND)} of the supported operators. A program that",
        "calls them runs with the bundled kernels, but not with ExecuTorch's portable kernels:",
        ", ".join(f"`{name}`" for name in BEYOND) + ".",
        "",
        "`tests/oracle/test_operator_coverage.py` compares both lists with the installed release.",
    ]


def page(library: ct.CDLL, networks: Mapping[str, Sequence[str]]) -> str:
    """The page for networks with the operators that they call."""
    head = f"\n{len(CALLS)} operators:\n"
    middle = f"\n## Networks\n\n{len(networks)} networks:\n"
    parts = [INTRODUCTION, head, *operator_rows(library, networks), *absent_rows(), middle]
    return "\n".join([*parts, *network_rows(networks), ""])


def read_networks(text: str) -> dict[str, list[str]]:
    """The networks of a page, with their operators."""
    rows = re.findall(r"^\| (\w+) \| (`.*`) \|$", text, re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", cell) for name, cell in rows}


def main() -> None:
    from tests.support.zoo import exported, script

    source = data_directory("firmware_stub")
    directory = build_directory(source, "native")
    build_preset(source, "native", directory, {})
    library = load_library(directory / "libetstub.so")
    networks = {name: exported(name).operators for name in script()["MEMBERS"]}
    PAGE.write_text(page(library, networks))


if __name__ == "__main__":
    main()
