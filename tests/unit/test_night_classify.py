"""Whose a failure is once the board has been asked."""

from __future__ import annotations

import pytest

from harness.errors import Owner
from harness.lab.night.classify import Cause, Examined, refined

SILENT = Cause(owner=Owner.LINK, kind="LinkError", message="no answer", asks=True)


@pytest.mark.parametrize("cycles", [0, 1])
@pytest.mark.parametrize("owner", [Owner.LINK, Owner.PRODUCT])
def test_a_board_that_answers_leaves_the_failure_where_it_was(owner: Owner, cycles: int) -> None:
    cause = refined(Cause(owner=owner, asks=True), Examined(True), cycles)
    assert cause.owner is owner
    assert "answers" in cause.evidence[-1]
    assert ("power cycle" in cause.evidence[-1]) == bool(cycles)


@pytest.mark.parametrize("owner", [Owner.BOARD, Owner.LINK, Owner.HOST, Owner.FLASH])
def test_one_that_is_not_well_says_whose_that_is(owner: Owner) -> None:
    """A port that is gone and a line of noise are the link's, also when no board can be heard."""
    cause = refined(SILENT, Examined(False, owner, "only noise came"), 1)
    assert cause.owner is owner
    assert cause.evidence[-1].endswith("only noise came")


def test_one_of_which_nothing_is_known_is_the_boards() -> None:
    assert refined(SILENT, Examined(False), 0).owner is Owner.BOARD
