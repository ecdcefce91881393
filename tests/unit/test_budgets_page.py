"""The examples of docs/budgets.md: each is a budget, and does what the page says."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date
from pathlib import Path

import jsonschema
import pytest

import harness
from harness import Budget, Check, Subject, evaluate
from tests.conftest import FIXTURES, ROOT

PAGE = (Path(__file__).parents[2] / "docs/budgets.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FIRST, TIMES, COUNTERS, ENERGY, SAMPLES, ACCURACY, MANY, SEVERITIES = EXAMPLES
SCHEMA = json.loads((ROOT / "schema/budget.schema.json").read_text())


def judged(tmp_path: Path, text: str, board: str = "", model: str = "") -> list[Check]:
    """The checks of ExecuTorch's own trace of the keyword spotter."""
    (tmp_path / "common.toml").write_text("schema = 1\n")
    path = tmp_path / "budget.toml"
    path.write_text(text)
    trace = harness.load(FIXTURES / "kws_f32_executorch.etdp").trace
    subject = Subject(trace, day=date(2027, 3, 31))
    return [c for c in evaluate(subject, Budget.load(path, board, model)).checks if c.source]


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_follows_the_schema(text: str) -> None:
    instance = json.loads(json.dumps(tomllib.loads(text), default=str))
    jsonschema.validate(instance, SCHEMA)


def test_the_first_example_judges_every_operator(tmp_path: Path) -> None:
    *times, allocator = judged(tmp_path, FIRST)
    assert {check.code for check in times} == {"B01"}
    assert times[0].rule == "p90 of Method::execute in Execute"
    assert len(times) > 10
    assert allocator.reason.startswith("no allocator matches 'planned_*'"), "ExecuTorch logs none"


def test_shares_exceptions_and_blocks(tmp_path: Path) -> None:
    found = judged(tmp_path, TIMES)
    above, below, *others, block = found
    assert (above.code, above.unit, below.code) == ("B01", "%", "B06")
    assert above.measured == below.measured
    assert below.passed
    assert not any("conv" in check.subject or "softmax" in check.subject for check in others)
    assert all(check.rule.startswith("max of warm native_call_*") for check in others)
    assert (block.code, block.passed) == ("B09", True)


@pytest.mark.parametrize(
    ("board", "model", "limit", "severity"),
    [
        ("", "", 30, "error"),
        ("native", "kws_int8.pte", 30, "error"),
        ("my-board", "any.pte", 100, "error"),
        ("qemu-mps2-an386", "kws_int8.pte", 100, "error"),
        ("qemu-mps2-an385", "ic_int8.pte", 100, "error"),
        ("qemu-mps2-an385", "kws_int8.pte", 60, "warning"),
    ],
)
def test_sections(board: str, model: str, limit: float, severity: str, tmp_path: Path) -> None:
    (check,) = judged(tmp_path, MANY, board, model)
    assert (check.limit, check.severity) == (limit, severity)


def test_counters_that_were_not_recorded_fail(tmp_path: Path) -> None:
    found = judged(tmp_path, COUNTERS)
    assert [(check.code, check.passed) for check in found] == [("B13", False)] * 2


def test_energy_that_no_meter_recorded_fails(tmp_path: Path) -> None:
    found = judged(tmp_path, ENERGY)
    assert [(check.code, check.unit) for check in found] == [("B14", "uJ"), ("B14", "mA")]
    assert all("no meter recorded the run (--energy)" in check.reason for check in found)


def test_samples_that_were_not_logged_fail(tmp_path: Path) -> None:
    [found] = judged(tmp_path, SAMPLES)
    assert (found.code, found.passed, found.unit) == ("B15", False, "queue")
    assert found.reason == "no sample of 'queue' is in the log: the limit matches nothing"


def test_accuracy_is_optional_here(tmp_path: Path) -> None:
    assert judged(tmp_path, ACCURACY) == []
    [found] = judged(tmp_path, ACCURACY.replace("optional = true\n", ""))
    assert (found.code, found.passed, found.limit) == ("B16", False, 0.9)
    assert found.reason == "no samples ran (--dataset): the limit matches nothing"


def test_severities(tmp_path: Path) -> None:
    found = judged(tmp_path, SEVERITIES)
    assert {check.severity for check in found} == {"note"}
    assert not any(check.passed for check in found)


def test_every_table_and_key_of_times_is_on_the_page() -> None:
    fields = SCHEMA["$defs"]["BudgetFile"]["properties"]
    tables = {*fields} - {"schema", "extends", "boards", "severity", "for"}
    assert {"time", "history"} < tables
    assert all(re.search(rf"\[\[?{name}\]\]?", PAGE) for name in tables)
    named = set(re.findall(r"`(?:\[\[)?([a-z_]+)", PAGE))
    properties = {
        name
        for definition in SCHEMA["$defs"].values()
        if not definition["title"].startswith("History")
        for name in definition.get("properties", {})
    }
    missing = properties - named - {"schema", "extends", "sections"} - set(re.findall(r"\w+", PAGE))
    assert not {name for name in missing if not name.startswith("at_least_")}
