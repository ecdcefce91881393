"""The fall-back X-ray: which operators a delegate left, why, and what they take."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from harness import FormatError, Instruction, read_program, write_ed00
from harness.extensions.fallback import xray as fallback
from harness.strategies import EventSpec, RunSpec, trace_of
from tests.conftest import FIXTURES, ROOT, CommandResult
from tests.support.programs import ProgramBuilder

Etharness = Callable[..., CommandResult]
MODEL, LOG = (FIXTURES / f"fallback_xnnpack.{kind}" for kind in ("pte", "etdp"))
"""Made by record_fallback.py: XNNPACK around what it does not take, in ExecuTorch's own runtime."""

ETHOS_U = FIXTURES / "fallback_ethos_u.pte"
"""For Ethos-U55: it leaves avg_pool2d by 4, and computes in integers."""

REASONS = {
    "aten::_softmax.out": (
        "softmax over the last dimension",
        "XNNPACK takes softmax over the last dimension, not over 1 of 4",
        "torch.softmax(x.transpose(1, -1), -1).transpose(1, -1)",
    ),
    "aten::avg_pool2d.out": (
        "avg_pool2d without counted padding",
        "XNNPACK does not count padding into the average, here 1, 1",
        "torch.nn.functional.pad(x, (1, 1, 1, 1)), then avg_pool2d without padding; or "
        "count_include_pad=False, which changes the border",
    ),
    "aten::pow.Tensor_Scalar_out": (
        "pow of 2",
        "XNNPACK takes pow(x, 2), not pow(x, 3)",
        "x * x * x",
    ),
    "aten::mean.out": (
        "mean keeps dimensions",
        "XNNPACK takes mean with keepdim=True only",
        "x.mean((2, 3), keepdim=True).flatten(1)",
    ),
    "aten::argmax.out": (
        "operator",
        "XNNPACK's partitioner does not take argmax",
        "leave it to the application: return its input from the model",
    ),
    "aten::native_layer_norm.out": (
        "operator",
        "XNNPACK's partitioner does not take native_layer_norm",
        "",
    ),
}


@pytest.fixture
def xray(etharness: Etharness) -> dict[str, Any]:
    [method] = json.loads(etharness("inspect", str(MODEL), "--json").out)["methods"]
    found: dict[str, Any] = method["sections"]["fallback"]
    return found


def test_every_operator_outside_has_its_rule_and_what_to_try(xray: dict[str, Any]) -> None:
    jsonschema.validate(xray, json.loads((ROOT / "schema/fallback.schema.json").read_text()))
    found = {
        item["operator"]: (item["rule"], item["why"], item["attempt"]) for item in xray["operators"]
    }
    assert found == REASONS
    assert xray["delegate_calls"] == [[0, 0], [0, 6]]
    assert [part["name"] for part in xray["parts"]] == ["delegate", "other operators"]
    # 1 x 8 x 16 x 16 floats in and out of softmax.
    assert xray["operators"][0]["bytes"] == 2 * 8 * 16 * 16 * 4


def rows_below(text: str, title: str) -> list[str]:
    lines = text.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith(title)]
    return lines[at + 2 : lines.index("", at)]


def test_inspect_prints_the_operators_with_the_largest_tensors_first(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", str(MODEL))
    assert code == 0
    assert "2 calls of XnnpackBackend, 6 operators outside\n" in out
    rows = rows_below(out, "Operators outside of delegates")
    names = ["softmax", "avg_pool2d", "pow", "mean", "argmax", "native_layer_norm"]
    assert [row.split()[0] for row in rows] == names
    assert rows[-1].endswith("nothing is known")


def test_a_program_without_a_delegate_has_no_xray(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", "kws_f32", "--json")
    assert code == 0
    assert "fallback" not in out


def test_the_example_npu_has_rules_and_another_backend_has_none(etharness: Etharness) -> None:
    [method] = json.loads(etharness("inspect", "npu_str", "--json").out)["methods"]
    operators = method["sections"]["fallback"]["operators"]
    assert [(item["operator"], item["why"].split()[-1]) for item in operators] == [
        ("aten::tanh.out", "tanh"),
        ("aten::mean.out", "mean"),
    ]
    known = read_program(MODEL.read_bytes()).methods[0]
    other = fallback.describe(dataclasses.replace(known, delegates=("OtherNpu", "OtherNpu")), ["*"])
    assert other is not None
    assert {item.rule for item in other.operators} == {""}
    assert all(item.why.startswith("the rule is not known") for item in other.operators)


@pytest.mark.parametrize(("kind", "part"), [(np.int64, "other operators"), (np.float32, "permute")])
def test_a_copy_to_another_type_is_no_permutation(
    kind: type, part: str, etharness: Etharness, tmp_path: Path
) -> None:
    builder = ProgramBuilder([0, 192])
    x, y = (builder.tensor((4,), of, memory=(1, at)) for of, at in ((kind, 0), (np.float32, 64)))
    z = builder.tensor((4,), memory=(1, 128))
    builder.call("dim_order_ops::_to_dim_order_copy", x, y, y)
    builder.delegate("XnnpackBackend", y, z)
    (tmp_path / "copy.pte").write_bytes(builder.finish([x], [z]))
    shown = json.loads(etharness("inspect", tmp_path / "copy.pte", "--json").out)
    xray = shown["methods"][0]["sections"]["fallback"]
    assert [item["part"] for item in xray["operators"]] == [part]
    assert [item["name"] for item in xray["parts"]] == ["delegate", part]


def test_a_log_of_executorchs_own_runtime_gives_times(etharness: Etharness) -> None:
    code, out, err = etharness("decode", str(LOG), "--model", str(MODEL))
    assert (code, err) == (0, "")
    title = "2 calls of XnnpackBackend, 6 operators outside: means of 5 executions of middle "
    title += "duration, of 9"
    parts = rows_below(out, title)
    shares = {row.split("  ")[0]: float(row.split()[-2]) for row in parts}
    assert list(shares) == [
        *("delegate", "conversions in the delegate", "other operators", "between instructions")
    ]
    # What is between instructions is the rest, so the parts are the whole.
    assert sum(shares.values()) == pytest.approx(100, abs=0.3)
    assert shares["other operators"] > 50
    rows = rows_below(out, "Operators outside of delegates")
    times = [float(row.split()[3]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert rows[0].startswith("avg_pool2d")
    assert sum(row.split()[4] == "not" for row in rows) == 1, "only layer_norm has no remedy"


@pytest.mark.parametrize("words", [("decode", str(LOG)), ("report", str(LOG))])
def test_a_log_without_its_model_has_no_xray(words: Sequence[str], etharness: Etharness) -> None:
    code, out, _ = etharness(*words)
    assert code == 0
    assert "outside" not in out


def test_an_operator_that_ethos_u_leaves_has_its_rule_and_what_is_there_for_it(
    etharness: Etharness,
) -> None:
    [method] = json.loads(etharness("inspect", str(ETHOS_U), "--json").out)["methods"]
    found = method["sections"]["fallback"]
    jsonschema.validate(found, json.loads((ROOT / "schema/fallback.schema.json").read_text()))
    pool = "torch.nn.functional.avg_pool2d"
    with_it = "follow the advice for the operator beside it"
    passes = "give the model integers: executorch.exir.passes.quantize_io_pass"
    assert [(item["part"], item["rule"], item["attempt"]) for item in found["operators"]] == [
        ("quantize", "integers at the border", f"{passes}.QuantizeInputs"),
        ("dequantize", "beside the CPU", with_it),
        ("permute", "beside the CPU", with_it),
        ("other operators", "pooling by 3", f"{pool}({pool}(x, 2), 2)"),
        ("quantize", "beside the CPU", with_it),
        ("dequantize", "integers at the border", f"{passes}.QuantizeOutputs"),
    ]
    assert all(item["instructions"] > 1000 for item in found["operators"])
    out = etharness("inspect", str(ETHOS_U)).out
    assert "Cortex-M55 instructions (estimate)" in out
    rows = rows_below(out, "Operators outside of delegates")
    names = ["to_dim_order_copy", "dequantize_per_tensor, quantize_per_tensor", "avg_pool2d"]
    assert [row.split("  ")[0] for row in rows[:3]] == names
    assert len(rows) == len({item["why"] for item in found["operators"]})
    assert "(estimate)" not in etharness("inspect", str(MODEL)).out


def test_multiply_accumulates_of_ethos_u_are_counted(etharness: Etharness) -> None:
    [method] = json.loads(etharness("inspect", str(ETHOS_U), "--json").out)["methods"]
    # A 3x3 convolution of 3 to 8 channels on 32 x 32, and one of 1x1 of 8 to 4 channels on 8 x 8.
    macs = 32 * 32 * 9 * 3 * 8 + 8 * 8 * 8 * 4
    assert method["macs"] == macs
    assert {work["operator"]: work["macs"] for work in method["operators"]}["EthosUBackend"] == macs
    assert method["sections"]["fallback"]["parts"][0]["macs"] == macs
    code, out, _ = etharness("inspect", str(ETHOS_U))
    assert code == 0
    assert f"multiply-accumulates  {macs:,}\n" in out
    out = etharness("inspect", str(MODEL)).out
    assert "multiply-accumulates  0, without those of XnnpackBackend\n" in out
    assert "installed\n\nplanned memory" in out


UPSTREAM = {
    "EthosUBackend of 2026": [("handles.input.memcpy()", 300), ("NPU", 5200)],
    "EthosUBackend of 2025": [
        *(("handles.input.memcpy()", 300), ("NPU", 5000), ("handles.output.memcpy()", 200)),
    ],
    "ArmBackend": [
        *(("handles.input.permute_CHW_to_HWC()", 300), ("NPU", 5000)),
        *(("handles.output.permute_HWC_to_CHW()", 150), ("handles.output.move()", 50)),
    ],
}
"""Events of ExecuTorch's backend within a call, and what they take here.

These are the names in three generations of its sources: ArmBackendEthosU.cpp, EthosUBackend.cpp,
and the latter with EthosUBackend_Cortex_M.cpp, which copies outputs without an event.
"""


def ethos_u_log(
    path: Path, slow: Sequence[int] = (-1, -1, -1), backend: str = "EthosUBackend of 2025"
) -> Path:
    """Write what ExecuTorch's runtime and its backend log for ETHOS_U, by upstream's names.

    There is an execution for each item of ``slow``: the instruction that takes 10 us longer.
    """
    now, runs, scope = 0, [], f"{backend.partition(' ')[0]}::execute()"
    steps = read_program(ETHOS_U.read_bytes()).methods[0].chains[0]
    for longer in slow:
        first, events = now, []
        for instruction, step in enumerate(steps):
            begin = now
            now += 10_000 if instruction == longer else 0
            if step.target >= 0:
                for name, took in UPSTREAM[backend]:
                    name = f"+{scope}{name}"
                    events.append(EventSpec(name, now, now := now + took, 0, instruction))
                now += 500
                events.append(EventSpec(scope, begin, now, 0, instruction))
                events.append(EventSpec("DELEGATE_CALL", begin, now, 0, instruction))
            else:
                now += 1000
                name = f"native_call_{step.name.rpartition('::')[2]}"
                events.append(EventSpec(name, begin, now, 0, instruction))
                events.append(EventSpec("OPERATOR_CALL", begin, now, 0, instruction))
        events.append(EventSpec("Method::execute", first, now, -1, 0))
        runs.append(RunSpec(events))
    path.write_bytes(write_ed00(trace_of(*runs)))
    return path


@pytest.mark.parametrize("slow", [(0, 2, 3), (1, 6, 6, 0), (5,), (7, 7, 1, 0, 3, 3, 2, -1, -1)])
def test_shares_add_up_to_the_whole_and_operators_to_their_parts(
    slow: Sequence[int], tmp_path: Path, etharness: Etharness
) -> None:
    """Medians would not: each of these executions is slow in another part."""
    log = ethos_u_log(tmp_path / "trace.etdp", slow)
    code, out, err = etharness("decode", str(log), "--model", str(ETHOS_U), "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    jsonschema.validate(document, json.loads((ROOT / "schema/decode.schema.json").read_text()))
    found = document["sections"]["fallback"]
    parts = {part["name"]: part for part in found["parts"]}
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
    assert sum(part["time"] for part in parts.values()) == pytest.approx(found["execution"])
    assert parts["between instructions"]["time"] == 0
    for name in ("quantize", "dequantize", "permute", "other operators"):
        times = [item["time"] for item in found["operators"] if item["part"] == name]
        assert sum(times) == pytest.approx(parts[name]["time"])
    assert (found["executions"], found["averaged"]) == (len(slow), len(slow) - len(slow) // 4 * 2)


@pytest.mark.parametrize("backend", UPSTREAM)
def test_upstreams_events_of_ethos_u_are_copies_and_the_delegate(
    backend: str, tmp_path: Path, etharness: Etharness
) -> None:
    log = ethos_u_log(tmp_path / "trace.etdp", backend=backend)
    code, out, err = etharness("decode", str(log), "--model", str(ETHOS_U))
    assert (code, err) == (0, "")
    title = "2 calls of EthosUBackend, 6 operators outside: means of 3 executions"
    found = [(row.split("  ")[0], row.split()[-3]) for row in rows_below(out, title)]
    copied_out = {"copies out of the delegate": "0.400"} if "2026" not in backend else {}
    assert dict(found) == {
        "delegate": "11.0" if copied_out else "11.4",
        "copies into the delegate": "0.600",
        **copied_out,
        "quantize": "2.00",
        "dequantize": "2.00",
        "permute": "1.00",
        "other operators": "1.00",
        "between instructions": "0",
    }
    parts = ["quantize", "dequantize", "permute", "other operators", "between instructions"]
    assert [name for name, _ in found][-5:] == parts, "in the order of the page"


def test_a_damaged_record_is_an_error_that_names_it() -> None:
    known = fallback.describe(read_program(MODEL.read_bytes()).methods[0], ["*"])
    assert fallback.measure(known, None) == known
    with pytest.raises(FormatError, match=r"fall-back X-ray is invalid: .*backends") as caught:
        fallback.measure({"parts": []}, None)
    assert caught.value.hint.startswith("run the model again")


STRANGE = (
    "aten::mm.out aten::addmm.out aten::unsqueeze_copy.out aten::slice_copy.Tensor_out "
    "aten::cat.out aten::add.out aten::select_copy.int_out aten::constant_pad_nd.out "
    "aten::max.dim_max aten::gelu.out aten::_log_softmax.out aten::upsample_nearest2d.vec_out "
    "aten::upsample_bilinear2d.vec_out dim_order_ops::_to_dim_order_copy.out "
    "dim_order_ops::_clone_dim_order.out aten::squeeze_copy.dims_out "
    "aten::max_pool2d_with_indices.out aten::prelu.out aten::elu.out aten::convolution.out "
    "aten::max_pool2d.out aten::sum.IntList_out aten::flip.out aten::unfold_copy.out aten::bmm.out "
    "aten::gather.out aten::embedding.out aten::view_copy.out aten::sym_size.int"
)


@pytest.mark.parametrize("model", [MODEL, ETHOS_U])
def test_no_program_is_too_strange(model: Path) -> None:
    """Operators with arguments of other operators, of other types and ranks, or without any."""
    method, chance = read_program(model.read_bytes()).methods[0], random.Random(7)
    names = [step.name for step in method.chains[0]] + STRANGE.split()
    values, seen = range(len(method.values)), set[str]()
    for _ in range(300):
        chain = tuple(
            Instruction(
                step.call,
                step.name if step.target >= 0 else chance.choice([*names, *REASONS]),
                tuple(chance.choices(values, k=chance.randrange(9))),
                step.target,
            )
            for step in method.chains[0]
        )
        found = fallback.describe(dataclasses.replace(method, chains=(chain,)), ["*"])
        # None where an operator has arguments of another one, so that its work is not known.
        seen |= {item.rule for item in found.operators} if found is not None else set()
    assert len(seen) > 5
