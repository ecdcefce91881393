"""Optional functions of bare-metal ports: a watchdog, and a limit for the time of a write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.library.conftest import INCLUDE, STUB, WARNINGS, sh

PORT = Path(__file__).with_name("port.c")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "alive 0 idle 0 sleeps 1"),
        (["-DOPTIONAL"], "alive 1 idle 1 sleeps 1 fed 2 waited 1"),
    ],
)
def test_a_port_may_have_a_watchdog_and_a_timeout(
    options: list[str], said: str, tmp_path: Path
) -> None:
    shared = STUB / "ports/bare_metal"
    sources = [PORT, shared / "bare_metal.c", STUB / "src/serial/serial.c"]
    command = ["gcc", "-std=c11", *WARNINGS, f"-I{INCLUDE}", f"-I{shared}", *options, *sources]
    sh(*command, "-o", "port", cwd=tmp_path)
    assert sh("timeout", "20", tmp_path / "port", cwd=tmp_path).strip() == said
