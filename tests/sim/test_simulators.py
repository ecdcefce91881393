"""Boards whose simulator a command of the board file starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MODELS, NATIVE_PRESET, ROOT, CommandResult

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

RELAY = str(ROOT / "tests/support/relay.py")
MODEL = MODELS / "small_int8.pte"


def board_file(directory: Path, argv: list[str], more: str = "") -> Path:
    """A file for the native board, which a command starts."""
    text = (ROOT / "boards/native.toml").read_text()
    text = text.replace('preset = "native"', f'preset = "{NATIVE_PRESET}"')
    text = text.replace('budget = "budgets/default.toml"\n', "")
    text = text.replace("boot_s = 10", "boot_s = 5")
    target = f'kind = "command", time = "real", argv = {json.dumps(argv)}{more}'
    path = directory / "native.toml"
    path.write_text(text.replace('kind = "native"', target))
    return path


@pytest.mark.parametrize(
    "argv",
    [
        ["{image}"],
        [sys.executable, RELAY, "connect", "{connect}", "{image}"],
        [sys.executable, RELAY, "listen", "127.0.0.1:{listen_port}", "{image}"],
        [sys.executable, RELAY, "pty", "{pty}", "{image}"],
    ],
    ids=["printed", "connect", "listen", "pty"],
)
def test_a_command_starts_a_board_in_four_ways(
    argv: list[str], tmp_path: Path, etharness: Etharness
) -> None:
    board = board_file(tmp_path, argv)
    code, out, err = etharness("run", "--board", board, "--model", MODEL, "-o", tmp_path / "run")
    assert code == 0, out + err
    assert not json.loads((tmp_path / "run/result.json").read_text()).get("emulated_time")


@pytest.mark.parametrize(
    ("argv", "more", "code", "said"),
    [
        (["no-such-simulator"], ', install = "apt-get install it"', 2, "apt-get install it"),
        (["cat", "{connect}", "{pty}"], "", 2, "several kinds of links: connect, pty"),
        (["sh", "-c", "echo gone >&2; exit 3", "{connect}"], "", 75, "exited with status 3"),
        (["sh", "-c", "echo gone >&2; exit 3"], "", 4, "gone"),
        (["sh", "-c", "exec sleep 60", "{listen}"], "", 75, "did not open its UART at 127.0.0.1:"),
        (["sh", "-c", "exec sleep 60", "{pty}"], "", 75, "did not open its pseudo-terminal /"),
    ],
)
def test_what_keeps_a_command_from_being_a_board_is_named(
    argv: list[str], more: str, code: int, said: str, tmp_path: Path, etharness: Etharness
) -> None:
    board = board_file(tmp_path, argv, more)
    board.write_text(board.read_text().replace("boot_s = 5", "boot_s = 0.3"))
    result = etharness("run", "--board", board, "--model", MODEL, "-o", tmp_path / "run")
    assert (result.code, said in result.err) == (code, True), result.err


def test_doctor_asks_the_simulator_for_its_version(tmp_path: Path, etharness: Etharness) -> None:
    version = ', version = ["sh", "{here}/version.sh"], install = "build it"'
    board = board_file(tmp_path, ["sh", "{connect}"], version)
    code, out, _ = etharness("doctor", "--board", board)
    assert code != 0
    assert "build it" in out
    (tmp_path / "version.sh").write_text("echo relay 7")
    code, out, _ = etharness("doctor", "--board", board)
    assert code == 0, out
    assert "relay 7" in out


def test_code_of_a_board_file_can_be_forbidden(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    monkeypatch.setenv("ETHARNESS_BOARD_CODE", "no")
    board = board_file(tmp_path, ["touch", str(ran)])
    for command in (("run", "--model", MODEL), ("doctor",), ("build", "-o", tmp_path / "image")):
        code, _, err = etharness(*command, "--board", board)
        assert code == 2
        assert f"{board}: target.argv runs code of this file" in err
        assert "`board-code`" in err
    assert not ran.exists()
    text = (ROOT / "boards/qemu-microbit.toml").read_text()
    other = tmp_path / "qemu-microbit.toml"
    other.write_text(text.replace('kind = "qemu"', f'kind = "qemu", system = "{ran}"'))
    code, _, err = etharness("doctor", "--board", other)
    assert (code, "target.system runs code" in err) == (2, True)
    ported = tmp_path / "my-board.toml"
    (tmp_path / "port").mkdir()
    text = (ROOT / "boards/microbit-v1.toml").read_text().replace("microbit-v1", "my-board")
    ported.write_text(text.replace('preset = "my-board"', 'port = "port"'))
    code, _, err = etharness("doctor", "--board", ported)
    assert code == 2
    assert f"{ported}: build.port: {tmp_path / 'port'} has no port.cmake" in err
    (tmp_path / "port/port.cmake").touch()
    code, _, err = etharness("doctor", "--board", ported)
    assert (code, f"{ported}: build.port runs code of this file" in err) == (2, True)
    code, out, _ = etharness("boards", "--json")  # those of the package are trusted
    assert code == 0
    assert "rpi-pico" in out


def test_a_new_board_is_begun_once_and_under_a_good_name(
    tmp_path: Path, etharness: Etharness
) -> None:
    code, out, _ = etharness("new-board", "my-board", "-d", tmp_path)
    assert code == 0
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    port = ["my_board/my_board.c", "my_board/my_board.ld", "my_board/port.cmake"]
    assert made == ["my-board.toml", *port]
    assert all(f"wrote {tmp_path / file}: " in out for file in made)
    code, _, err = etharness("new-board", "my-board", "-d", tmp_path)
    assert code == 2
    assert "my-board.toml already exists" in err
    code, _, err = etharness("new-board", "../up", "-d", tmp_path)
    assert (code, "'../up' is no name for a board" in err) == (2, True)
    code, _, err = etharness("doctor", "--board", tmp_path / "my-board.toml")
    assert code == 2  # nothing is filled in yet
    assert "my-board.toml" in err
