"""Output that may have no end, of which head and tail are kept."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.files import CappedBuffer, CappedFile

HEAD, TAIL = 40, 200
PIECES = st.lists(st.binary(max_size=700) | st.integers(0, 300).map(bytes), max_size=20)
LEFT_OUT = re.compile(rb"\n\[(\d+) bytes left out\] *\n")


@given(PIECES)
def test_a_buffer_keeps_head_and_tail_and_counts_the_rest(pieces: list[bytes]) -> None:
    buffer, whole = CappedBuffer(HEAD, TAIL), b""
    for piece in pieces:
        buffer.extend(piece)
        whole += piece
    assert buffer.size == len(whole)
    assert buffer.left_out == max(0, len(whole) - HEAD - TAIL)
    if not buffer.left_out:
        assert bytes(buffer) == buffer.kept == whole
        return
    assert buffer.kept == whole[:HEAD] + whole[-TAIL:]
    line = f"\n[{buffer.left_out} bytes left out]\n".encode()
    assert bytes(buffer) == whole[:HEAD] + line + whole[-TAIL:]


@given(PIECES)
def test_a_file_keeps_head_and_tail_and_counts_the_rest(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("capped") / "log"
    whole = b""
    with CappedFile(path, HEAD, TAIL) as file:
        for piece in pieces:
            file.write(piece)
            whole += piece
            # At every moment, as this may be killed at any.
            there = path.read_bytes()
            assert there[:HEAD] == whole[:HEAD]
            assert len(there) <= HEAD + TAIL
            assert len(there) == min(len(whole), HEAD + TAIL)
        left_out = file.left_out
    written = path.read_bytes()
    if len(whole) <= HEAD + TAIL:
        assert (written, left_out) == (whole, 0)
        return
    assert len(written) == HEAD + TAIL
    assert written.startswith(whole[:HEAD])
    line = LEFT_OUT.match(written, HEAD)
    assert line is not None
    assert int(line[1]) == left_out
    tail = written[line.end() :]
    assert tail
    assert whole.endswith(tail)
    assert HEAD + left_out + len(tail) == len(whole)


def test_a_file_that_was_not_closed_says_that_it_is_a_ring(tmp_path: Path) -> None:
    file = CappedFile(tmp_path / "log", HEAD, TAIL)
    file.write(b"x" * 1000)
    assert b"bytes left out: " in (tmp_path / "log").read_bytes()
    assert b"at least; from here on a ring" in (tmp_path / "log").read_bytes()
    file.close()
    file.close()
    file.write(b"more")
    assert b"more" not in (tmp_path / "log").read_bytes()


@pytest.mark.attack(
    "Host and signals", "a full disk while a log is written", "the command continues and reports it"
)
def test_a_full_disk_stops_nobody_and_is_kept() -> None:
    file = CappedFile(Path("/dev/full"))
    file.write(b"x")
    file.write(b"y")
    assert file.error is not None
    assert (file.error.errno, file.error.filename) == (errno.ENOSPC, "/dev/full")
    file.close()


def test_one_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        CappedFile(tmp_path)
    assert os.listdir(tmp_path) == []  # noqa: PTH208
