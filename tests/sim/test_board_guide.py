"""docs/boards.md: what it says of the template and of real boards.

tests/packaging/test_wheel.py follows its steps.
"""

from __future__ import annotations

import re

import pytest

import harness
from tests.conftest import BOARDS, ROOT

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

PAGE = ROOT / "docs/boards.md"


@pytest.mark.parametrize("file", ["template.c", "template.ld", "port.cmake"])
def test_the_template_marks_what_to_fill_in(file: str) -> None:
    template = ROOT / "firmware_stub/ports/template" / file
    filled = (line for line in template.read_text().splitlines() if "FILL_IN" in line)
    removed = re.findall(r"^-(.*FILL_IN.*)$", PAGE.read_text(), re.MULTILINE)
    assert [line for line in filled if line not in removed and not line.startswith(" *")] == []


def test_no_board_claims_real_hardware_that_the_page_denies() -> None:
    """Whoever tries a real board changes the board file, this page and this test."""
    assert "**No board has been tried on real hardware.**" in PAGE.read_text()
    for name in BOARDS:
        board = harness.Board.load(name)
        if name.startswith("qemu-"):
            assert "under QEMU 7.2" in board.tested
            assert "not on a real" in board.tested or "no such hardware" in board.tested
            assert board.memory is not None
