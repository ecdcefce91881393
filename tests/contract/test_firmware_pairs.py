"""A suspect change is measured in turns with the firmware of the baseline, where it is at hand."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import build_firmware
from tests.contract.desk import MODELS, Command, Desk, checks, in_turns

pytestmark = pytest.mark.extension("history")
ROOT = Path(__file__).parents[2]
OLD, NEW = "0123456789ab", "ba9876543210"
"""Build ids of two images that differ in nothing else."""

BOARD_PROGRAM = """
import hashlib, shutil, subprocess, sys, time
from pathlib import Path

folder = Path(__file__).parent
firmware, out, wanted = folder / "running" / "firmware", folder / "output", folder / "wanted"
firmware.parent.mkdir()
process = None
while True:
    while not wanted.exists():
        time.sleep(0.01)
    if process is not None:
        process.kill()
        process.wait()
    image = Path(wanted.read_text())
    firmware.unlink(missing_ok=True)
    shutil.copy(image, firmware)
    firmware.chmod(0o755)
    with out.open("wb") as file:
        process = subprocess.Popen([firmware], stdin=subprocess.DEVNULL, stdout=file)
    while not out.read_bytes().endswith(b"\\n"):
        time.sleep(0.01)
    link = folder / "link"
    link.symlink_to(out.read_text().split()[1])
    link.rename(folder / "ttyACM0")
    with (folder / "flashed").open("a") as log:
        log.write(hashlib.sha256(image.read_bytes()).hexdigest() + "\\n")
    wanted.unlink()
"""
"""A board: starts the image that is flashed."""

FLASH = """
import sys, time
from pathlib import Path

wanted, broken = (Path(__file__).with_name(name) for name in ("wanted", "broken"))
if broken.exists():
    sys.exit("the probe is gone")
part = wanted.with_name("part")
part.write_text(sys.argv[1])
part.rename(wanted)
while wanted.exists():
    time.sleep(0.01)
"""
"""A tool that flashes it."""


class Board(Desk):
    """A board on a port, which a program flashes: the native firmware, started again."""

    def __init__(self, folder: Path, etharness: Command) -> None:
        super().__init__(folder, etharness)
        script = folder / "flash.py"
        script.write_text(FLASH)
        (folder / "board.py").write_text(BOARD_PROGRAM)
        text = self.board.read_text().replace(
            'target = { kind = "native" }', 'target = { kind = "serial" }'
        )
        command = json.dumps([sys.executable, str(script), "{image}"])
        flash = f'order = ["command"]\noptions.command.write = {command}\ntimeout_s = 30\n'
        self.board.write_text(f"{text}[flash]\n{flash}")
        firmware = build_firmware(harness.Board.load("native"))
        data, build_id = firmware.image.read_bytes(), firmware.build_id.encode()
        assert build_id in data
        self.images = {}
        for name in (OLD, NEW):
            self.images[name] = folder / f"{name}.elf"
            self.images[name].write_bytes(data.replace(build_id, name.encode()))
        self.port = folder / "ttyACM0"
        self.use(OLD)

    def use(self, build_id: str) -> None:
        """Choose the firmware of the next runs."""
        self.target = ("--port", self.port, "--flash", "--image", self.images[build_id])

    def flashed(self) -> list[str]:
        """Return the build ids of the images that were flashed, in their order."""
        known = {sha256(image): build_id for build_id, image in self.images.items()}
        return [known[line] for line in (self.folder / "flashed").read_text().split()]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def board(
    tmp_path: Path, etharness: Command, chosen_times: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Board]:
    monkeypatch.setenv("LD_PRELOAD", str(chosen_times))
    monkeypatch.setenv("CHOSEN_TIMES", str(tmp_path / "factors"))
    monkeypatch.setenv("ETHARNESS_BASELINE_DIR", str(tmp_path / "kept"))
    board = Board(tmp_path, etharness)
    with subprocess.Popen(
        [sys.executable, tmp_path / "board.py"], start_new_session=True
    ) as process:
        try:
            board.live_quiet_nights()
            board.use(NEW)
            yield board
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def runs_of(folder: Path) -> list[tuple[str, str]]:
    """Return role and build id of the runs that looked again, in their order."""
    found = {}
    for file in (folder / "again").glob("*/result.json"):
        result = json.loads(file.read_text())
        found[int(file.parent.name)] = (result["role"], result["target"]["build_id"])
    return [found[number] for number in sorted(found)]


IN_TURNS = [("baseline", OLD), ("second look", NEW), ("second look", NEW), ("baseline", OLD)]


def test_a_regression_of_the_firmware_fails_in_the_first_night(
    board: Board, etharness: Command
) -> None:
    # Each start of the board is one image, and two runs of one arm in a row need no other start.

    ended = board.run("m", [1.2, *[1.0, 1.2] * 3], "--repeat-time", "600")
    assert ended.code == 1, ended.out
    verdict = board.verdict("m")
    [failed] = [check for check in checks(verdict, "H01") if not check["passed"]]
    said = r"measured against the baseline's firmware in 5 pairs: \+(19|2\d)"
    assert re.search(said, failed["reason"]), failed["reason"]
    assert runs_of(board.folder / "m") == [*IN_TURNS * 2, *IN_TURNS[:2]]
    assert board.flashed()[12:] == [NEW, OLD, NEW, OLD, NEW, OLD, NEW]
    # Whoever reads the run directory or compares it with the store again finds the same.
    store = ("--history", board.folder / "h.sqlite", "--baseline", "last:20")
    for options in ((), store):
        checked = etharness("check", board.folder / "m", *options, "--json")
        assert checked.code == 1, checked.out
        assert failed in json.loads(checked.out)["checks"]


def test_what_slows_both_firmwares_is_no_regression(board: Board) -> None:
    ended = board.run("m", [1.3] * 20, "--repeat-time", "600")
    assert ended.code == 0, ended.out
    verdict = board.verdict("m")
    gone = checks(verdict, "H12")
    assert any("measured against the baseline's firmware in 1 pair" in c["reason"] for c in gone)
    assert all(check["passed"] for check in gone)
    assert "measured again beside the baseline's firmware: a suspect change of 30 %" in ended.out
    assert verdict["disturbed"]
    # Two pairs end with the baseline's firmware, so the tested one is flashed once more.
    other = board.folder / "new" / "kws_int8.pte"
    other.parent.mkdir()
    other.write_bytes((MODELS / "kws_int8.pte").read_bytes() + bytes(16))
    stages: list[str] = []
    board.choose([1.3, 1.0, 1.3, 1.0, 1.3])
    run = harness.run(
        other,
        board=board.board,
        port=str(board.port),
        flash=board.images[NEW],
        history=str(board.folder / "h.sqlite"),
        baseline="last:20",
        commit="n" * 8,
        output=board.folder / "n",
        repeat_time=600.0,
        look_again=2,
        progress=lambda stage, done, total: stages.append(stage),
    )
    [failed] = run.verdict.failures
    assert "measured against the baseline's firmware and model in 2 pairs: +3" in failed.reason
    assert any("in turns with the baseline's firmware and model" in stage for stage in stages)
    assert runs_of(board.folder / "n") == IN_TURNS
    assert board.flashed()[-1] == NEW


@pytest.fixture(scope="session")
def changed(shared: Path) -> Path:
    """A copy of the project, whose firmware has another build id."""
    project = shared / f"changed-{os.getpid()}"
    for name in ("harness", "firmware_stub", "boards", "schema"):
        shutil.copytree(
            ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__", "build")
        )
    source = project / "firmware_stub/src/app/app.c"
    source.write_text(f"/* Changed. */\n{source.read_text()}")
    return project


@pytest.mark.parametrize(
    ("factors", "code", "said"),
    [
        (in_turns(1.2, *[(1.0, 1.2)] * 5), 1, r"baseline's firmware in 5 pairs: \+(19|2\d)"),
        ([1.3] * 3, 0, r"baseline's firmware in 1 pair: "),
    ],
)
def test_firmware_of_a_simulated_board_is_started_in_turns(
    desk: Desk, changed: Path, factors: list[float], code: int, said: str
) -> None:
    desk.choose(factors)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "harness", "run", "--board", desk.board),
            *("--model", MODELS / "kws_int8.pte", "--history", desk.folder / "h.sqlite"),
            *("--baseline", "last:20", "--commit", "m" * 8, "-o", desk.folder / "m"),
            *("--repeat-time", "6000"),
        ],
        cwd=changed,
        env={**os.environ, "ETHARNESS_BUILD_DIR": str(changed / "build")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    old, new = (
        json.loads((desk.folder / name / "result.json").read_text())["target"]["build_id"]
        for name in "lm"
    )
    expected = [("baseline", old), ("second look", new), ("second look", new), ("baseline", old)]
    runs = runs_of(desk.folder / "m")
    assert runs == (expected * 3)[: len(runs)]
    reasons = [check["reason"] for check in desk.verdict("m")["checks"]]
    assert any(re.search(said, reason) for reason in reasons), reasons
    # The cache has both, and so could the next night.
    assert len([*(desk.folder / "kept").glob("*-*")]) == 2


def notes(board: Board, name: str) -> list[str]:
    found = checks(board.verdict(name), "H12")
    return [check["reason"] for check in found if check["severity"] == "note"]


def test_a_run_that_may_not_flash_the_board_says_so(board: Board) -> None:
    board.choose([1.3])
    subprocess.run([sys.executable, board.folder / "flash.py", board.images[NEW]], check=True)
    board.target = ("--port", board.port)
    assert board.run("m", []).code == 3
    [note] = notes(board, "m")
    assert "the baseline has the same model, and only its firmware is another one" in note
    assert f"build {OLD} is kept, but this run may not flash it; add --flash" in note
    assert board.flashed()[12:] == [NEW]


def test_a_damaged_image_is_refused(board: Board, caplog: pytest.LogCaptureFixture) -> None:
    digest = sha256(board.images[OLD])
    [kept] = [file for file in (board.folder / "kept").iterdir() if digest in file.name]
    kept.write_bytes(b"damaged")
    assert board.run("m", [1.3] * 9).code == 3
    assert "was damaged, and is removed" in caplog.text
    assert not kept.exists()
    [note] = notes(board, "m")
    assert "the baseline has the same model, and only its firmware is another one" in note
    assert f"build {OLD} is not in {board.folder / 'kept'}" in note
    assert {role for role, _ in runs_of(board.folder / "m")} == {"second look"}
    assert board.flashed()[12:] == [NEW]


def test_pairs_that_do_not_fit_into_the_time_are_said(board: Board) -> None:
    ended = board.run("m", [1.3] * 9, "--repeat-time", "0.01")
    assert ended.code == 3, ended.out
    [note] = notes(board, "m")
    assert "the time was up after 0 of 5 pairs with the baseline's firmware" in note
    assert board.flashed()[12:] == [NEW]


def start(board: Board, name: str) -> subprocess.Popen[str]:
    """Start a run in a process of its own, whose change is suspect."""
    board.choose([1.2, *[1.0, 1.2] * 9])
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "harness", "run", "--board", board.board, *board.target),
            *("--model", "kws_int8", "--history", board.folder / "h.sqlite"),
            *("--baseline", "last:20", "--commit", "m" * 8, "-o", board.folder / name),
            *("--repeat-time", "600"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_baseline(board: Board) -> None:
    """Wait until the baseline's firmware is on the board for the first pair."""
    deadline = time.monotonic() + 120
    while len(board.flashed()) < 14 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert board.flashed()[12:] == [NEW, OLD]


def test_an_interrupted_pair_leaves_the_tested_firmware_on_the_board(board: Board) -> None:
    with start(board, "m") as run:
        wait_for_baseline(board)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=120)
    assert run.returncode == 130, output
    assert board.flashed()[12:] == [NEW, OLD, NEW]
    # The result has the verdict of its first run.
    assert checks(board.verdict("m"), "H12")


def test_a_board_that_cannot_be_flashed_back_is_said(board: Board) -> None:
    with start(board, "m") as run:
        wait_for_baseline(board)
        (board.folder / "broken").touch()
        output, _ = run.communicate(timeout=120)
    assert run.returncode == 3, output
    assert "could not be measured again" in output
    text = " ".join(output.split())
    assert "may have the baseline's firmware still, not the tested one" in text


@pytest.mark.extension("history", "lab")
@pytest.mark.long
def test_a_night_flashes_in_turns_what_its_plan_flashes(
    board: Board, etharness: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(board.folder / "locks"))
    units = board.folder / "units.toml"
    units.write_text(
        f'schema = 1\n[[unit]]\nid = "a"\nboard = "{board.board}"\nport = "{board.port}"\n'
        'health = "none"\n'
    )
    plan = board.folder / "plan.toml"

    def night(build_id: str, *factors: float) -> Any:
        plan.write_text(
            f"""schema = 1
name = "lab"
history = "nights.sqlite"
baseline = "last:20"
model = [{{ file = "{MODELS / "kws_int8.pte"}" }}]
board = [{{ board = "{board.board}", units = ["a"], image = "{board.images[build_id]}" }}]
heal = {{ first = false }}
"""
        )
        board.choose(factors)
        ended = etharness("nightly", plan, "--units", units, "--json")
        assert ended.out, ended.err
        return ended.code, json.loads(ended.out)

    for number in range(12):
        code, document = night(OLD, 1.0)
        assert code == 0, document
        assert document["steps"] == 1, number
    before = len(board.flashed())
    # What slows both is gone. The board is flashed for the night, its further run, and in turns.
    code, throttled = night(NEW, *[1.3] * 9)
    assert code == 0, throttled
    [note] = [note for note in throttled["notes"] if "measured again" in note]
    assert "3 runs, 2 of them in turns with the baseline" in note
    assert board.flashed()[before:] == [NEW, NEW, OLD, NEW]
    # A regression of the firmware is red in the first night.
    code, slower = night(NEW, 1.2, *[1.0, 1.2] * 3)
    assert code == 1, slower
    assert slower["arms"][0]["counts"]["regression"] == 1
    [note] = [note for note in slower["notes"] if "measured again" in note]
    assert "11 runs, 10 of them in turns with the baseline" in note
    assert board.flashed()[-1] == NEW
