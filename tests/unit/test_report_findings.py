"""SARIF and annotations: what a reviewer is shown of failed checks, whatever names they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import EvaluatedRun, render_report, write_report
from harness.extensions.ci.findings import github_annotations
from tests.conftest import FIXTURES, CommandResult
from tests.support.reported import failed_run, held, reported, unmet

Etharness = Callable[..., CommandResult]
TRACE = FIXTURES / "kws_f32_executorch.etdp"
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)


def placed(source: str, **fields: Any) -> EvaluatedRun:
    return reported(msgspec.structs.replace(unmet(), source=source, **fields))


def results(*runs: EvaluatedRun) -> list[dict[str, Any]]:
    [run] = json.loads(render_report("report.sarif", runs))["runs"]
    rules = run["tool"]["driver"]["rules"]
    found: list[dict[str, Any]] = run["results"]
    assert [rules[item["ruleIndex"]]["id"] for item in found] == [item["ruleId"] for item in found]
    return found


def test_sarif_has_what_does_not_hold_errors_first() -> None:
    note = msgspec.structs.replace(unmet("I05", "noted"), severity="note")
    found = results(
        reported(held(), note, unmet("I05", "warned"), unmet()), failed_run("port gone")
    )
    assert [(item["ruleId"], item["level"]) for item in found] == [
        ("B01", "error"),
        ("run", "error"),
        ("I05", "warning"),
        ("I05", "note"),
    ]
    assert "port gone" in found[1]["message"]["text"]
    assert found[0]["message"]["text"].endswith(": a rule: it is not so")


def test_sarif_of_a_run_that_passed_is_empty() -> None:
    assert results(reported(held())) == []


def test_a_finding_points_to_the_line_of_its_rule() -> None:
    [found] = results(placed("budgets/a b.toml:12"))
    place = found["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "budgets/a%20b.toml"},
        "region": {"startLine": 12},
    }
    [found] = results(placed(""))
    place = found["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "out/run"}}


def test_the_fingerprint_is_that_of_the_check_not_of_its_value() -> None:
    runs = placed("b.toml:1"), placed("b.toml:9", reason="slower still"), placed("", subject="add")
    first, later, other = (results(run)[0]["partialFingerprints"]["check/v1"] for run in runs)
    assert first == later != other


def test_annotations_are_workflow_commands() -> None:
    [line] = github_annotations([placed("budget.toml:3", reason="50 % slower")])
    command, properties, message = re.fullmatch(r"::(\w+) (.*?)::(.*)", line).groups()  # type: ignore[union-attr]
    assert command == "error"
    assert properties.startswith("file=budget.toml,line=3,title=B01 relu ")
    assert message == "a rule: 50 %25 slower"
    [line] = github_annotations([failed_run("port gone")])
    assert line.startswith("::error title=")
    assert line.endswith("::LinkError%3A port gone".replace("%3A", ":"))


@pytest.mark.attack(
    "Texts", "newlines, `::` and commas in names, for GitHub's annotations", "one line each"
)
@given(ANY_TEXT, ANY_TEXT)
def test_no_name_ends_an_annotation_or_adds_a_property(subject: str, reason: str) -> None:
    [line] = github_annotations([reported(unmet(subject=subject, reason=reason))])
    assert len(line.splitlines()) == 1
    found = re.fullmatch(r"::error title=([^:,]*)::(.*)", line)
    assert found is not None
    assert json.loads(
        render_report("report.sarif", [reported(unmet(subject=subject, reason=reason))])
    )


def test_commands_write_sarif_and_print_annotations(etharness: Etharness, tmp_path: Path) -> None:
    budget, file = tmp_path / "budget.toml", tmp_path / "x.sarif"
    budget.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 0.001\n')
    given = ("--budget", budget, "--annotations", "github")
    code, out, _ = etharness("check", TRACE, *given, "--report", file)
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"::error file={budget},line=4,title=B01 Method%3A%3Aexecute")
    assert lines[-1].startswith("FAIL: ")
    assert json.loads(file.read_text())["runs"][0]["results"][0]["ruleId"] == "B01"
    code, out, err = etharness("check", TRACE, *given, "--json")
    assert json.loads(out)["passed"] is False
    assert err.splitlines()[-1].startswith("::error ")
    code, out, _ = etharness("report", TRACE, *given, "-o", tmp_path / "y.sarif")
    assert out.splitlines()[0].startswith("::error ")
    assert (tmp_path / "y.sarif").read_bytes() == file.read_bytes()


def test_a_report_of_nothing_is_valid(tmp_path: Path) -> None:
    write_report(tmp_path / "empty.sarif", [])
    assert json.loads((tmp_path / "empty.sarif").read_text())["runs"][0]["results"] == []


@pytest.mark.parametrize("name", ["gitlab", ""])
def test_another_system_is_refused(etharness: Etharness, name: str) -> None:
    assert etharness("check", TRACE, "--annotations", name).code == 2
