"""A run with a delegate, exported in every format with its model."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

FORMATS = [
    *("chakra", "csv", "ed00", "folded", "google-benchmark", "json", "kineto", "model-explorer"),
    *("netron", "parquet", "perfetto", "speedscope", "tsv"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    harness.run(MODELS / "npu_int.pte", board="native", runs=3, output=directory)
    return directory


def test_every_format_is_tried(etharness: Etharness) -> None:
    listed = etharness("export", "--help").out.partition("\nFormats ")[2]
    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_is_exported(name: str, run: Path, etharness: Etharness, tmp_path: Path) -> None:
    if name in ("perfetto", "chakra", "parquet"):
        pytest.importorskip("pyarrow" if name == "parquet" else "google.protobuf")
    file = tmp_path / "x"
    model = ("--model", MODELS / "npu_int.pte")
    code, out, _ = etharness("export", run, "-f", name, "-o", file, *model, "--json")
    assert code == 0
    assert json.loads(out)["bytes"] == file.stat().st_size > 0


def test_jobs_are_drawn_within_their_calls(run: Path, etharness: Etharness, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    arguments = ("-f", "kineto", "-o", file, "--model", MODELS / "npu_int.pte")
    assert etharness("export", run, *arguments).code == 0
    slices = [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]
    calls = [event for event in slices if event["args"].get("name") == "DELEGATE_CALL"]
    jobs = [event for event in slices if "delegate_int" in event["args"]]
    assert len(calls) == 2 * 3
    assert len(jobs) == 5 * 3
    for job in jobs:
        assert job["args"]["placed_within_ns"] > 0
        around = [
            call
            for call in calls
            if call["ts"] <= job["ts"] and job["ts"] + job["dur"] <= call["ts"] + call["dur"]
        ]
        assert [call["args"]["instruction"] for call in around] == [job["args"]["instruction"]]
    # The simulated NPU counts 3 ticks in 8 ns, so the distances between its jobs are known.
    period = 2**24 * 8 / 3
    first = jobs[0]
    for job in jobs:
        true = (job["args"]["start_ticks"] - first["args"]["start_ticks"]) * 8 / 3
        off = ((job["ts"] - first["ts"]) * 1000 - true + period / 2) % period - period / 2
        bound = job["args"]["placed_within_ns"] + first["args"]["placed_within_ns"]
        assert abs(off) <= bound + 2 * 8 / 3 + 2  # a tick and a nanosecond for each


def test_the_json_is_what_the_device_logged(
    run: Path, etharness: Etharness, tmp_path: Path
) -> None:
    file = tmp_path / "x.json"
    assert etharness("export", run, "-f", "json", "-o", file).code == 0
    trace = json.loads(file.read_text())["header"]
    assert [clock["name"] for clock in trace["clocks"]] == ["CLOCK_MONOTONIC", "simulated NPU"]
    assert [block["name"] for block in trace["blocks"]] == ["Default", *["Execute"] * 3]


def test_tables_have_modules_of_the_record_that_the_exporter_wrote(
    run: Path, etharness: Etharness, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    record = MODELS / "npu_int.etrecord"
    done = etharness("export", run, "-f", "csv", "-o", file, "--etrecord", record)
    assert done.code == 0, done.err
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    modules = {(row["module"], row["module_type"].rpartition(".")[2]) for row in rows}
    assert modules == {("", ""), ("", "Gated"), ("gate", "Linear"), ("classifier", "Linear")}
    kernels = [row for row in rows if row["name"].startswith("native_call_")]
    assert {row["module_type"] for row in kernels} == {"__main__.Gated"}
    executions = [int(row["start_ns"]) for row in rows if row["name"] == "Method::execute"]
    assert executions == sorted(executions)
    assert len(executions) == 3
