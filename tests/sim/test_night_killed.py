"""Nights of real processes: killed at any moment they go on, ended they leave nothing behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import open_store
from harness.extensions.lab.nightly.journal import Ended, Interrupted, read_journal
from tests.support.nights import written_plan

JOURNAL = "journal.jsonl"

# The commits of a night are compared with one another.
pytestmark = [
    pytest.mark.sim,
    pytest.mark.uncounted,
    pytest.mark.usefixtures("steady_clock"),
]

PLAN = """
schema = 1
output = "out"
repeats = 2
history = "runs.sqlite"
[[board]]
board = "native"
units = ["a", "b"]
[[model]]
file = "small_int8.pte"
runs = 2
[[variant]]
label = "old"
commit = "aaaa1111"
[[variant]]
label = "new"
commit = "bbbb2222"
"""
UNITS = """
schema = 1
[[unit]]
id = "a"
board = "native"
[[unit]]
id = "b"
board = "native"
"""
STEPS = 8


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plan, in a lab of its own."""
    (tmp_path / "units.toml").write_text(UNITS)
    monkeypatch.setenv("ETHARNESS_UNITS", str(tmp_path / "units.toml"))
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    return written_plan(tmp_path, PLAN)


def held() -> list[object]:
    """Who holds what, as anybody may ask."""
    command = [sys.executable, "-m", "harness", "lab", "who", "--json"]
    found: list[object] = json.loads(subprocess.check_output(command))
    return found


def started(plan: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "nightly", str(plan)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def left_behind(place: Path) -> list[str]:
    """Processes that have something to do with a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(place) in command and "pytest" not in command:
            found.append(command)
    return found


def await_nobody(place: Path) -> None:
    """The kernel ends what a killed night has started; that takes a moment."""
    ends = time.monotonic() + 600
    while left_behind(place):
        assert time.monotonic() < ends, left_behind(place)
        time.sleep(0.02)


def night_of(plan: Path) -> dict[str, object]:
    [file] = (plan.parent / "out").glob("*/night.json")
    found: dict[str, object] = json.loads(file.read_text())
    return found


@pytest.mark.attack(
    "Nights and history",
    "kill -9 of a nightly run on simulated boards",
    "nothing is lost or done twice",
)
@pytest.mark.long
def test_killed_again_and_again_it_loses_and_repeats_nothing(plan: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("NIGHT_SEED", random.SystemRandom().randrange(10**6)))
    print(f"NIGHT_SEED={seed}")
    chance = random.Random(seed)
    kills = 0
    for delay in (chance.uniform(0.3, 2.5) for _ in range(4)):
        night = started(plan)
        try:
            night.wait(delay)
        except subprocess.TimeoutExpired:
            kills += 1
        night.kill()
        night.communicate()
        await_nobody(tmp_path)
        if night.returncode == 0:
            break
    last = started(plan) if night.returncode != 0 else night
    output, _ = last.communicate(timeout=600) if last is not night else ("", "")
    assert last.returncode == 0, output
    assert kills, "it was over before it was killed once"
    document = night_of(plan)
    assert document["counts"]["pass"] == STEPS  # type: ignore[index]
    records, _ = read_journal(next((tmp_path / "out").glob(f"*/{JOURNAL}")))
    ended = [record for record in records if isinstance(record, Ended)]
    passed = [record.attempt for record in ended if record.attempt.outcome == "pass"]
    assert len(passed) == len({str(r.step) for r in ended if r.attempt.outcome == "pass"}) == STEPS
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        kept = [entry.provenance.id for entry in store.results()]
    assert sorted(kept) == sorted(attempt.result for attempt in passed)
    finished = [
        json.loads(file.read_text())["id"]
        for file in tmp_path.glob("out/*/runs/**/result.json")
        if json.loads(file.read_text())["failure"] is None
    ]
    assert sorted(finished) == sorted(kept), "what was finished is in the history"
    assert not left_behind(tmp_path)
    assert held() == []


@pytest.mark.attack(
    "Nights and history",
    "SIGTERM of a nightly run",
    "its child processes end; the nightly run can continue",
)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
@pytest.mark.long
def test_ended_by_a_signal_it_ends_its_children_and_can_go_on(
    plan: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    # Longer than asking who holds what takes on a busy host.
    plan.write_text(plan.read_text().replace("repeats = 2", "repeats = 40"))
    night = started(plan)
    ends = time.monotonic() + 600
    # Between two runs on a unit nobody holds it.
    while not (any(tmp_path.glob("out/*/runs/**/result.json")) and held()):
        assert night.poll() is None
        assert time.monotonic() < ends
        time.sleep(0.02)
    night.send_signal(number)
    output, _ = night.communicate(timeout=600)
    assert night.returncode == code, output
    assert not left_behind(tmp_path)
    assert held() == []
    records, torn = read_journal(next((tmp_path / "out").glob(f"*/{JOURNAL}")))
    assert isinstance(records[-1], Interrupted)
    assert torn == (next((tmp_path / "out").glob(f"*/{JOURNAL}"))).stat().st_size
    second = started(plan)
    while " resumes " not in (line := second.stdout.readline() if second.stdout else ""):
        assert line, "it did not say that it resumes"
    other = subprocess.run(
        [sys.executable, "-m", "harness", "nightly", str(plan)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode == 75
    assert "already in use by another process" in other.stderr
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=600)
    await_nobody(tmp_path)
