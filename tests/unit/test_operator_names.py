"""Short names, titles and kinds of operators, as a timeline shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from harness import export_trace
from harness.strategies import EventSpec, RunSpec, trace_of
from tests.conftest import FIXTURES

OPERATORS = re.findall(
    r"^\| `([^`]+)`", (FIXTURES.parents[1] / "docs/operators.md").read_text(), re.MULTILINE
)


def shown(names: Sequence[str], **facts: object) -> list[tuple[str, str]]:
    """Title and kind of an event of each name, of the instruction with its number."""
    events = [
        EventSpec(name, number, number + 1, **{"instruction": number, **facts})
        for number, name in enumerate(names)
    ]
    document = json.loads(export_trace(trace_of(RunSpec(events)), "kineto").data)
    found = {
        event["args"]["Ev Idx"]: (event["name"], event["args"]["kind"])
        for event in document["traceEvents"]
        if "Ev Idx" in event.get("args", {})
    }
    return [found[number] for number in range(len(names))]


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
    ],
)
def test_short_names(name: str, short: str) -> None:
    [(title, _)] = shown([name])
    assert title.removesuffix(" #0") == short


def test_titles_have_the_instruction_and_print_safely() -> None:
    names = ["native_call_convolution.out", "native_call_convolution.out", "\x1b[2J"]
    assert [title for title, _ in shown(names)] == [
        "convolution #0",
        "convolution #1",
        r"\x1b[2J #2",
    ]
    [(title, _)] = shown(["Method::execute"], chain=-1, instruction=-1)
    assert title == "Method::execute"


def test_events_and_instructions_of_an_operator_agree() -> None:
    assert len(OPERATORS) > 250
    events = ["native_call_" + name.partition("::")[2] for name in OPERATORS]
    assert shown(events) == shown(OPERATORS)


def test_every_bundled_operator_has_a_kind() -> None:
    kinds = dict(zip(OPERATORS, (kind for _, kind in shown(OPERATORS)), strict=True))
    unknown = {"other", "runtime", "loading"}
    assert [name for name, kind in kinds.items() if kind in unknown] == []


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
    assert [kind for _, kind in shown([name])] == [kind]


def test_work_of_a_delegate_is_the_delegates() -> None:
    events = [EventSpec("conv2d", 1, 2, delegate="npu"), EventSpec("DELEGATE_CALL", 0, 3)]
    document = json.loads(export_trace(trace_of(RunSpec(events)), "kineto").data)
    kinds = {event["args"].get("kind") for event in document["traceEvents"] if "args" in event}
    assert kinds - {None} == {"delegate"}
    assert shown(["conv2d"]) == [("conv2d #0", "convolution")]
