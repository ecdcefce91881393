"""A device that is not what its board file says: the run ends as the target's fault."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

NATIVE = Path(__file__).parents[2] / "boards/native.toml"


class Printed(NamedTuple):
    code: int
    out: str
    err: str


Etharness = Callable[..., Printed]


@pytest.mark.sim
@pytest.mark.parametrize(
    ("declared", "other"), [("hz = 1_000_000_000", "hz = 900_000_000"), ("bits = 32", "bits = 24")]
)
def test_a_clock_with_other_values_than_its_board_file_is_refused(
    declared: str, other: str, tmp_path: Path, etharness: Etharness
) -> None:
    text = NATIVE.read_text("utf-8")
    assert declared in text
    board = tmp_path / "native.toml"
    budget = os.fspath(NATIVE.parent / "budgets/default.toml")
    board.write_text(text.replace(declared, other).replace("budgets/default.toml", budget))
    code, out, err = etharness(
        *("run", "--board", board, "--model", "kws_int8", "--runs", "1", "-o", tmp_path / "run")
    )
    assert (code, out) == (4, "")
    assert "native reports a clock of 1000000000 Hz and 32 bits" in err
    assert other.rpartition(" ")[2].replace("_", "") in err.partition("but its board file has")[2]
