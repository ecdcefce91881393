"""Ports by their address: of this host, and of others over TCP, with servers of every kind."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from typing import Any

import pytest
import serial
from serial.rfc2217 import PortManager

from harness import LinkError, PortError, TransportClosedError, UsageError, open_port
from harness.extensions.remote.rfc2217 import (
    Setting,
    Subnegotiation,
    TelnetCommand,
    TelnetDecoder,
    baud_value,
    escape,
    negotiation,
    port_answer,
)
from harness.link.transports import parse_address, port_identity
from harness.testing import RatedTransport

COM_PORT = 44

EVERYTHING = bytes(range(256)) * 512
AGREED = b"".join(
    negotiation(command, option)
    for command, option in (
        (TelnetCommand.DO, COM_PORT),
        (TelnetCommand.DO, 0),
        (TelnetCommand.WILL, 0),
    )
)


@contextmanager
def server(
    serve: Callable[[socket.socket], None], scheme: str, timeout_s: float = 20.0
) -> Iterator[str]:
    """A TCP server that does that with each connection; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}?timeout={timeout_s}"
        listening.shutdown(socket.SHUT_RDWR)


def saying(*words: bytes, then: Callable[[socket.socket], None] | None = None) -> Any:
    """Something that a server does: say these words, and stay or do that."""

    def serve(connection: socket.socket) -> None:
        for each in words:
            connection.sendall(each)
        if then is not None:
            then(connection)
        else:
            while connection.recv(4096):
                pass

    return serve


def hanging_up(connection: socket.socket) -> None:
    """Return, so that the connection is closed."""


def agreeing(connection: socket.socket, until: threading.Event | None = None, **wrong: int) -> None:
    """Agree to RFC 2217, confirm all that is asked for but what is to be wrong; echo data."""
    connection.sendall(AGREED)
    decoder = TelnetDecoder()
    while data := received(connection, until):
        for item in decoder.feed(data):
            if isinstance(item, bytes):
                connection.sendall(escape(item))
            elif isinstance(item, Subnegotiation):
                setting, value = Setting(item.body[0]), item.body[1:]
                if setting.name in wrong:
                    value = wrong[setting.name].to_bytes(len(value), "big")
                if setting <= Setting.CONTROL or setting is Setting.PURGE:
                    connection.sendall(port_answer(setting, value))


def received(connection: socket.socket, until: threading.Event | None) -> bytes:
    """Receive what comes next; nothing if nothing is left after the event."""
    while True:
        over = until is not None and until.is_set()
        with suppress(TimeoutError):
            return connection.recv(65536)
        if over:
            return b""


def echoing(connection: socket.socket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)


class PseudoTerminal(serial.Serial):
    """A serial port without the lines of a modem, which pseudo-terminals have not."""

    cts = dsr = ri = cd = False


def stock_server(connection: socket.socket) -> None:
    """What pyserial's example server does: a port by PortManager, here one that echoes."""
    master, slave = os.openpty()
    with PseudoTerminal(os.ttyname(slave), 115_200) as port:
        os.close(slave)
        lock = threading.Lock()

        def write(data: bytes) -> None:
            with lock:
                connection.sendall(data)

        manager = PortManager(port, type("Connection", (), {"write": staticmethod(write)}))

        def echo() -> None:
            with suppress(OSError):
                while True:
                    os.write(master, os.read(master, 4096))

        def send() -> None:
            with suppress(OSError, serial.SerialException, TypeError):
                while True:
                    write(b"".join(manager.escape(port.read(port.in_waiting or 1))))

        for work in (echo, send):
            threading.Thread(target=work, daemon=True).start()
        while data := connection.recv(4096):
            port.write(b"".join(manager.filter(data)))
        os.close(master)


def read_all(transport: Any, size: int, timeout_s: float = 20.0) -> bytes:
    until = time.monotonic() + timeout_s
    data = b""
    while len(data) < size and time.monotonic() < until:
        data += transport.read(0.5)
    return data


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("/dev/ttyACM0", None),
        ("COM3", None),
        ("socket://rack:4001", ("socket", "rack", 4001, 5)),
        ("SOCKET://Rack.lab:4001/", ("socket", "rack.lab", 4001, 5)),
        ("rfc2217://[fe80::1]:2217", ("rfc2217", "fe80::1", 2217, 5)),
        ("rfc2217://10.0.0.7:1?timeout=2.5", ("rfc2217", "10.0.0.7", 1, 2.5)),
    ],
)
def test_addresses(address: str, port: tuple[str, str, int, float] | None) -> None:
    found = parse_address(address)
    assert (None if found is None else astuple(found)) == port


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("loop://", "unknown scheme loop://"),
        ("spy:///dev/ttyACM0", "unknown scheme spy://"),
        ("socket://rack", "invalid port address"),
        ("socket://:4001", "invalid port address"),
        ("socket://rack:0", "invalid port address"),
        ("socket://rack:99999", "out of range"),
        ("socket://rack:4001/x", "invalid port address"),
        ("socket://me@rack:4001", "invalid port address"),
        ("socket://[fe80::1:4001", "Invalid IPv6"),
        ("rfc2217://rack:1?ign_set_control", "no option 'ign_set_control'|bad query field"),
        ("rfc2217://rack:1?logging=debug", "unknown option 'logging'"),
        ("rfc2217://rack:1?timeout=soon", "timeout 'soon'"),
        ("rfc2217://rack:1?timeout=nan", "timeout 'nan'"),
    ],
)
def test_what_is_no_address(address: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        open_port(address, 115_200)


def test_other_schemes_are_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        parse_address("hwgrep://ACM")
    for known in ("/dev/ttyACM0", "socket://host:port", "rfc2217://host:port"):
        assert known in caught.value.hint


def test_one_port_has_one_identity() -> None:
    def same(*addresses: str) -> bool:
        return len({port_identity(address) for address in addresses}) == 1

    here = socket.gethostname()
    assert same(
        *("socket://localhost:4001", "rfc2217://127.0.0.1:4001", "socket://[::1]:4001"),
        *(f"socket://{here.upper()}:4001?timeout=9", "socket://127.1.2.3:4001"),
    )
    assert same("socket://Rack:04001", "rfc2217://rack:4001/")
    assert not same("socket://rack:4001", "socket://rack:4002")
    assert not same("socket://bench:4001", "socket://rack:4001")
    assert not same("/dev/ttyACM0", "/dev/ttyACM1")


def test_a_raw_port_passes_everything_both_ways_and_has_no_rate() -> None:
    with (
        server(saying(then=echoing), "socket") as address,
        closing(open_port(address, 9600)) as port,
    ):
        port.write(EVERYTHING, 5)
        assert read_all(port, len(EVERYTHING)) == EVERYTHING
        assert not isinstance(port, RatedTransport)


def test_pyserials_server_passes_everything_both_ways_and_changes_its_rate() -> None:
    with server(stock_server, "rfc2217") as address, closing(open_port(address, 9600)) as port:
        assert isinstance(port, RatedTransport)
        assert port.baud == 9600
        data = EVERYTHING[: 1 << 14]
        port.write(data, 5)
        assert read_all(port, len(data)) == data
        port.set_baud(921_600)
        assert port.baud == 921_600


@pytest.mark.filterwarnings("ignore::DeprecationWarning:serial")
def test_pyserials_client_understands_what_we_write() -> None:
    data = EVERYTHING[: 1 << 12]
    with (
        server(agreeing, "rfc2217") as address,
        serial.serial_for_url(address.partition("?")[0], 57_600, timeout=20) as port,
    ):
        port.write(data)
        assert port.read(len(data)) == data
        port.baudrate = 115_200


def test_the_ports_of_a_host_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    for scheme in ("socket", "rfc2217"):
        with pytest.raises(PortError, match=f"{scheme}://{nobody}: Connection refused") as caught:
            open_port(f"{scheme}://{nobody}", 9600)
        assert "ser2net or another server runs there" in caught.value.hint
    with pytest.raises(PortError, match=r"host 'nowhere\.invalid' not found"):
        open_port("socket://nowhere.invalid:1", 9600)


@pytest.mark.parametrize("scheme", ["socket", "rfc2217"])
@pytest.mark.parametrize("first", [b"", negotiation(TelnetCommand.WILL, 3)])
def test_a_server_whose_port_is_taken_says_so(scheme: str, first: bytes) -> None:
    words = (first if scheme == "rfc2217" else b"") + b"Port already in use\r\n"
    with (
        server(saying(words, then=hanging_up), scheme) as address,
        pytest.raises(PortError, match="'Port already in use'") as caught,
    ):
        open_port(address, 9600)
    assert "nobody else has opened the port" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "why", "remedy"),
    [
        ([b"login: "], r"did not agree to RFC 2217 within 0\.5 s; it sent 'login:'", "socket://"),
        (
            [negotiation(TelnetCommand.DONT, COM_PORT)],
            "speaks Telnet, but refuses RFC 2217",
            "telnet(rfc2217)",
        ),
        ([negotiation(TelnetCommand.DONT, 0)], "refuses binary transfer", "raw"),
        ([AGREED], r"did not confirm BAUDRATE 115200 within 0\.5 s", ""),
        ([b"\xff\xfa" + bytes(5000)], "a subnegotiation did not end", "nobody else"),
        ([b"\x00\xff\x00"], "byte 0 after a 255", "socket://"),
        ([bytes(3 << 20)], "more than 1048576 bytes before", "nobody else"),
    ],
)
def test_servers_that_do_not_do_their_part(words: list[bytes], why: str, remedy: str) -> None:
    timeout_s = 0.5 if "within" in why else 20.0
    with (
        server(saying(*words), "rfc2217", timeout_s) as address,
        pytest.raises(PortError, match=why) as caught,
    ):
        open_port(address, 115_200)
    assert remedy in caught.value.hint
    assert caught.value.exit_code == 75


@pytest.mark.attack(
    "Link and servers",
    "an RFC 2217 server that confirms another baud rate",
    "refused, with both rates",
)
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"BAUDRATE": 9600}, "does not support BAUDRATE 115200; it stays at 9600"),
        ({"PARITY": 2}, "does not support PARITY 1; it stays at 2"),
    ],
)
def test_a_server_that_confirms_something_else(wrong: dict[str, int], why: str) -> None:
    with (
        server(lambda connection: agreeing(connection, **wrong), "rfc2217") as address,
        pytest.raises(PortError, match=why),
    ):
        open_port(address, 115_200)


def test_a_server_that_never_stops_negotiating_is_given_up() -> None:
    def negotiate(connection: socket.socket) -> None:
        connection.settimeout(5)
        while True:
            connection.sendall(negotiation(TelnetCommand.WILL, 1) * 1000)
            connection.recv(65536)

    with (
        server(saying(then=negotiate), "rfc2217", 0.5) as address,
        pytest.raises(PortError, match=r"did not agree|timed out"),
    ):
        open_port(address, 115_200)


@contextmanager
def scripted(timeout_s: float = 20.0) -> Iterator[tuple[Any, socket.socket]]:
    """A port of a server that has confirmed everything, and the server's end."""
    opened = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:

        def confirm() -> socket.socket:
            theirs, _ = listening.accept()
            theirs.settimeout(0.2)
            agreeing(theirs, opened)
            theirs.settimeout(20)
            return theirs

        confirmed = pool.submit(confirm)
        address = f"rfc2217://127.0.0.1:{listening.getsockname()[1]}?timeout={timeout_s}"
        with closing(open_port(address, 115_200)) as port:
            opened.set()
            with confirmed.result() as theirs:
                yield port, theirs


OVERRUN, FRAMING = 2, 8
"""Line errors, as RFC 2217 numbers them."""


def test_what_the_server_reports_is_counted_and_is_no_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with scripted() as (port, theirs):
        damage = bytes((OVERRUN | FRAMING,))
        theirs.sendall(b"ab" + port_answer(Setting.LINESTATE, damage) + b"\xff\xffc")
        theirs.sendall(port_answer(Setting.MODEMSTATE, b"\x30"))
        assert read_all(port, 4) == b"ab\xffc"
        assert port.line_errors == {OVERRUN: 1, FRAMING: 1}
        assert re.search(r"rfc2217://127\.0\.0\.1:\S+: the port reports OVERRUN", caplog.text)


def test_a_server_that_suspends_the_flow_is_obeyed() -> None:
    with scripted() as (port, theirs):
        theirs.sendall(b"1" + port_answer(Setting.SUSPEND))
        with pytest.raises(
            LinkError, match=r"2 bytes within 0\.1 s: the server has suspended the flow"
        ):
            port.write(b"no", 0.1)
        theirs.sendall(b"2" + port_answer(Setting.RESUME))
        port.write(b"y\xff", 1)
        assert theirs.recv(100) == b"y\xff\xff"
        assert read_all(port, 2) == b"12", "what came meanwhile is kept"


def test_a_late_answer_is_not_taken_for_one_to_the_next_question() -> None:
    with scripted(timeout_s=3.0) as (port, theirs):
        with pytest.raises(PortError, match="did not confirm BAUDRATE 230400"):
            port.set_baud(230_400)
        for baud in (230_400, 460_800):
            theirs.sendall(port_answer(Setting.BAUDRATE, baud_value(baud)))
        port.set_baud(460_800)
        assert port.baud == 460_800


def test_a_connection_that_ends_says_so() -> None:
    with scripted() as (port, theirs):
        assert port.read(0) == b""
        theirs.close()
        with pytest.raises(TransportClosedError):
            port.read(1)
        assert port.ended
        with pytest.raises(TransportClosedError):
            port.write(b"x", 1)
