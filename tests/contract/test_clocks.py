"""A clock that contradicts its declared rate is an error of the target, whichever command looks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness

HERE = Path(__file__).parent

WRONG = {
    "slow": ("9/10", "the clock is off by -"),
    "a quarter": ("1/4", "the clock is off by -"),
    "fast": ("13/10", "the clock is off by +"),
    "backwards": ("-1/1", "the counter stepped back"),
    "stopped": ("0/1", "the counter does not move"),
}


@pytest.fixture(scope="session")
def wrong_clock(shared: Path) -> Path:
    """A library that changes the clock of the native firmware into which it is preloaded."""
    library = shared / f"wrong_clock.{os.getpid()}.so"
    compiler = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
    subprocess.run([*compiler, HERE / "wrong_clock.c", "-o", library, "-ldl"], check=True)
    return library


def check_of(document: dict[str, Any], code: str) -> dict[str, Any]:
    [found] = [check for check in document["checks"] if check["code"] == code]
    return dict(found)


def changed_result(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change ``result.json`` of a run, and the digest of it."""
    document = json.loads((run / "result.json").read_text("utf-8"))
    change(document)
    del document["digest"]
    plain = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    document["digest"] = hashlib.sha256(plain).hexdigest()
    (run / "result.json").write_text(json.dumps(document))


def read_in_time(document: dict[str, Any]) -> None:
    """Have the host read the clock, which is its own, within 40 us each time."""
    readings = [document["restart"], *document["pings"]]
    zero = readings[0]["host_after_ns"] - readings[0]["ticks"]
    for ping in readings:
        late = ping["host_before_ns"] - zero - ping["ticks"]
        at = zero + ping["ticks"] + round(late / 2**32) * 2**32
        ping |= {"host_before_ns": at - 20_000, "host_after_ns": at + 20_000}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose clock is right, and was read in time, which a busy host may not do."""
    folder = tmp_path_factory.mktemp("good") / "run"
    run = harness.run("small_int8", board="native", runs=2, output=folder)
    assert run.passed, "a clock that is right passes however late it is read"
    changed_result(folder, read_in_time)
    return folder


@pytest.mark.extension("bundles")
@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_every_command_says_that_a_clock_is_wrong(
    name: str,
    wrong_clock: Path,
    tmp_path: Path,
    etharness: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share, reason = WRONG[name]
    monkeypatch.setenv("LD_PRELOAD", str(wrong_clock))
    monkeypatch.setenv("WRONG_CLOCK", share)
    run, report, bundle = tmp_path / "run", tmp_path / "report.json", tmp_path / "run.zip"
    ended = etharness(
        *("run", "--board", "native", "--model", "small_int8", "--runs", "3", "-o", run),
        *("--report", bundle),
    )
    monkeypatch.delenv("WRONG_CLOCK")
    assert ended.code == 4
    assert "I21" in ended.out
    assert reason in ended.out
    assert json.loads((run / "result.json").read_text("utf-8"))["exit_code"] == 4
    checked = etharness("check", run)
    assert (checked.code, reason in checked.out) == (4, True)
    etharness("report", run, "-o", report)
    assert reason in report.read_text("utf-8")
    replayed = etharness("replay", bundle)
    assert (replayed.code, reason in replayed.out) == (4, True)
    loaded = harness.load(run)
    assert not loaded.check()
    assert loaded.check().exit_code == 4


def test_a_clock_that_is_right_passes_with_bounds_of_its_rate(
    good: Path, etharness: Callable[..., Any]
) -> None:
    found = check_of(json.loads(etharness("check", good, "--json").out), "I21")
    assert found["passed"]
    assert "off, from" in found["reason"]


@pytest.mark.parametrize("hz", ["100e6", "1e6", "10e9", "1e12", "9e8"])
def test_another_rate_is_contradicted_by_the_readings_of_the_run(
    hz: str, good: Path, etharness: Callable[..., Any]
) -> None:
    checked = etharness("check", good, "--clock-hz", hz)
    assert checked.code == 4
    assert "I21 clock" in checked.out


@pytest.mark.parametrize("times", [10, 1000])
def test_a_wrong_rate_in_a_result_is_contradicted_by_its_own_readings(
    times: int, good: Path, tmp_path: Path, etharness: Callable[..., Any]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(good, copy)

    def slow_down(document: dict[str, Any]) -> None:
        for clock in document["target"]["clocks"]:
            clock["hz_denominator"] *= times

    changed_result(copy, slow_down)
    checked = etharness("check", copy)
    assert checked.code == 4
    assert "I21 clock" in checked.out
    assert not harness.load(copy).check()


def test_a_trace_alone_is_no_evidence_and_not_checked(
    good: Path, tmp_path: Path, etharness: Callable[..., Any]
) -> None:
    alone = tmp_path / "trace.etdp"
    alone.write_bytes((good / "trace.etdp").read_bytes())
    document = json.loads(etharness("check", alone, "--json").out)
    assert [check for check in document["checks"] if check["code"] == "I21"] == []
