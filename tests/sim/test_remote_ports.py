"""Boards on ports of another host: a native board behind ser2net, raw and by RFC 2217."""

from __future__ import annotations

import os
import random
import re
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import harness
from harness import PortError, Region, Session, build_firmware, open_port
from harness.testing import RatedTransport, ReopeningTransport
from tests.conftest import MODELS, CommandResult
from tests.support.documents import document
from tests.support.ser2net import configured, free_port, served

Etharness = Callable[..., CommandResult]
pytestmark = pytest.mark.sim

MODEL = MODELS / "kws_int8.pte"
SCHEMES = ["socket", "rfc2217"]
# No two pieces of it are alike, so that what is lost at its beginning is not taken for its end.
EVERYTHING = bytes(range(256)) + random.Random(12).randbytes(1 << 20)
BOARD = """\
schema = 1
name = "native"
description = "a native board that somebody else started"
cpu = "host"
timer = { source = "CLOCK_MONOTONIC", bits = 32, hz = 1_000_000_000 }
target = { kind = "serial", bauds = [921_600] }
"""


@pytest.fixture
def device() -> Iterator[str]:
    """The pseudo-terminal of a native board that somebody else started."""
    firmware = build_firmware(harness.Board.load("native"))
    with subprocess.Popen([firmware.image], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("link: ").strip()
        process.terminate()


@contextmanager
def terminal() -> Iterator[tuple[int, str]]:
    """The master of a pseudo-terminal, and the name of its other end."""
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        yield master, os.ttyname(slave)
    finally:
        os.close(master)
        os.close(slave)


def rates_of(master: int) -> list[int]:
    return termios.tcgetattr(master)[4:6]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_whole_run(scheme: str, device: str, etharness: Etharness, tmp_path: Path) -> None:
    board = tmp_path / "native.toml"
    board.write_text(BOARD)
    with served(tmp_path, device, scheme) as server:
        code, out, err = etharness(
            *("run", "--board", board, "--port", server.address, "--model", MODEL, "--runs", "3"),
            *("-o", tmp_path / "run", "--json"),
        )
    assert code == 0, err
    result = document("result", out)
    assert result["runs_completed"] == 3
    assert result["port"] == server.address
    assert sum(n for name, n in result["link"].items() if name.startswith("corrupt")) == 0
    # A raw port keeps its server's rate; by RFC 2217 both ends move.
    assert result["baud"] == (921_600 if scheme == "rfc2217" else 0)


def test_a_rate_for_a_port_without_one_is_the_users_mistake(
    device: str, etharness: Etharness, tmp_path: Path
) -> None:
    board = tmp_path / "native.toml"
    board.write_text(BOARD)
    with served(tmp_path, device, "socket") as server:
        code, _, err = etharness(
            *("run", "--board", board, "--port", server.address, "--model", MODEL),
            *("-o", tmp_path / "run", "--baud", "921600"),
        )
    assert code == 2
    assert "has no baud rate to change to 921600" in err
    assert "rfc2217://" in err


def test_the_rate_of_a_unit_is_the_one_that_its_file_says(
    device: str, etharness: Etharness, tmp_path: Path
) -> None:
    (tmp_path / "native.toml").write_text(BOARD)
    with served(tmp_path, device, "rfc2217") as server:
        units = tmp_path / "units.toml"
        units.write_text(
            'schema = 1\n[[unit]]\nid = "far"\nboard = "native.toml"\nbaud = 3_000_000\n'
            f'port = "{server.address}"\n'
        )
        code, out, err = etharness(
            *("run", "--unit", "far", "--units", units, "--model", MODEL, "--json"),
            *("-o", tmp_path / "run"),
        )
    assert code == 0, err
    assert document("result", out)["baud"] == 3_000_000


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_byte_value_passes_both_ways(scheme: str, tmp_path: Path) -> None:
    with (
        terminal() as (master, name),
        served(tmp_path, name, scheme) as server,
        closing(open_port(server.address, 115_200)) as port,
    ):
        # The server discards input when it opens the terminal, so send only after it has opened it.
        port.write(b"!", 60)
        assert os.read(master, 1) == b"!"

        def send() -> None:
            rest = memoryview(EVERYTHING)
            while rest:
                rest = rest[os.write(master, rest[:4096]) :]

        received = bytearray()

        def receive() -> None:
            while len(received) < len(EVERYTHING):
                received.extend(os.read(master, 65536))

        until = time.monotonic() + 600
        down = b""
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        while len(down) < len(EVERYTHING) and time.monotonic() < until:
            down += port.read(1)
        assert down == EVERYTHING
        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        port.write(EVERYTHING, 60)
        thread.join(60)
        assert received == EVERYTHING
        assert port.read(0.1) == b"", "nothing is invented"


def test_a_rate_reaches_the_device(tmp_path: Path) -> None:
    with (
        terminal() as (master, name),
        served(tmp_path, name, "rfc2217") as server,
        closing(open_port(server.address, 57_600)) as port,
    ):
        assert rates_of(master) == [termios.B57600] * 2
        assert isinstance(port, RatedTransport)
        port.set_baud(921_600)
        assert rates_of(master) == [termios.B921600] * 2
        assert port.baud == 921_600


@pytest.mark.attack(
    "Link and servers", "a second client of a serial server", "exit code 75: in use"
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_of_two_clients_the_second_is_told(scheme: str, tmp_path: Path) -> None:
    with (
        terminal() as (master, name),
        served(tmp_path, name, scheme) as server,
        closing(open_port(server.address, 115_200)) as first,
    ):
        with pytest.raises(PortError) as caught:
            open_port(server.address, 115_200)
        assert server.address in caught.value.message
        assert "nobody else has opened the port" in caught.value.hint
        os.write(master, b"still there")
        assert first.read(5) == b"still there"


@pytest.mark.attack(
    "Link and servers", "a serial server that is killed and restarted", "the run continues"
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_server_that_is_killed_and_comes_back_is_no_failure(
    scheme: str, device: str, tmp_path: Path
) -> None:
    with served(tmp_path, device, scheme) as server:
        line = ReopeningTransport(lambda: open_port(server.address, 115_200), 20)
        with closing(line):
            session = Session(line, deadline_s=1)
            session.hello(10)
            [tensor] = session.load_model(MODEL.read_bytes()).inputs
            session.set_input(0, bytes(tensor.nbytes))
            session.run(300, timeout_s=10)
            whole = session.read(Region.TRACE)
            restarted: list[threading.Thread] = []

            def progress(done: int, total: int) -> None:
                if not restarted and done > total // 3:
                    server.kill()
                    restarted.append(threading.Thread(target=server.start))
                    restarted[0].start()

            assert session.read(Region.TRACE, progress=progress) == whole
            restarted[0].join()
        assert line.reopened == 1


def test_the_servers_of_the_page(tmp_path: Path) -> None:
    """The configuration in docs/remote.md serves both ports, as it says."""
    page = Path(__file__).parents[2] / "docs/remote.md"
    [text] = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    devices = re.findall(r"serialdev,([^,]+),", text)
    ports = re.findall(r"127\.0\.0\.1,(\d+)", text)
    assert len(devices) == len(ports) == 2
    with terminal() as (first, first_name), terminal() as (second, second_name):
        free = [free_port(), free_port()]
        swaps = zip([*devices, *ports], [first_name, second_name, *map(str, free)], strict=True)
        for shown, real in swaps:
            text = text.replace(shown, real)
        with configured(tmp_path, text, free[1]):
            addresses = [
                f"{scheme}://127.0.0.1:{port}"
                for scheme, port in zip(("rfc2217", "socket"), free, strict=True)
            ]
            for master, address in zip((first, second), addresses, strict=True):
                with closing(open_port(address, 115_200)) as port:
                    port.write(b"up\xff", 5)
                    assert os.read(master, 10) == b"up\xff"
                    with pytest.raises(PortError):
                        open_port(address, 115_200)


def test_a_server_that_is_gone_is_infrastructure(etharness: Etharness, tmp_path: Path) -> None:
    with terminal() as (_, name), served(tmp_path, name, "socket") as server:
        pass
    board = tmp_path / "native.toml"
    board.write_text(BOARD)
    code, _, err = etharness(
        *("run", "--board", board, "--port", server.address, "--model", MODEL),
        *("-o", tmp_path / "run"),
    )
    assert code == 75
    assert f"cannot open the serial port {server.address}: Connection refused" in err
    result = document("result", (tmp_path / "run/result.json").read_text())
    assert result["failure"]["owner"] == "link"
