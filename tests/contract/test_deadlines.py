"""A device or a debug server that answers without end holds the host no longer than a bound."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.contract.native_device import (
    BOARD,
    RESPONSE,
    Frame,
    Line,
    changed,
    native_device,
    number,
)

Etharness = Callable[..., tuple[int, str, str]]


SLOW_HOST_S = 30
"""What a host under load may take besides, seconds."""


class EndlessRun(Line):
    """A run that never ends, and a note in short intervals."""

    NOTES = tuple(
        number(f"op.{name}") for name in ("NOTE_PROGRESS", "NOTE_DONE", "NOTE_LOG", "NOTE_LOG_WAIT")
    )

    def __init__(self, note: str, numbers: Sequence[int], *, answers: bool) -> None:
        self._note, self._numbers, self._answers = note, numbers, answers
        self._run_id = b""

    def from_device(self, frame: Frame) -> Sequence[Frame]:
        if frame.type in self.NOTES:
            self._run_id = frame.body[:4]
            return ()
        if not self._run_id:
            return (frame,)
        if frame.type == number("op.STATUS") | RESPONSE and not self._answers:
            return ()
        return (changed(frame, "STATUS", self._running),)

    def besides(self) -> Sequence[Frame]:
        if not self._run_id:
            return ()
        body = self._run_id + struct.pack(f"<{len(self._numbers)}I", *self._numbers)
        return (Frame(number(f"op.{self._note}"), 0, body),)

    def _running(self, body: bytes) -> bytes:
        """Return the response to STATUS of a device that runs and has completed one execution."""
        state = bytes((body[0], number("state.RUNNING")))
        return state + body[2:12] + struct.pack("<I", 1) + body[16:]


@pytest.fixture
def run(
    native_image: Path, tmp_path: Path, etharness: Etharness
) -> Callable[..., tuple[int, str, float]]:
    """Run a model on a device behind a line: ``run(line, *options)``; code, error and seconds."""
    (tmp_path / "native.toml").write_text(BOARD)

    def run(line: Line, *options: str) -> tuple[int, str, float]:
        with native_device(native_image, line) as port:
            began = time.monotonic()
            code, _, err = etharness(
                *("run", "--board", tmp_path / "native.toml", "--port", port),
                *("--model", "kws_int8", "--runs", "3", "-o", tmp_path / "out", *options),
            )
            return code, err, time.monotonic() - began

    return run


@pytest.mark.sim
def test_the_line_changes_nothing_by_itself(run: Callable[..., tuple[int, str, float]]) -> None:
    code, err, _ = run(Line())
    assert code == 0, err


@pytest.mark.parametrize(
    ("note", "numbers", "options"),
    [
        ("NOTE_PROGRESS", [1], ()),
        ("NOTE_PROGRESS", [2**32 - 1], ()),
        ("NOTE_LOG_WAIT", [0, 100], ("--stream",)),
    ],
    ids=["the same count", "a count beyond the end", "a wait for the log"],
)
@pytest.mark.parametrize("answers", [True, False], ids=["answers STATUS", "ignores STATUS"])
@pytest.mark.sim
def test_a_device_without_news_is_given_up(
    note: str,
    numbers: list[int],
    options: tuple[str, ...],
    answers: bool,
    run: Callable[..., tuple[int, str, float]],
) -> None:
    code, err, took = run(EndlessRun(note, numbers, answers=answers), *options)
    if answers:
        assert code == 4, err
        assert "did not end within 1 s, and it reports that it is still running" in err
    else:
        assert code == 75, err
        assert "no answer" in err
    # Two executions of 1 s, and twice STATUS, which is sent five times in 0.3 s each.
    assert took < 5 + SLOW_HOST_S


class Drip(Line):
    """A download of which one byte comes at a time."""

    def __init__(self) -> None:
        self._held: list[Frame] = []

    def from_device(self, frame: Frame) -> Sequence[Frame]:
        if frame.type != number("op.READ") | RESPONSE or frame.body[1] != number("region.TRACE"):
            return (frame,)
        head, (offset,), data = (
            frame.body[:4],
            struct.unpack_from("<I", frame.body, 4),
            frame.body[8:],
        )
        self._held += [
            Frame(frame.type, frame.sequence, head + struct.pack("<I", offset + at) + data[at:][:1])
            for at in range(len(data))
        ]
        return ()

    def besides(self) -> Sequence[Frame]:
        first, self._held = self._held[:1], self._held[1:]
        return first


@pytest.mark.sim
def test_a_download_that_drips_is_given_up(run: Callable[..., tuple[int, str, float]]) -> None:
    code, err, took = run(Drip())
    assert code == 75, err
    assert "download of TRACE 0 stopped" in err
    assert "given up after" in err
    assert took < 10 + SLOW_HOST_S


@contextmanager
def gdbserver(answer: Callable[[bytes], Iterator[tuple[float, bytes]]]) -> Iterator[str]:
    """Serve a halted board; ``answer`` yields pauses and pieces of the reply to a request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve_gdb, args=(server, answer))
        thread.start()
        try:
            yield f"gdb://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve_gdb(
    server: socket.socket, answer: Callable[[bytes], Iterator[tuple[float, bytes]]]
) -> None:
    with suppress(OSError):
        client, _ = server.accept()
        with client, client.makefile("rb") as stream:
            while byte := stream.read(1):
                if byte == b"\x03":
                    client.sendall(packet(b"S05"))
                if byte != b"$":
                    continue
                body = b""
                while (byte := stream.read(1)) not in (b"#", b""):
                    body += byte
                stream.read(2)
                for pause, piece in answer(body):
                    time.sleep(pause)
                    client.sendall(piece)


def packet(body: bytes) -> bytes:
    return b"$%s#%02x" % (body, sum(body) & 0xFF)


def reply_to(request: bytes) -> bytes:
    if request.startswith(b"qSupported"):
        return b"PacketSize=4000"
    return b"S05" if request == b"?" else b"OK"


def little_memory(request: bytes) -> Iterator[tuple[float, bytes]]:
    """Answer a read of memory with a single byte of it, after a pause."""
    slow = request.startswith(b"m")
    yield (0.05, packet(b"00")) if slow else (0.0, packet(reply_to(request)))


def dripping_replies(request: bytes) -> Iterator[tuple[float, bytes]]:
    """Send the reply to a read of memory in single bytes, each after a pause."""
    if not request.startswith(b"m"):
        yield 0.0, packet(reply_to(request))
        return
    size = int(request.partition(b",")[2], 16)
    for byte in packet(b"00" * size):
        yield 0.05, bytes((byte,))


@pytest.mark.extension("probes")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (little_memory, "transfers memory too slowly, less than 8,192 bytes/s"),
        (dripping_replies, "within 0.5 s"),
    ],
)
def test_a_debug_server_that_drips_is_given_up(
    answer: Callable[[bytes], Iterator[tuple[float, bytes]]],
    said: str,
    etharness: Etharness,
    tmp_path: Path,
) -> None:
    (tmp_path / "native.toml").write_text(BOARD)
    with gdbserver(answer) as server:
        began = time.monotonic()
        code, _, err = etharness(
            *("run", "--board", tmp_path / "native.toml", "--model", "kws_int8"),
            *("--port", f"rtt+{server}?address=0x20000000&size=65536&timeout=0.5"),
            *("-o", tmp_path / "out"),
        )
        took = time.monotonic() - began
    assert (code, said in err) == (75, True), err
    assert took < 10 + SLOW_HOST_S
