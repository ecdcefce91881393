"""Every simulated board changes the rate of its UART, and goes on talking."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Region
from tests.conftest import MODELS, CommandResult
from tests.support.boards import started

pytestmark = pytest.mark.sim


# AN386 and AN500 have the UART and the port of AN385.
BOARDS = [
    *("native", "qemu-lm3s6965evb", "qemu-microbit", "qemu-mps2-an385", "qemu-mps2-an505"),
    *("qemu-mps3-an547", "qemu-netduinoplus2", "qemu-riscv32-virt"),
]
MOST_MISSED = 5


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_talks_at_every_rate_it_lists(board: str) -> None:
    with started(board) as bench:
        session = bench.session
        assert session.target is not None
        first, *faster = session.target.bauds
        assert first == bench.target.transport.baud == 115_200
        model = (MODELS / "small_int8.pte").read_bytes()
        missed = 0
        for baud in [*faster, first]:
            # On a busy machine the second of a trial may pass before the simulator has a turn.
            while session.raise_baud([baud]) != baud:
                missed += 1
                assert missed <= MOST_MISSED, f"it does not talk at {baud} baud"
            info = session.load_model(model)
            session.set_input(0, bytes(info.inputs[0].nbytes))
            session.run(1, timeout_s=10)
            assert session.read(Region.TRACE)
        figures = session.statistics
        # Nothing was garbled. A busy machine may have answered late, and been asked again.
        garbled = (figures.corrupt.total(), figures.damage_notes, figures.overruns)
        assert garbled == (0, 0, 0)
        assert figures.rate_fallbacks == missed


def run(etharness: Callable[..., CommandResult], output: Path, baud: int) -> CommandResult:
    model = MODELS / "small_int8.pte"
    return etharness("run", "--board=native", "--model", model, f"--baud={baud}", "-o", output)


def test_a_run_moves_the_line_to_the_rate_it_is_given(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    assert run(etharness, tmp_path, 3_000_000).code == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["baud"] == 3_000_000
    assert result["link"]["rate_fallbacks"] == 0


def test_a_rate_that_the_board_has_not_is_the_users_mistake(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    code, _, err = run(etharness, tmp_path, 12_345)
    assert code == 2
    assert "native does not support 12345 baud" in err
    assert "supported: 115200, 921600, 3000000" in err
