"""Energy in reports: the same numbers everywhere, and why there are none."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from harness import (
    CurrentCurve,
    EnergyRecord,
    EvaluatedRun,
    OperatorEnergy,
    operator_statistics,
    render_report,
    write_ed00,
)
from harness.report.description import describe
from harness.report.run import print_run
from harness.runs.directory import RunDirectory
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.pages import Page
from tests.support.reported import FINISHED, SMALL, held, reported
from tests.support.traces import EventSpec, RunSpec, trace_of

RELU = OperatorEnergy("Execute", "relu", 0, 1, -1, None, 3, 2, 20e-6, 1e-6, 0.010, 0.0155)
WHOLE = OperatorEnergy(*operator_statistics(SMALL)[1].signature, 3, 0)
RECORD = EnergyRecord(
    meter="PPK2",
    hz=1e5,
    samples=12_345,
    lost_samples=70,
    gaps=1,
    lost_modulus=64,
    edges=6,
    matched=6,
    half_width_ns=7_400,
    operators=(RELU, WHOLE),
    curve=CurrentCurve(3e-4, (0.004, 0.010, 0.005), (0.005, 0.0155, 0.006)),
    not_included="the PPK2's gain",
)
CELLS = ["relu", "1", "2 of 3", "20.000", "1.000", "5.0", "10.000", "15.500"]


def measured(**changes: Any) -> EvaluatedRun:
    return reported(held(), result=replace(FINISHED, energy=replace(RECORD, **changes)))


def printed(run: EvaluatedRun) -> str:
    out = io.StringIO()
    print_run(Console(file=out, width=200), describe(run))
    return out.getvalue()


@pytest.mark.extension("energy")
def test_a_comparison_says_which_differences_the_bounds_explain(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    unmeasured = replace(RELU, instruction=9, joules=None)

    def run(name: str, *operators: OperatorEnergy) -> Path:
        directory = RunDirectory.create(tmp_path / name)
        directory.write("trace.etdp", write_ed00(trace_of(RunSpec([EventSpec("relu", 0, 10)]))))
        record = replace(RECORD, operators=operators) if operators else None
        directory.finish(replace(FINISHED, runs_requested=1, runs_completed=1, energy=record))
        return tmp_path / name

    before, without = run("before", RELU, unmeasured), run("without")
    for name, joules, beyond in (("slower", 30e-6, True), ("near", 21e-6, False)):
        after = run(name, replace(RELU, joules=joules, bound=2e-6), unmeasured)
        found = document("compare", etharness("compare", before, after, "--json").out)
        [change] = found["energy"]
        assert (change["name"], change["before"], change["after"]) == ("relu", 20e-6, joules)
        assert abs(change["bound"] - 3e-6) < 1e-12
        lines = etharness("compare", before, after).out.splitlines()
        row = lines[lines.index("Energy of an event") + 2].split()
        assert row[-3:] == [f"+{1e6 * joules - 20:.3f}", "3.000", "yes" if beyond else "no"]
    for pair in ((before, without), (without, before)):
        assert "energy" not in document("compare", etharness("compare", *pair, "--json").out)


def test_every_report_has_the_same_numbers() -> None:
    run = measured()
    text = printed(run)
    assert "  ".join(CELLS[1:2]) in text
    (line,) = (line for line in text.splitlines() if line.startswith("relu") and "20.000" in line)
    assert line.split() == " ".join(CELLS).split()
    assert f"| {' | '.join(CELLS)} |" in render_report("report.md", [run]).decode()
    page = Page(render_report("report.html", [run]))
    page.assert_sound()
    section = page.section("-energy")
    assert all(cell in section for cell in CELLS)
    assert "Current during an execution: average 6.333 mA, peak 15.5 mA" in section


def test_losses_and_the_accuracy_are_told() -> None:
    text = printed(measured())
    assert "12,345 samples of PPK2 at 100,000 Hz; 70 samples lost in 1 gap" in text
    assert "6 of 6 edges of the marker pin matched, within +-7.4 us" in text
    assert "not included: the PPK2's gain" in text


def test_an_operator_that_was_not_measured_is_unknown() -> None:
    text = printed(measured())
    (line,) = (line for line in text.splitlines() if "0 of 3" in line)
    assert line.split()[-5:] == ["?"] * 5


def test_why_there_are_no_joules_is_told() -> None:
    run = measured(operators=(), curve=None, unknown="no edge of the marker pin")
    text = printed(run)
    assert "energy: unknown: no edge of the marker pin" in text
    assert "measured" not in text
    page = Page(render_report("report.html", [run]))
    page.assert_sound()
    assert "no edge of the marker pin" in page.section("-energy")


def test_json_has_the_record() -> None:
    report = document("report", render_report("report.json", [measured()]).decode())
    energy = report["runs"][0]["result"]["energy"]
    assert energy["operators"][0]["joules"] == RELU.joules


def test_a_run_without_a_meter_has_none_of_it() -> None:
    run = reported(held())
    assert "nergy" not in printed(run)
    assert "-energy" not in render_report("report.html", [run]).decode()
    assert "nergy" not in render_report("report.md", [run]).decode()
