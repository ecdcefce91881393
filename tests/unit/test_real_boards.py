"""Board files of real boards: each says what a run and a flashing tool need, and claims no more."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable

import msgspec
import pytest

import harness
from harness import Board, SerialTarget
from harness.flash.plan import find_tool
from tests.conftest import BOARDS, ROOT, CommandResult

REAL = [name for name in BOARDS if isinstance(harness.Board.load(name).target, SerialTarget)]
PRESETS = {
    preset["name"]
    for preset in json.loads((ROOT / "firmware_stub/CMakePresets.json").read_text())[
        "configurePresets"
    ]
}


def board(name: str) -> Board:
    return harness.Board.load(name)


def test_the_common_boards_are_there() -> None:
    assert REAL == [
        "arduino-nano-33",
        "esp32-s3-devkit",
        "microbit-v1",
        "microbit-v2",
        "nrf52840dk",
        "nucleo-f446re",
        "nucleo-h743zi",
        "rpi-pico2",
    ]


@pytest.mark.parametrize("name", REAL)
def test_a_real_board_says_what_a_run_needs(name: str) -> None:
    described = board(name)
    assert described.memory is not None
    assert described.timer.tolerance_ppm is not None
    assert 0 < described.timer.tolerance_ppm <= 100
    assert isinstance(described.target, SerialTarget)
    assert described.target.baud not in described.target.bauds
    if described.build is not None:
        assert described.build.preset == described.name
        assert described.build.preset in PRESETS


@pytest.mark.parametrize("name", REAL)
def test_a_real_board_says_how_it_is_flashed_and_where_that_stands(name: str) -> None:
    described = board(name)
    assert described.flash is not None
    assert set(described.flash.options) <= set(described.flash.order)
    assert len(set(described.flash.order)) == len(described.flash.order) > 1
    text = (ROOT / f"boards/{name}.toml").read_text()
    # Facts have a source that a reader can open.
    comment = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    assert re.search(r"manual|datasheet|specification|RM\d{4}|UM\d{4}", comment, re.IGNORECASE)
    assert tomllib.loads(text)["tested"] == "no"


@pytest.mark.parametrize("name", REAL)
def test_every_tool_of_a_real_board_takes_what_the_board_file_tells_it(name: str) -> None:
    flash = board(name).flash
    assert flash is not None
    for tool in flash.order:
        options_type = find_tool(tool, name).options_type
        msgspec.convert(flash.options.get(tool, {}), options_type)


def test_untested_boards_are_shown_as_such(etharness: Callable[..., CommandResult]) -> None:
    code, out, _ = etharness("boards")
    assert code == 0
    shown = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for name in BOARDS:
        assert ("UNTESTED" in shown[name]) == (name in REAL)
