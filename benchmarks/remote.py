"""Readers of serial ports over the network, side by side with pyserial's own; into docs/remote.md.

    python -m benchmarks.remote

Random bytes come from a server in a process of its own, which has them ready as they go over the
line. Both readers take them in one run, in turn. Times are of this machine and this hour.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import socket
import statistics
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import serial

from harness import open_port
from harness.extensions.remote.rfc2217 import (
    Negotiation,
    Setting,
    Subnegotiation,
    TelnetCommand,
    TelnetDecoder,
    escape,
    negotiation,
    port_answer,
)
from tests.support.ser2net import served

PAGE = Path(__file__).resolve().parent.parent / "docs/remote.md"
TABLE = re.compile(r"(?<=<!-- benchmarks.remote -->\n).*?(?=<!-- end -->)", re.DOTALL)
SIZE = 262_144
REPEATS = 5
BAUD = 115_200
GO = b"g"
"""What a client writes when it is ready."""


def main() -> None:
    text = TABLE.sub("\n".join(section()) + "\n", PAGE.read_text())
    PAGE.write_text(text)
    print(text)


def section() -> Iterator[str]:
    """The table, of medians and of the range of ratios."""
    yield f"{SIZE // 1024} KiB of random bytes, MB/s, medians of {REPEATS} alternating reads; the"
    yield "ratio is of the medians, with the lowest and highest ratio of the reads."
    yield ""
    yield "| port | server | ours | pyserial | ratio (range) |"
    yield "|---|---|---|---|---|"
    for scheme in ("socket", "rfc2217"):
        for source, serve in (("data sent at once", ready), ("ser2net", through_ser2net)):
            ours, stock = [], []
            for take in range(REPEATS):
                data = random.Random(take).randbytes(SIZE)
                with serve(scheme, data) as address:
                    ours.append(timed(read_ours, address, data))
                with serve(scheme, data) as address:
                    stock.append(timed(read_stock, address, data))
            ratios = [b / a for a, b in zip(ours, stock, strict=True)]
            a, b = (SIZE / statistics.median(times) / 1e6 for times in (ours, stock))
            spread = f"{min(ratios):.0f} to {max(ratios):.0f}"
            yield f"| `{scheme}://` | {source} | {a:.1f} | {b:.2f} | {a / b:.0f} ({spread}) |"


def timed(read: Callable[[str, int], tuple[float, bytes]], address: str, data: bytes) -> float:
    """Seconds from the first byte's being asked for to the last one's being there."""
    seconds, got = read(address, len(data))
    assert got == data, f"{address}: not what was sent"
    return seconds


def read_ours(address: str, size: int) -> tuple[float, bytes]:
    with closing(open_port(address, BAUD)) as port:
        return _read(lambda: port.write(GO, 5), lambda: port.read(5), size)


def read_stock(address: str, size: int) -> tuple[float, bytes]:
    """As pyserial's own tools read: what is waiting, or else wait for a byte."""
    # It asserts DTR, which a pseudo-terminal has not, and ser2net then confirms nothing.
    patient = "?ign_set_control" if address.startswith("rfc2217") else ""
    with serial.serial_for_url(address + patient, BAUD, timeout=5) as port:
        return _read(lambda: port.write(GO), lambda: port.read(port.in_waiting or 1), size)


def _read(go: Callable[[], object], more: Callable[[], bytes], size: int) -> tuple[float, bytes]:
    got: list[bytes] = []
    count = 0
    began = time.perf_counter()
    go()
    while count < size and (data := more()):
        got.append(data)
        count += len(data)
    return time.perf_counter() - began, b"".join(got)


@contextmanager
def ready(scheme: str, data: bytes) -> Iterator[str]:
    """A server that has nothing to do but send."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(scheme, data, theirs), daemon=True)
    server.start()
    try:
        yield f"{scheme}://127.0.0.1:{ours.recv()}"
    finally:
        server.kill()
        server.join()


def _serve(scheme: str, data: bytes, told: Connection) -> None:
    telnet = scheme == "rfc2217"
    wire = escape(data) if telnet else data
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told.send(listening.getsockname()[1])
        connection, _ = listening.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        decoder = TelnetDecoder()
        while heard := connection.recv(4096):
            for item in decoder.feed(heard) if telnet else [heard]:
                if isinstance(item, bytes):
                    connection.sendall(wire)
                else:
                    connection.sendall(_agree(item))


def _agree(item: Negotiation | Subnegotiation) -> bytes:
    """Agree to all that is asked for, and confirm it."""
    if isinstance(item, Negotiation):
        answer = {TelnetCommand.WILL: TelnetCommand.DO, TelnetCommand.DO: TelnetCommand.WILL}.get(
            item.command
        )
        return negotiation(answer, item.option) if answer else b""
    return port_answer(Setting(item.body[0]), item.body[1:])


@contextmanager
def through_ser2net(scheme: str, data: bytes) -> Iterator[str]:
    """ser2net, which has the bytes from a pseudo-terminal."""
    master, slave = os.openpty()
    tty.setraw(slave)

    def send() -> None:
        with suppress(OSError):
            os.read(master, 1)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(master, rest[:4096]) :]

    threading.Thread(target=send, daemon=True).start()
    with (
        TemporaryDirectory() as directory,
        served(Path(directory), os.ttyname(slave), scheme) as server,
    ):
        yield server.address
    os.close(master)
    os.close(slave)


if __name__ == "__main__":
    main()
