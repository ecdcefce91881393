"""The native firmware behind a TCP port, with a line between that changes what it sends.

It knows the frames of docs/protocol.md and the numbers of schema/link.toml, and nothing of ours.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import tomllib
import tty
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NUMBERS: dict[str, Any] = tomllib.loads((ROOT / "schema/link.toml").read_text())
RESPONSE = 0x80

BOARD = """\
schema = 1
name = "native"
description = "the native firmware, behind a TCP port"
cpu = "host"
timer = { source = "CLOCK_MONOTONIC", bits = 32, hz = 1_000_000_000 }
build = { preset = "native" }
target = { kind = "serial" }
deadlines = { boot_s = 5, request_s = 0.3, execute_s = 1, reopen_s = 1 }
"""


def number(name: str) -> int:
    """Return a number of the protocol: ``op.RUN`` or ``region.TRACE``."""
    table, key = name.split(".")
    return int(NUMBERS["enum"][table][key]["value"])


@dataclass(frozen=True)
class Frame:
    type: int
    sequence: int
    body: bytes

    def encoded(self) -> bytes:
        payload = b"\0" + struct.pack("<BH", self.type, self.sequence) + self.body
        return b"\0" + _cobs(payload + struct.pack("<I", zlib.crc32(payload))) + b"\0"


def _cobs(data: bytes) -> bytes:
    coded = bytearray()
    for block in data.split(b"\0"):
        rest = block
        while len(rest) >= 254:
            coded += b"\xff" + rest[:254]
            rest = rest[254:]
        coded += bytes((len(rest) + 1,)) + rest
    return bytes(coded)


def _uncobs(coded: bytes) -> bytes:
    data, at = bytearray(), 0
    while at < len(coded):
        code = coded[at]
        data += coded[at + 1 : at + code]
        at += code
        if code < 255 and at < len(coded):
            data.append(0)
    return bytes(data)


def _split(stream: bytes) -> tuple[list[Frame | bytes], bytes]:
    """Return frames and text of a stream, and its unfinished end."""
    *pieces, rest = stream.split(b"\0")
    items: list[Frame | bytes] = []
    for piece in pieces:
        if piece.startswith(b"\1"):
            payload = _uncobs(piece)
            type_, sequence = struct.unpack_from("<BH", payload, 1)
            items.append(Frame(type_, sequence, payload[4:-4]))
        elif piece:
            items.append(piece)
    return items, rest


class Line:
    """What stands between the device and the host: it passes everything on, unless overridden.

    Attributes:
        every_s: Time between two calls of ``besides``, seconds.
    """

    every_s = 0.05

    def from_device(self, frame: Frame) -> Sequence[Frame]:
        """Return what arrives of a frame of the device."""
        return (frame,)

    def besides(self) -> Sequence[Frame]:
        """Return frames that are sent in addition."""
        return ()


def changed(frame: Frame, op: str, change: Callable[[bytes], bytes]) -> Frame:
    """Return a response with its body changed if it answers ``op``, alone or within a BATCH."""
    if frame.type == number(f"op.{op}") | RESPONSE:
        return replace(frame, body=change(frame.body))
    if frame.type != number("op.BATCH") | RESPONSE:
        return frame
    parts, rest = frame.body[:4], frame.body[4:]
    while rest:
        part, size = struct.unpack_from("<BxH", rest)
        body, rest = rest[4 : 4 + size], rest[4 + size :]
        body = change(body) if part == number(f"op.{op}") else body
        parts += struct.pack("<BxH", part, len(body)) + body
    return replace(frame, body=parts)


@contextmanager
def native_device(image: Path, line: Line) -> Iterator[str]:
    """Serve the firmware; yield the address of its port."""
    with (
        subprocess.Popen([image], stdout=subprocess.PIPE) as firmware,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        assert firmware.stdout is not None
        path = firmware.stdout.readline().decode().removeprefix("link: ").strip()
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(terminal)
        over = threading.Event()
        thread = threading.Thread(target=_serve, args=(server, terminal, line, over))
        thread.start()
        try:
            yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()
            os.close(terminal)
            firmware.terminate()


def _serve(server: socket.socket, terminal: int, line: Line, over: threading.Event) -> None:
    server.settimeout(0.05)
    while not over.is_set():
        with suppress(TimeoutError, OSError):
            client, _ = server.accept()
            with client:
                _relay(client, terminal, line, over)


def _relay(client: socket.socket, terminal: int, line: Line, over: threading.Event) -> None:
    unfinished = b""
    due = time.monotonic() + line.every_s
    while not over.is_set():
        ready, _, _ = select.select([client, terminal], [], [], 0.005)
        if client in ready:
            data = client.recv(65536)
            if not data:
                return
            os.write(terminal, data)
        if terminal in ready:
            items, unfinished = _split(unfinished + os.read(terminal, 65536))
            for item in items:
                for sent in (item,) if isinstance(item, bytes) else line.from_device(item):
                    client.sendall(sent if isinstance(sent, bytes) else sent.encoded())
        if time.monotonic() >= due:
            due = time.monotonic() + line.every_s
            client.sendall(b"".join(frame.encoded() for frame in line.besides()))


def build_native(folder: Path) -> Path:
    """Build the native firmware; return the path of its image."""
    image = folder / "firmware"
    command = [sys.executable, "-m", "harness", "build", "--board", "native", "-o", str(image)]
    subprocess.run(command, check=True, capture_output=True)
    return image
