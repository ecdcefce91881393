"""The static bound of the stack: no call takes more, and recursion is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.library.conftest import INCLUDE, WARNINGS, sh
from tools.stack import PAGE, bounds, entry_points, files

PROGRAM = Path(__file__).with_name("stack.c")
HOST = ("gcc", "-std=c11", "-O1", "-fno-stack-protector", "-maccumulate-outgoing-args")
OUTSIDE = 160
"""Bytes for what is not in the bound: the program's own frames, its clock, and libc's memcpy."""


def test_no_call_takes_more_than_its_bound(tmp_path: Path) -> None:
    command = [*HOST, *WARNINGS, f"-I{INCLUDE}", "-static"]
    sh(*command, PROGRAM, *files(), "-o", "stack", cwd=tmp_path)
    measured = dict(line.split() for line in sh(tmp_path / "stack", cwd=tmp_path).splitlines())
    assert len(measured) > 5
    bound = bounds(HOST, files())
    for name, used in measured.items():
        assert int(used) <= bound[name].size + OUTSIDE, name
    deepest = "etd_etdump_write"
    assert int(measured[deepest]) > bound[deepest].size / 2 > OUTSIDE


def test_a_function_that_calls_itself_has_no_bound(tmp_path: Path) -> None:
    source = tmp_path / "recursive.c"
    source.write_text(
        "int f(int n);\nint f(int n) { return n > 1 ? n * f(n - 2) + f(n - 1) : 1; }\n"
    )
    with pytest.raises(ValueError, match="f calls itself"):
        bounds(HOST, [source])


def test_a_frame_of_variable_size_has_no_bound(tmp_path: Path) -> None:
    source = tmp_path / "variable.c"
    source.write_text(
        "void g(char *);\nvoid f(int n);\nvoid f(int n) { char bytes[n]; g(bytes); }\n"
    )
    with pytest.raises(ValueError, match="not fixed"):
        bounds(HOST, [source])


def test_the_page_has_every_public_function() -> None:
    text = PAGE.read_text()
    assert len(entry_points()) > 40
    assert [name for name in entry_points() if f"| `{name}` |" not in text] == []
