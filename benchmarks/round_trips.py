"""What a run costs beyond its bytes: frames and time, on a line with a rate and a latency.

    python -m benchmarks.round_trips

The command is `etharness run` in an empty folder. The board is the native firmware, behind a line
that delays every byte; nothing else is simulated. Data frames carry model, input, output and trace;
all others are beyond the bytes. So is the time that the line would not need for all bytes in a row.
"""

from __future__ import annotations

import collections
import os
import queue
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness import build_firmware
from harness.config.board import load_board
from harness.files import data_directory
from harness.link.messages import BatchAnswer, BatchBody
from harness.testing import RESPONSE, Frame, FrameDecoder, Op

BAUD = 115_200
LATENCY_S = 0.010
BYTE_S = 10 / BAUD
PIECE = 32
MODEL = "kws_int8"
REPEATS = 5
_STATUS_SIZE = 4
"""Bytes before the parts in the answer to a BATCH."""


@dataclass
class Direction:
    """Bytes of one direction: each leaves when the line is free, and arrives later."""

    pieces: queue.Queue[tuple[float, bytes]] = field(default_factory=queue.Queue)
    line_free: float = 0.0
    bytes: int = 0
    frames: collections.Counter[str] = field(default_factory=collections.Counter)
    decoder: FrameDecoder = field(default_factory=lambda: FrameDecoder(65_535))

    def put(self, data: bytes) -> None:
        """Take what has been sent."""
        now = time.monotonic()
        self.bytes += len(data)
        for item in self.decoder.feed(data):
            if isinstance(item, Frame):
                self.frames[self._kind(item)] += 1
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self.line_free = max(self.line_free, now) + len(piece) * BYTE_S
            self.pieces.put((self.line_free + LATENCY_S, piece))

    def _kind(self, frame: Frame) -> str:
        op = Op(frame.type & ~RESPONSE)
        if frame.type == Op.READ | RESPONSE or frame.type == Op.WRITE:
            return "data"
        writes = False
        if op == Op.BATCH:
            batch = BatchAnswer if frame.type & RESPONSE else BatchBody
            writes = any(part.op == Op.WRITE for part in batch.parse(frame.body).parts)
        if frame.type == Op.BATCH and writes:
            return "data"
        if frame.type == Op.WRITE | RESPONSE:
            return "acknowledgements"
        if writes:
            return "acknowledgements"
        return op.name

    def deliver(self, file: int) -> None:
        """Write to a file what arrives, until an empty piece does."""
        while (item := self.pieces.get())[1]:
            time.sleep(max(0.0, item[0] - time.monotonic()))
            os.write(file, item[1])


class DelayLine:
    """A TCP port that leads through a slow line to the port of a board.

    Attributes:
        up: From the host to the board.
        down: From the board to the host.
        first: When the first byte of the host came.
        last: When the last byte was delivered to either.
    """

    def __init__(self, board: str) -> None:
        self.up, self.down = Direction(), Direction()
        self.first = self.last = 0.0
        self._board = os.open(board, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._board)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = f"socket://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        host = connection.fileno()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threads = [
            threading.Thread(target=self.up.deliver, args=(self._board,)),
            threading.Thread(target=self.down.deliver, args=(host,)),
        ]
        for thread in threads:
            thread.start()
        while True:
            for file in select.select([host, self._board], [], [])[0]:
                data = os.read(file, 4096)
                if file == host and not data:
                    for direction in (self.up, self.down):
                        direction.pieces.put((0.0, b""))
                    for thread in threads:
                        thread.join()
                    connection.close()
                    return
                if file == host:
                    self.first = self.first or time.monotonic()
                (self.up if file == host else self.down).put(data)
                self.last = max(self.up.line_free, self.down.line_free) + LATENCY_S

    def close(self) -> None:
        """Wait for the end of the connection."""
        self._thread.join()
        self._server.close()
        os.close(self._board)


@dataclass(frozen=True)
class Cost:
    """What one run cost: seconds of its session, and of its bytes; frames by type."""

    session_s: float
    bytes_s: float
    frames: collections.Counter[str]

    @property
    def beyond_s(self) -> float:
        """What the session takes beyond its bytes."""
        return self.session_s - self.bytes_s

    @property
    def beyond_frames(self) -> int:
        """All frames but data and what acknowledges it, which costs no time."""
        return self.frames.total() - self.frames["data"] - self.frames["acknowledgements"]


def measure() -> Cost:
    """Run the model once on a board that has just started."""
    firmware = build_firmware(load_board("native")[0])
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([firmware.image], stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        text = (data_directory("boards") / "native.toml").read_text()
        text = text.replace('{ kind = "native" }', '{ kind = "serial" }')
        text = text.replace('budget = "budgets/default.toml"\n', "")
        (Path(folder) / "native.toml").write_text(text)
        line = DelayLine(process.stdout.readline().removeprefix("link: ").strip())
        command = [
            *(sys.executable, "-m", "harness", "run", "--board", "native.toml"),
            *("--port", line.port, "--model", MODEL, "--runs", "1", "--quiet"),
        ]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        line.close()
        process.terminate()
    frames = line.up.frames + line.down.frames
    bytes_s = (line.up.bytes + line.down.bytes) * BYTE_S
    return Cost(line.last - line.first, bytes_s, frames)


def section() -> Iterator[str]:
    """The part of docs/measurements.md."""
    costs = sorted((measure() for _ in range(REPEATS)), key=lambda cost: cost.beyond_s)
    middle = costs[len(costs) // 2]
    yield "## Overhead of a run"
    yield ""
    yield f"`etharness run --model {MODEL} --runs 1` on the native board behind a line of {BAUD}"
    yield f"baud with a delay of {LATENCY_S * 1e3:.0f} ms in each direction. The table has the"
    yield f"run with the median overhead of {REPEATS} runs. Data frames carry the model, the input,"
    yield "the output and the trace. The device acknowledges each frame of the model and the input."
    yield ""
    yield "| session | time at line rate | overhead | data frames | acknowledgements | others |"
    yield "|---|---|---|---|---|---|"
    yield (
        f"| {middle.session_s:.2f} s | {middle.bytes_s:.2f} s | {middle.beyond_s:.2f} s "
        f"| {middle.frames['data']} | {middle.frames['acknowledgements']} "
        f"| {middle.beyond_frames} |"
    )
    yield ""
    others = {name: n for name, n in middle.frames.items() if name.isupper()}
    yield "Other frames: " + ", ".join(f"{name} {n}" for name, n in sorted(others.items())) + "."


if __name__ == "__main__":
    print("\n".join(section()))
