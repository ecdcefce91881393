"""Board files: what is accepted, and what is said about what is not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness import Board, HarnessError
from tests.conftest import BOARDS, ROOT
from tests.support.boards import INT8_MODELS_THAT_FIT

NATIVE = (ROOT / "boards/native.toml").read_text()


def test_every_board_that_ships_loads_and_names_a_budget_that_exists() -> None:
    assert set(BOARDS) >= {"native", "qemu-mps2-an385", *INT8_MODELS_THAT_FIT}
    for name in BOARDS:
        board = Board.load(name)
        path = board.file
        if board.budget is None:
            assert tomllib.loads(path.read_text())["target"]["kind"] == "serial"
        else:
            assert (path.parent / board.budget).is_file()


@pytest.mark.attack(
    "Arguments and scripts",
    "board files with wrong types, ranges and keys",
    "exit code 2, with file, line and key",
)
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('cpu = "host"', 'cpu = "host"\ncpus = 2', "unknown key 'cpus'"),
        (
            "bits = 32",
            "bits = 65",
            f"native.toml:{NATIVE.count(chr(10), 0, NATIVE.index('bits')) + 1}:",
        ),
        ("bits = 32", "bits = 65", "timer.bits must be at most 64, not 65"),
        ("hz = 1_000_000_000", "hz = 0", "timer.hz must be at least 1, not 0"),
        ("schema = 1", "schema = 2", "schema must be at most 1, not 2"),
        ('kind = "native"', 'kind = "jtag"', "target.kind cannot be 'jtag'"),
        ('name = "native"', 'name = "other"', "`name` is 'other', but the file is named 'native'"),
        ("schema = 1", "schema 1", "not valid TOML"),
        ('build = { preset = "native" }', "", "the key 'build' is missing"),
    ],
)
def test_a_wrong_board_file_names_the_file_and_the_key(
    before: str, after: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "native.toml"
    assert before in NATIVE
    path.write_text(NATIVE.replace(before, after))
    with pytest.raises(HarnessError) as raised:
        Board.load(path)
    assert raised.value.exit_code == 2
    assert str(path) in raised.value.message
    assert said in raised.value.message


def test_the_key_that_was_meant_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "native.toml"
    path.write_text(NATIVE.replace("bits = 32", "bit = 32"))
    with pytest.raises(HarnessError) as raised:
        Board.load(path)
    assert raised.value.hint.startswith(
        "did you mean 'bits'? known keys: bits, emulated, hz, monotonic, source"
    )


def test_a_missing_board_file_is_named() -> None:
    with pytest.raises(HarnessError, match=r"/none/x\.toml: no such file"):
        Board.load("/none/x.toml")


def test_a_board_knows_its_file_until_it_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "native.toml"
    path.write_text(NATIVE)
    board = Board.load(path)
    assert board.file == path
    assert board == Board.load("native")
    with pytest.raises(HarnessError, match="board native was not loaded from a file"):
        replace(board, cpu="other").file  # noqa: B018
