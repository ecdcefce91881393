"""Run directories and the results in them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from msgspec.structs import replace

import harness
from harness import ClockDomain, ClockRecord, Failure, Ping, UsageError
from harness.runs.directory import RunDirectory
from harness.strategies import DeviceLog
from tests.conftest import ROOT
from tests.support.reported import FINISHED
from tests.support.results import TARGET

RESULT = replace(
    FINISHED,
    exit_code=1,
    link={"retries": 1},
    pings=(Ping(host_before_ns=1, host_after_ns=2, epoch=0, ticks=7),),
    failure=Failure(kind="TargetError", message="gone", hint=""),
)


def test_a_result_comes_back_and_follows_the_schema(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run")
    directory.write_result(RESULT)
    assert directory.read_result() == RESULT
    schema = json.loads((ROOT / "schema/result.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "run/result.json").read_text()), schema)


def test_a_result_of_another_version_is_refused(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path)
    directory.write_result(RESULT)
    document = json.loads((tmp_path / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps({**document, "schema": 2}))
    with pytest.raises(UsageError, match=r"result\.json: unsupported result: .*schema"):
        directory.read_result()


def files_of(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_an_earlier_run_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path)
    directory.write_tensor("outputs/0.npy", np.zeros(3))
    directory.write("trace.etdp", b"old")
    directory.write_result(RESULT)
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "demo").mkdir()
    RunDirectory.create(tmp_path)
    assert files_of(tmp_path) == ["thesis.tex"]
    assert (tmp_path / "demo").is_dir()


@pytest.mark.attack(
    "Files", "an output folder with files that no run wrote", "exit code 2; the files are kept"
)
def test_files_that_no_run_made_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs/0.npy", np.zeros(3))
    (tmp_path / "console.log").write_text("mine")
    with pytest.raises(UsageError) as raised:
        RunDirectory.create(tmp_path)
    assert raised.value.message == (
        f"{tmp_path} is not a run directory, but has files that a run would replace: "
        "console.log, inputs/0.npy"
    )
    assert files_of(tmp_path) == ["console.log", "inputs/0.npy"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is a file, not a directory"):
        RunDirectory.create(tmp_path / "out")


def test_a_directory_without_a_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run directory: it has no result\.json"):
        RunDirectory(tmp_path).read_result()


@pytest.mark.parametrize("hz", [Fraction(25_000_000), Fraction(32_768, 3), None])
def test_a_trace_has_the_clocks_of_its_result(hz: Fraction | None, tmp_path: Path) -> None:
    rate = hz or Fraction(0)
    clock = ClockRecord("timer", 24, True, rate.numerator, rate.denominator)
    directory = RunDirectory.create(tmp_path)
    directory.write("trace.etlog", DeviceLog().block("Execute").profile("a", 9, 5).image())
    directory.finish(replace(FINISHED, target=replace(TARGET, clocks=(clock,))))
    assert harness.load(tmp_path).trace.clocks == (ClockDomain("timer", hz, 24, down=True),)
