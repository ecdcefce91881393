"""The fall-back X-ray: which operators a delegate left, why, and what they take."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import jsonschema
import pytest

from tests.conftest import FIXTURES, ROOT, CommandResult

Etharness = Callable[..., CommandResult]
MODEL, LOG = (FIXTURES / f"fallback_xnnpack.{kind}" for kind in ("pte", "etdp"))
"""Made by record_fallback.py: XNNPACK around what it does not take, in ExecuTorch's own runtime."""

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


def test_the_rules_of_another_backend_are_not_known(etharness: Etharness) -> None:
    [method] = json.loads(etharness("inspect", "npu_str", "--json").out)["methods"]
    operators = method["sections"]["fallback"]["operators"]
    assert [item["operator"] for item in operators] == ["aten::tanh.out", "aten::mean.out"]
    assert {item["rule"] for item in operators} == {""}
    assert all(item["why"].startswith("the rule is not known") for item in operators)


def test_a_log_of_executorchs_own_runtime_gives_times(etharness: Etharness) -> None:
    code, out, err = etharness("decode", str(LOG), "--model", str(MODEL))
    assert (code, err) == (0, "")
    title = "2 calls of XnnpackBackend, 6 operators outside: medians of 9 executions"
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
