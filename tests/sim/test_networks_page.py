"""docs/networks.md lists all there is, and what it says of the smallest board is still so."""

from __future__ import annotations

import re
import tomllib

import pytest

import harness
from benchmarks.networks import FIXTURES, boards, column, networks, read_page
from tests.conftest import BOARDS

WITHIN = 0.05
"""Share by which times may move with the code before the page is written anew."""


def test_every_network_has_a_row_for_every_board() -> None:
    assert list(read_page()) == [(net, board.name) for net in networks() for board in boards()]


def test_the_boards_left_out_are_real_slow_or_without_our_runtime() -> None:
    """Real cores in simulation take minutes for a network: docs/cycles.md has theirs."""
    listed = {board.name for board in boards()}
    for name in set(BOARDS) - listed:
        board = harness.Board.load(name)
        kind = tomllib.loads(board.file.read_text())["target"]["kind"]
        assert kind in ("serial", "rtl", "command") or board.links_executorch or board.runner
    assert len(listed) >= 9


def test_every_fixture_of_a_network_is_used() -> None:
    # "gesture" stands for any network that is placed in flash; the page is about known ones.
    of_networks = {path.stem for path in FIXTURES.glob("*_*.npz")} - {"gesture_int8"}
    assert set(networks()) == {name for name in of_networks if name.endswith(("_f32", "_int8"))}
    assert len(networks()) == 9


def test_nothing_on_the_page_is_wrong_and_every_network_runs_somewhere() -> None:
    page = read_page()
    assert not [cell for cell in page.values() if "WRONG" in cell]
    for network in networks():
        cells = [page[network, board.name] for board in boards()]
        assert any("ticks" in cell for cell in cells)


@pytest.mark.sim
def test_the_smallest_board_does_what_the_page_says() -> None:
    [board] = [board for board in boards() if board.name == "qemu-microbit"]
    page = read_page()
    for network, cell in zip(networks(), column(board), strict=True):
        said = page[network, board.name]
        assert re.sub(r"[\d,.]+ (ticks|ms)", "", said) == re.sub(
            r"[\d,.]+ (ticks|ms)", "", str(cell)
        )
        if cell.ticks:
            ticks = int(said.partition(" ticks")[0].replace(",", ""))
            assert cell.ticks == pytest.approx(ticks, rel=WITHIN), (
                "times have moved: run benchmarks/networks.py"
            )
