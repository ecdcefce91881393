"""Simulated boards that are started empty and flashed by gdb, as real ones are; what can fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import build_firmware
from harness.flash.flashing import flash_board
from harness.flash.plan import HowToFlash
from harness.target.selection import Chosen
from tests.conftest import BOARDS, MODELS, ROOT, CommandResult
from tests.support.documents import document
from tests.support.flash import running_native, serial_native

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

BOARD = "qemu-mps2-an385"
SIMULATED = [
    name
    for name in BOARDS
    if name.startswith("qemu-")
    and not harness.Board.load(name).links_executorch
    and not harness.Board.load(name).runner
]


def board_with(directory: Path, name: str = BOARD, **changes: str) -> Path:
    """A file for a board with other words at places of its own."""
    text = (ROOT / f"boards/{name}.toml").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    lines = [line for line in text.splitlines() if not line.startswith("budget")]
    path = directory / f"{name}.toml"
    path.write_text("\n".join(lines))
    return path


def gdb_saying(directory: Path, *before: str) -> Path:
    """A board whose gdb is told something before it loads."""
    path = board_with(directory)
    commands = ", ".join(json.dumps(command) for command in before)
    text = path.read_text().replace("after = [", f"before = [{commands}], after = [")
    path.write_text(text)
    return path


@pytest.mark.parametrize("board", SIMULATED)
def test_an_empty_board_is_flashed_verified_and_runs_that_build(board: str, tmp_path: Path) -> None:
    record = flash_board(Chosen(board), tmp_path)
    assert record.exit_code == 0
    assert record.verified
    assert record.build_id_after == build_firmware(harness.Board.load(board)).build_id
    assert len(record.attempts) == 1
    log = (tmp_path / "flash.log").read_text()
    assert "Loading section .text" in log
    assert "matched" in log


def test_flash_json_is_what_the_command_prints(etharness: Etharness, tmp_path: Path) -> None:
    result = etharness("flash", "--board", BOARD, "-o", tmp_path, "--json")
    printed = document("flash", result.out)
    assert result.code == 0
    assert printed == json.loads((tmp_path / "flash.json").read_text())
    assert printed["tool"] == "gdb"
    assert printed["version"][0].isdigit()


@pytest.mark.parametrize("board", [BOARD, "qemu-riscv32-virt"])
def test_a_flashed_board_gives_the_trace_of_one_that_is_started(
    etharness: Etharness, tmp_path: Path, board: str
) -> None:
    logs = []
    for name, how in (("started", []), ("flashed", ["--flash"])):
        where = tmp_path / name
        model = MODELS / "small_int8.pte"
        result = etharness("run", "--board", board, "--model", model, "-o", where, *how)
        assert result.code == 0, result.err
        logs.append((where / "trace.etlog").read_bytes())
    assert logs[0] == logs[1]
    assert json.loads((tmp_path / "flashed/flash.json").read_text())["build_id_after"]


@pytest.mark.attack(
    "Flashing", "a byte that was written wrong", "exit code 75: the comparison fails"
)
def test_a_byte_that_was_written_wrong_fails_the_verification(
    etharness: Etharness, tmp_path: Path
) -> None:
    spoil = "define hookpost-load\nset *(unsigned char *)0x400 = ~*(unsigned char *)0x400\nend"
    board = gdb_saying(tmp_path, spoil)
    result = etharness("flash", "--board", board, "-o", tmp_path / "out", "--attempts", "2")
    record = json.loads((tmp_path / "out/flash.json").read_text())
    assert result.code == record["exit_code"] == 75
    assert record["failure"]["kind"] == "FlashError"
    assert record["failure"]["owner"] == "flash"
    assert "the flash differs from the image" in result.err
    assert "MIS-MATCHED" in (tmp_path / "out/flash.log").read_text()
    assert len(record["attempts"]) == 2
    assert not record["verified"]
    assert record["build_id_after"] is None


@pytest.mark.attack(
    "Flashing",
    "half of an image, without verification by the tool",
    "the board does not report the build id, so flashing fails",
)
@pytest.mark.parametrize(
    ("rest", "attempts"),
    [
        pytest.param(b"\xfe\xe7", {"does not answer": 2}, id="hangs"),  # a branch to itself
        # An undefined instruction, also in the handler of faults: QEMU ends, and may do so before
        # gdb has left.
        pytest.param(
            b"\0\xde", {"does not answer": 1, "no connection to the gdbserver": 3}, id="dies"
        ),
    ],
)
def test_half_of_an_image_does_not_pass_even_unverified(
    etharness: Etharness, tmp_path: Path, rest: bytes, attempts: dict[str, int]
) -> None:
    """The tool says all is well: then only the board can tell."""
    other = tmp_path / "rest.bin"
    other.write_bytes(rest * 40_000)
    board = gdb_saying(tmp_path, f"define hookpost-load\nrestore {other} binary 0x1000\nend")
    text = board.read_text().replace("timeout_s = 60", "timeout_s = 60, verify = false")
    board.write_text(text.replace("boot_s = 20", "boot_s = 1"))
    result = etharness("flash", "--board", board, "-o", tmp_path / "out")
    record = json.loads((tmp_path / "out/flash.json").read_text())
    assert result.code == 75
    assert record["failure"]["owner"] == "flash"
    [said] = [text for text in attempts if text in result.err]
    assert len(record["attempts"]) == attempts[said]


def other_build(directory: Path) -> Path:
    """The same firmware with another build id, as long as its own."""
    firmware = build_firmware(harness.Board.load(BOARD))
    other = directory / "other.elf"
    build_id = firmware.build_id.encode()
    other.write_bytes(firmware.image.read_bytes().replace(build_id, b"0123456789ab"))
    return other


def test_an_image_made_elsewhere_is_known_by_its_own_build_id(
    etharness: Etharness, tmp_path: Path
) -> None:
    result = etharness("flash", "--board", BOARD, "--image", other_build(tmp_path), "-o", tmp_path)
    assert result.code == 0, result.err
    assert "the board runs build 0123456789ab" in result.out.replace("\n", " ")


def test_a_board_that_still_runs_another_build_is_refused(
    etharness: Etharness, tmp_path: Path
) -> None:
    """gdb is made to load another file than it was given, as a tool with a stale cache would."""
    stale = other_build(tmp_path)
    board = gdb_saying(tmp_path, f"file {stale}", f"exec-file {stale}")
    result = etharness("flash", "--board", board, "-o", tmp_path / "out")
    record = json.loads((tmp_path / "out/flash.json").read_text())
    assert result.code == 4
    assert record["failure"]["kind"] == "WrongFirmwareError"
    assert record["failure"]["owner"] == "flash"
    assert "'0123456789ab'" in result.err
    assert repr(record["build_id"]) in result.err
    assert len(record["attempts"]) == 2


@pytest.mark.attack("Flashing", "an image of another board with the same build id", "refused")
def test_an_image_of_another_board_is_refused_though_its_build_is_the_same(
    etharness: Etharness, tmp_path: Path
) -> None:
    image = build_firmware(harness.Board.load("qemu-mps2-an386")).image
    result = etharness("flash", "--board", "qemu-mps2-an500", "--image", image, "-o", tmp_path)
    assert result.code == 2
    assert "not firmware of board qemu-mps2-an500, but of qemu-mps2-an386" in result.err
    assert list(tmp_path.iterdir()) == []  # nothing was started


@pytest.mark.attack("Flashing", "a truncated image", "exit code 2 before a tool is started")
@pytest.mark.parametrize("share", [0.3, 0.99])
def test_an_image_that_is_cut_off_is_refused_before_anything_is_started(
    etharness: Etharness, tmp_path: Path, share: float
) -> None:
    whole = build_firmware(harness.Board.load(BOARD)).image.read_bytes()
    cut = tmp_path / "cut.elf"
    cut.write_bytes(whole[: int(len(whole) * share)])
    result = etharness("flash", "--board", BOARD, "--image", cut, "-o", tmp_path / "out")
    assert result.code == 2
    assert "the file is truncated" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.attack(
    "Flashing",
    "a gdbserver that closes the connection",
    "exit code 75; the failure is attributed to flashing",
)
def test_a_gdbserver_that_goes_away_is_a_failure_of_flashing(
    etharness: Etharness, tmp_path: Path
) -> None:
    board = gdb_saying(tmp_path, "define hook-load\nmonitor quit\nend")
    result = etharness("flash", "--board", board, "-o", tmp_path / "out", "--attempts", "1")
    assert result.code == 75
    assert "no connection to the gdbserver" in result.err


@pytest.mark.attack(
    "Flashing", "a flashing tool that hangs", "ended at its deadline with all its child processes"
)
def test_a_tool_that_hangs_is_ended_at_its_deadline_with_all_it_started(
    etharness: Etharness, tmp_path: Path
) -> None:
    mark = f"1{os.getpid()}.5"
    board = gdb_saying(tmp_path, f"shell sleep {mark}")
    board.write_text(board.read_text().replace("timeout_s = 60", "timeout_s = 0.7"))
    result = etharness("flash", "--board", board, "-o", tmp_path / "out", "--attempts", "1")
    assert result.code == 75
    assert "gdb timed out after 0.7 s" in result.err
    found = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False)
    assert found.stdout == b""


@pytest.mark.attack(
    "Flashing", "Ctrl-C while a board is flashed", "exit code 130; no program keeps running"
)
def test_an_interrupted_flashing_leaves_no_program_and_says_so(tmp_path: Path) -> None:
    mark = f"2{os.getpid()}.5"
    board = gdb_saying(tmp_path, f"shell sleep {mark}")

    def interrupt() -> None:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            found = subprocess.run(
                ["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False
            )
            if found.stdout:
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        flash_board(Chosen(str(board)), tmp_path / "out")
    thread.join()
    record = json.loads((tmp_path / "out/flash.json").read_text())
    assert record["exit_code"] == 130
    found = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False)
    assert found.stdout == b""


def test_a_dry_run_prints_the_commands_and_makes_nothing(
    etharness: Etharness, tmp_path: Path
) -> None:
    result = etharness("flash", "--board", BOARD, "--dry-run", "-o", tmp_path / "out")
    assert result.code == 0
    assert "-nx -batch -x" in result.out
    assert "#   compare-sections" in result.out
    assert not (tmp_path / "out").exists()


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: it holds a firmware and a model, and nothing else."""
    place = tmp_path / "empty"
    place.mkdir()
    shutil.copy(build_firmware(harness.Board.load(BOARD)).image, place / "firmware.elf")
    shutil.copy(MODELS / "small_int8.pte", place / "m.pte")
    monkeypatch.chdir(place)
    return place


def test_an_image_in_the_working_folder_is_flashed(etharness: Etharness, empty: Path) -> None:
    result = etharness("flash", "--board", BOARD, "--image", "firmware.elf")
    assert result.code == 0, result.err
    record = json.loads(Path("out/flash/flash.json").read_text())
    assert record["image"] == f"{empty}/firmware.elf"
    assert record["build_id_after"]


def test_a_run_flashes_an_image_in_the_working_folder(etharness: Etharness, empty: Path) -> None:
    words = ("--flash", "--image", "firmware.elf", "--model", "m.pte", "-o", "out")
    result = etharness("run", "--board", BOARD, *words)
    assert result.code == 0, result.err
    assert re.search(r"^kept in +out$", result.out, re.MULTILINE)
    assert json.loads(Path("out/flash.json").read_text())["build_id_after"]
    assert json.loads(Path("out/result.json").read_text())["model"]["file"] == "m.pte"


@pytest.mark.parametrize("command", [("flash",), ("run", "--flash", "--model", "m.pte")])
def test_the_python_interface_takes_such_a_path_too(empty: Path, command: tuple[str, ...]) -> None:
    how = HowToFlash(Path("firmware.elf"))
    if command[0] == "flash":
        assert flash_board(Chosen(BOARD), Path("out"), how).exit_code == 0
    else:
        outcome = harness.run(Path("m.pte"), board=BOARD, runs=1, output=Path("out"), flash=how)
        assert outcome.result.exit_code == 0


@pytest.mark.parametrize("place", [".", ".."])
def test_a_plan_names_its_image_relative_to_itself(
    etharness: Etharness, empty: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Plans flash boards on ports; here the tool only copies what the board runs already."""
    image = build_firmware(harness.Board.load("native")).image
    Path("native.elf").write_bytes(image.read_bytes())
    options = 'write = ["cp", "{image}", "copied"], formats = ["elf"]'
    board = serial_native(empty, f'order = ["command"]\noptions.command = {{ {options} }}')
    Path("plan.toml").write_text(
        f'schema = 1\noutput = "nights"\n[[board]]\nboard = "{board.name}"\nunits = ["u"]\n'
        'image = "native.elf"\n[[model]]\nfile = "m.pte"\n[heal]\nfirst = false\n'
    )
    monkeypatch.chdir(place)
    plan, units = (os.path.relpath(empty / name) for name in ("plan.toml", "units.toml"))
    with running_native() as port:
        (empty / "units.toml").write_text(
            f'schema = 1\n[[unit]]\nid = "u"\nboard = "{board.name}"\nport = "{port}"\n'
        )
        # Flashed for sure: the board has that build, and would be left alone with it.
        words = (
            "--unit",
            "u",
            "--units",
            units,
            "--image",
            os.path.relpath(empty / "native.elf"),
        )
        flashed = etharness("flash", *words, "-o", os.path.relpath(empty / "flashed"))
        assert flashed.code == 0, flashed.err
        result = etharness("nightly", plan, "--units", units, "--json")
    assert result.code == 0, result.err
    assert (empty / "flashed/copied").read_bytes() == image.read_bytes()
    [record] = (empty / "nights").rglob("flash.json")
    found = json.loads(record.read_text())
    assert (found["skipped"], found["image"]) == (True, str(empty / "native.elf"))
    [run] = (empty / "nights").rglob("result.json")
    assert json.loads(run.read_text())["exit_code"] == 0


def test_a_further_run_has_the_flashed_image(etharness: Etharness, tmp_path: Path) -> None:
    firmware = build_firmware(harness.Board.load(BOARD))
    data, build_id = firmware.image.read_bytes(), firmware.build_id.encode()
    image = tmp_path / "other.elf"
    image.write_bytes(data.replace(build_id, b"0123456789ab"))
    words = ("--flash", "--image", image, "--model", MODELS / "small_int8.pte", "--repeat", "2")
    done = etharness("run", "--board", BOARD, *words, "-o", tmp_path / "run")
    assert done.code == 0, done.err
    for name in ("run", "run/repeats/2"):
        result = json.loads((tmp_path / name / "result.json").read_text())
        assert result["target"]["build_id"] == "0123456789ab"
