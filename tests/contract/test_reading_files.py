"""Every command reads files and pipes in linear time up to a bound, and refuses devices at once."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.contract import CASES

Etharness = Callable[..., tuple[int, str, str]]

TRACE = CASES / "two_methods.etdp"
MODEL = CASES / "counter.pte"

_UNLOCK, _GET_NUMBER = 0x40045431, 0x80045430
"""TIOCSPTLCK and TIOCGPTN of Linux, which ``termios`` does not name."""

READERS = (
    ("inspect", "FILE"),
    ("decode", "FILE"),
    ("decode", TRACE, "--model", "FILE"),
    ("decode", TRACE, "--debug-buffer", "FILE"),
    ("check", "FILE"),
    ("check", "--salvage", "FILE"),
    ("check", TRACE, "--budget", "FILE"),
    ("compare", "FILE", TRACE),
    ("compare", TRACE, "FILE"),
    ("export", "FILE", "-f", "ed00", "-o", "t.etdp"),
    pytest.param(("report", "FILE", "-o", "r.html"), marks=pytest.mark.extension("web")),
    pytest.param(("replay", "FILE"), marks=pytest.mark.extension("bundles")),
    pytest.param(
        ("inspect", CASES.parent / "external_data/all.pte", "--data", "FILE"),
        marks=pytest.mark.extension("external_data"),
    ),
    pytest.param(("postmortem", "FILE"), marks=pytest.mark.extension("postmortem")),
    pytest.param(("nightly", "FILE"), marks=pytest.mark.extension("lab")),
    pytest.param(("lab", "units", "--units", "FILE"), marks=pytest.mark.extension("lab")),
    pytest.param(
        ("budget", "FILE", "--board", "native", "--model", "kws_int8"),
        marks=pytest.mark.extension("budgets"),
    ),
    ("flash", "--board", "nucleo-f446re", "--port", "/dev/null", "--image", "FILE"),
    ("run", "--board", "native", "-o", "out", "--model", "FILE"),
    pytest.param(
        ("run", "--board", "native", "-o", "out", "--model", "kws_int8", "--input", "FILE"),
        marks=pytest.mark.sim,  # builds the firmware first
    ),
    ("run", "--board", "native", "-o", "out", "--model", "kws_int8", "--reference", "FILE"),
    ("run", "--board", "native", "-o", "out", "--model", "kws_int8", "--budget", "FILE"),
)


@contextmanager
def pipe(pieces: Iterator[bytes]) -> Iterator[str]:
    """Write into a pipe and yield its path."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(writing, "wb") as file:
            for piece in pieces:
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


@contextmanager
def serial_port() -> Iterator[tuple[str, select.poll]]:
    """Make a terminal that nobody has opened; the poll object reports when somebody did."""
    terminal = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    try:
        fcntl.ioctl(terminal, _UNLOCK, struct.pack("i", 0))
        (number,) = struct.unpack("i", fcntl.ioctl(terminal, _GET_NUMBER, bytes(4)))
        poll = select.poll()
        poll.register(terminal, select.POLLIN)
        yield f"/dev/pts/{number}", poll
    finally:
        os.close(terminal)


@pytest.mark.parametrize("command", READERS, ids=lambda words: " ".join(map(str, words))[-40:])
def test_a_device_is_refused_at_once(
    command: tuple[str | Path, ...],
    etharness: Etharness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with serial_port() as (port, poll):
        for device in ("/dev/zero", port):
            code, _, err = etharness(*(device if word == "FILE" else word for word in command))
            assert (code, f"{device} is a device" in err) == (2, True), err
        # To open a serial port can reset the board behind it.
        assert poll.poll(0) == []


@pytest.mark.parametrize(
    ("command", "file"), [("decode", TRACE), ("check", TRACE), ("inspect", MODEL)]
)
def test_a_pipe_is_read_like_a_file(
    command: str, file: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    expected = etharness(command, file.name)
    with pipe(iter([file.read_bytes()])) as name:
        code, out, err = etharness(command, name)
    assert (code, out.replace(name, file.name), err) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "words"), [("inspect", "unknown kind of file"), ("decode", "identifier")]
)
def test_a_pipe_is_read_in_linear_time(command: str, words: str, etharness: Etharness) -> None:
    """Twice the bytes take about twice the time of the processor, not four times."""

    def seconds(mebibytes: int) -> float:
        piece = bytes(1 << 20)
        with pipe(piece for _ in range(mebibytes)) as name:
            began = time.thread_time()
            code, _, err = etharness(command, name)
            took = time.thread_time() - began
        assert (code, words in err) == (2, True), err
        return took

    seconds(1)
    # Quadratic, the second would take 16 times the first and more than 10 s.
    assert seconds(512) < 8 * seconds(128) + 1
