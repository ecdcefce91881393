"""Short names, titles and kinds of operators."""

from __future__ import annotations

import re

import pytest

from harness.formatting import OperatorKind, operator_kind, operator_title, short_operator_name
from tests.conftest import FIXTURES

OPERATORS = re.findall(
    r"^\| `([^`]+)`", (FIXTURES.parents[1] / "docs/operators.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("native_call_addmm.out", "addmm"),
        ("native_call_cortex_m::quantized_conv2d.out", "quantized_conv2d"),
        ("native_call_quantized_depthwise_conv2d_nhwc.out", "quantized_depthwise_conv2d_nhwc"),
        ("aten::max.dim_max", "max"),
        ("aten::_softmax.out", "softmax"),
        ("aten::__lshift__.Scalar_out", "lshift"),
        ("aten::copy_", "copy_"),
        ("executorch_prim::et_view.default", "et_view"),
        ("Method::execute", "Method::execute"),
        ("OPERATOR_CALL", "OPERATOR_CALL"),
        ("conv2d.0 + relu", "conv2d.0 + relu"),
        ("", ""),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_operator_name(name) == short


def test_titles_have_the_instruction_and_print_safely() -> None:
    assert operator_title("native_call_convolution.out", 5) == "convolution #5"
    assert operator_title("native_call_convolution.out", 0) == "convolution #0"
    assert operator_title("Method::execute", -1) == "Method::execute"
    assert operator_title("Method::execute") == "Method::execute"
    assert operator_title("\x1b[2J", 1) == r"\x1b[2J #1"


def test_events_and_instructions_of_an_operator_agree() -> None:
    assert len(OPERATORS) > 250
    for name in OPERATORS:
        event = "native_call_" + name.partition("::")[2]
        assert short_operator_name(event) == short_operator_name(name)
        assert operator_kind(event) is operator_kind(name)


def test_every_bundled_operator_has_a_kind() -> None:
    known = {name: operator_kind(name) for name in OPERATORS}
    unknown = {OperatorKind.OTHER, OperatorKind.RUNTIME, OperatorKind.LOADING}
    assert [name for name, kind in known.items() if kind in unknown] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("native_call_quantized_transpose_conv2d.out", "convolution"),
        ("native_call_quantized_batch_matmul.out", "linear"),
        ("native_call_max_pool2d_with_indices.out", "pooling"),
        ("native_call__native_batch_norm_legit_no_training.out", "normalization"),
        ("native_call__log_softmax.out", "activation"),
        ("native_call_quantized_add.out", "elementwise"),
        ("native_call_mean.out", "reduction"),
        ("native_call_dequantize_per_tensor.out", "quantize"),
        ("native_call_embedding_4bit.out", "indexing"),
        ("native_call_select_copy.int_out", "shape"),
        ("native_call_adaptive_avg_pool2d.out", "pooling"),
        ("DELEGATE_CALL", "delegate"),
        ("Program::load_method", "loading"),
        ("Method::init", "loading"),
        ("Method::execute", "runtime"),
        ("OPERATOR_CALL", "runtime"),
        ("Link::stream", "runtime"),
        ("my_company::flux_capacitor.out", "other"),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    assert operator_kind(name).value == kind


def test_work_of_a_delegate_is_the_delegates() -> None:
    assert operator_kind("conv2d", delegated=True) is OperatorKind.DELEGATE
