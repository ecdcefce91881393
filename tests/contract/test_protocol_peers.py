"""A device, or what stands in its place, may answer anything: the command says what is wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.native_device import BOARD, RESPONSE, Frame, Line, native_device, number

pytestmark = [pytest.mark.sim, pytest.mark.long]

Etharness = Callable[..., Any]
SOUND = {0, 1, 2, 3, 4, 75}
OPS = ["HELLO", "STAT", "COMMIT", "RUN", "READ", "STATUS", "PING"]
BYTES = [b"", b"\0" * 4, b"\xff" * 4, b"\x7f", b"\x80", b"\xff\xfe\xfd", b"A" * 300]
FEWER = settings(
    max_examples=max(3, settings.default.max_examples // 10) if settings.default else 10,
    suppress_health_check=list(HealthCheck),
)


class Damaged(Line):
    """A device whose responses to a request have other bytes in them, within sound frames."""

    def __init__(self, op: str, at: int, other: bytes, cut: bool) -> None:
        self._op, self._at, self._other, self._cut = number(f"op.{op}"), at, other, cut

    def from_device(self, frame: Frame) -> Sequence[Frame]:
        if frame.type != self._op | RESPONSE:
            return (frame,)
        body = frame.body
        at = self._at % (len(body) + 1)
        rest = b"" if self._cut else body[at + len(self._other) :]
        return (replace(frame, body=body[:at] + self._other + rest),)


def check_said(result: Any) -> None:
    """Check that a command ended as declared, and names what is wrong."""
    assert result.code in SOUND, result.err
    assert "Traceback" not in result.err
    assert "a defect of etharness" not in result.err
    # A wrong number of its clock contradicts what the board declares: a verdict of 4.
    assert result.code in (0, 1) or "error: " in result.err or "FAIL: " in result.out


@FEWER
@given(
    op=st.sampled_from(OPS),
    at=st.integers(0, 400),
    other=st.sampled_from(BYTES) | st.binary(max_size=8),
    cut=st.booleans(),
)
def test_a_response_may_hold_anything(
    etharness: Etharness,
    native_image: Path,
    tmp_path: Path,
    op: str,
    at: int,
    other: bytes,
    cut: bool,
) -> None:
    (tmp_path / "native.toml").write_text(BOARD)
    with native_device(native_image, Damaged(op, at, other, cut)) as port:
        check_said(
            etharness(
                *("run", "--board", tmp_path / "native.toml", "--port", port),
                *("--model", "small_int8", "-o", tmp_path / "out"),
            )
        )


@contextmanager
def babbling(content: bytes, *, ends: bool) -> Iterator[int]:
    """Serve bytes on a TCP port, as a terminal server does of a device that is none."""
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(0.1)
                    while not over.is_set():
                        connection.sendall(content)
                        if ends:
                            break
                        over.wait(0.1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            over.set()
            thread.join()


@FEWER
@pytest.mark.parametrize(
    "scheme", ["socket", pytest.param("rfc2217", marks=pytest.mark.extension("remote"))]
)
@given(
    content=st.lists(
        st.binary(max_size=20)
        | st.sampled_from(
            [b"\xff\xfb\x2c", b"\xff\xfa\x2c\x65", b"\xff\xff", b"\0\1\0", b"\xff\xf0"]
        )
    ).map(b"".join),
    ends=st.booleans(),
)
def test_a_port_may_send_anything(
    etharness: Etharness, tmp_path: Path, scheme: str, content: bytes, ends: bool
) -> None:
    (tmp_path / "native.toml").write_text(BOARD.replace("boot_s = 5", "boot_s = 1"))
    with babbling(content, ends=ends) as port:
        result = etharness(
            *("run", "--board", tmp_path / "native.toml", "--model", "small_int8"),
            *("--port", f"{scheme}://127.0.0.1:{port}", "-o", tmp_path / "out"),
        )
    check_said(result)
    assert result.code in (4, 75)
