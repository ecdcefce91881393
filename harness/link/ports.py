"""Opens a port by its address: a serial device of this host, or a port served by another host.

    /dev/ttyACM0             any device name
    socket://host:port       bytes as they are, over TCP; the rate is the server's own
    rfc2217://host:port      with Telnet's COM-PORT-CONTROL, so the rate can be set

The last two may end in ``?timeout=SECONDS``, the longest wait for the server. Other schemes come
from plugins of the group ``etharness.transports``, which get the address as it is. A debug probe
(``gdb://host:port``, ``pyocd://``) is no serial port; ``probe.py`` opens it. ``rtt+gdb://`` is the
link through memory that a gdbserver reads and writes (``rtt.py``).

Not pyserial's URL handlers: its ``rfc2217://`` has no write timeout and moves data byte by byte
through a thread, and neither handler notices on opening that the server's port is in use.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

from harness.errors import PortError, UsageError
from harness.link.rfc2217 import MAX_MESSAGE, Rfc2217Transport, server_message
from harness.link.telnet import IAC, TelnetError, strip_commands
from harness.link.transports import SocketTransport, Transport, open_serial
from harness.plugins import TRANSPORTS, load_plugin, plugin_names, unfit_plugin

TIMEOUT_S: Final = 5.0
"""Longest wait for a server to accept, and to confirm something, seconds."""

_KINDS: Final = "a device name such as /dev/ttyACM0, socket://host:port, or rfc2217://host:port"
_SCHEMES: Final = ("socket", "rfc2217", "gdb")
_GDB: Final = "gdb://"
_PYOCD: Final = "pyocd://"
_RTT: Final = "rtt+"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HANG_UP_S: Final = 0.1
"""A server whose port is in use accepts, sends a message and hangs up within this time."""
_MOST_RECEIVED: Final = 1 << 16
"""A server that sends more than this has not hung up at once, bytes."""
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 5),
    ("TCP_KEEPALIVE", 5),  # macOS: its name of TCP_KEEPIDLE
    ("TCP_KEEPINTVL", 2),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 12_000),  # Linux
)
"""TCP options, if the system has them, that detect a vanished host after about ten seconds."""


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """The address of a port that a server provides: a serial port, or a gdbserver.

    Attributes:
        scheme: Protocol of the server.
        host: Host name in lower case, or IP address without brackets.
        port: TCP port.
        timeout_s: Longest wait for the server, seconds.
    """

    scheme: Literal["socket", "rfc2217", "gdb"]
    host: str
    port: int
    timeout_s: float = TIMEOUT_S


def plugin_scheme(address: str) -> str | None:
    """The scheme of an address that a plugin opens; None for all others. Nothing is imported."""
    scheme, sign, _ = address.partition("://")
    ours = scheme.removeprefix(_RTT) in _SCHEMES or is_probe(address)
    if not sign or not _URL.match(address) or ours:
        return None
    return scheme if scheme in plugin_names(TRANSPORTS) else None


def is_probe(address: object) -> bool:
    """Whether this is the address of a debug probe, which has no serial port."""
    return isinstance(address, str) and address.startswith((_GDB, _PYOCD))


def is_rtt(address: str) -> bool:
    """Whether this is the address of a link through the memory of a board."""
    return address.startswith(_RTT + _GDB)


def split_rtt(address: str) -> tuple[NetworkPort, int, int]:
    """Return the gdbserver of an ``rtt+gdb://`` address, and the memory with the control block.

    Raises:
        UsageError: The address is invalid.
    """
    server, _, query = address.removeprefix(_RTT).partition("?")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True))
        place, size = int(options.pop("address"), 0), int(options.pop("size", "0"), 0)
    except (KeyError, ValueError):
        place = size = -1
    if place < 0 or size < 0:
        raise UsageError(
            f"invalid port address {address!r}: no valid address of the RTT control block",
            hint="use rtt+gdb://host:port?address=0x20000000, the address of _SEGGER_RTT; with "
            "&size=BYTES that much memory is searched",
        )
    rest = "&".join(f"{name}={value}" for name, value in options.items())
    network = parse_address(f"{server}?{rest}" if rest else server)
    assert network is not None
    return network, place, size


def parse_address(address: str) -> NetworkPort | None:
    """Parse an address; None for a device name of this host.

    Raises:
        UsageError: It is a URL, but not a valid address of a port.
    """
    if not _URL.match(address):
        return None
    if is_rtt(address):
        return split_rtt(address)[0]
    try:
        url = urlsplit(address)
        host, port = url.hostname, url.port
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError as error:
        raise UsageError(
            f"invalid port address {address!r}: {error}", hint=f"use {_KINDS}"
        ) from error
    if url.scheme not in _SCHEMES:
        others = "".join(f", {name}://" for name in plugin_names(TRANSPORTS))
        raise UsageError(
            f"invalid port address {address!r}: unknown scheme {url.scheme}://",
            hint=f"use {_KINDS}{others}",
        )
    if not host or not port or url.path.strip("/") or url.fragment or "@" in url.netloc:
        raise UsageError(
            f"invalid port address {address!r}",
            hint=f"use {url.scheme}://host:port, with brackets around an IPv6 address",
        )
    scheme = next(known for known in _SCHEMES if known == url.scheme)
    return NetworkPort(scheme, host, port, parse_timeout(address, options))


def is_device(address: str) -> bool:
    """Whether an address is a device of this host: ``/dev/ttyACM0``, ``COM3``."""
    return _URL.match(address) is None


def device_path(device: str) -> str:
    """Return the path of a device with links resolved; on Windows its name in lower case."""
    path = os.path.realpath(device) if device.startswith("/") else device
    return os.path.normcase(path)


def port_identity(address: str) -> str:
    """Return an identity of the port behind an address, equal for all its spellings.

    Symbolic links to a device are resolved. The scheme of a network address does not matter, and
    all names of this host are the same host.

    Raises:
        UsageError: The address is invalid.
    """
    if plugin_scheme(address) is not None:
        return address
    here = socket.gethostname()
    if address.startswith(_PYOCD):
        return f"{here}:{address.partition('?')[0]}"
    network = parse_address(address)
    if network is None:
        return f"{here}:{device_path(address)}"
    loopback = network.host in ("localhost", "::1", here.lower()) or re.fullmatch(
        r"127(\.\d{1,3}){3}", network.host
    )
    return f"tcp:{here if loopback else network.host}:{network.port}"


def open_port(address: str, baud: int) -> Transport:
    """Open a port.

    Args:
        address: Device name, or address of a port on another host (see above).
        baud: Bits per second; ignored by ``socket://``, where the server sets the rate.

    Raises:
        UsageError: The address is invalid.
        PortError: The port cannot be reached, opened or set up.
    """
    if is_probe(address):
        raise UsageError(
            f"{address} is a debug probe, not a serial port",
            hint="`etharness pull` and `etharness run` use a probe together with --elf FILE",
        )
    if is_rtt(address):
        from harness.link.rtt import open_rtt

        return open_rtt(address)
    if (scheme := plugin_scheme(address)) is not None:
        return _open_by_plugin(scheme, address, baud)
    network = parse_address(address)
    if network is None:
        return open_serial(address, baud)
    connection = connect(
        *(network, f"cannot open the serial port {address}"),
        "check that the host is up, and that ser2net or another server runs there on this TCP port",
    )
    telnet = network.scheme == "rfc2217"
    received = _check_accepted(connection, address, telnet=telnet)
    stream = SocketTransport(connection, received)
    return Rfc2217Transport(stream, address, baud, network.timeout_s) if telnet else stream


def _open_by_plugin(scheme: str, address: str, baud: int) -> Transport:
    """Open an address with the plugin for its scheme: a function of address and baud rate.

    Raises:
        UsageError: The plugin is broken.
        HarnessError: What the plugin raises.
    """
    opener = load_plugin(TRANSPORTS, scheme)
    if not callable(opener):
        raise unfit_plugin(TRANSPORTS, scheme, "a function of address and baud rate")
    transport: Transport = opener(address, baud)
    return transport


def parse_timeout(address: str, options: dict[str, str]) -> float:
    """Return the only option of an address, ``timeout``, in seconds.

    Raises:
        UsageError: There are others, or it is no valid number.
    """
    text = options.pop("timeout", str(TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if options or not 0 < seconds < 3600:
        defect = f"unknown option {next(iter(options))!r}" if options else f"timeout {text!r}"
        raise UsageError(
            f"invalid port address {address!r}: {defect}",
            hint="the only option is ?timeout=SECONDS, below 3600",
        )
    return seconds


def connect(network: NetworkPort, failed: str, hint: str) -> socket.socket:
    """Connect to a server, with TCP options that detect a vanished host.

    Args:
        network: Its address.
        failed: Beginning of the message of an error.
        hint: What to try if the host is known, but there is no connection.

    Raises:
        PortError: There is no connection in time.
    """
    try:
        connection = socket.create_connection((network.host, network.port), network.timeout_s)
    except socket.gaierror as error:
        raise PortError(
            f"{failed}: host {network.host!r} not found: {error.strerror}",
            hint="check the host name and the name resolution of this host",
        ) from error
    except OSError as error:
        late = isinstance(error, TimeoutError)
        why = f"timed out after {network.timeout_s:g} s" if late else error.strerror or error
        raise PortError(f"{failed}: {why}", hint=hint) from error
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection


def _check_accepted(connection: socket.socket, address: str, *, telnet: bool) -> bytes:
    """Wait a moment for a server to hang up, which it does if its serial port is in use.

    A server that sends Telnet commands, and no text before a hang-up, has accepted us.

    Returns:
        The bytes that arrived meanwhile.

    Raises:
        PortError: The server hung up.
    """
    received = b""
    give_up_at = time.monotonic() + _HANG_UP_S
    while (left := give_up_at - time.monotonic()) > 0 and len(received) < _MOST_RECEIVED:
        connection.settimeout(left)
        try:
            arrived = connection.recv(MAX_MESSAGE)
        except TimeoutError:
            break
        except OSError:
            arrived = b""
        received += arrived
        words = received[:MAX_MESSAGE]
        commands = telnet and words.startswith(IAC)
        with suppress(TelnetError):
            words = strip_commands(words) if telnet else words
        if not arrived:
            connection.close()
            raise PortError(
                f"cannot open the serial port {address}: the server hung up at once"
                f"{server_message(words)}",
                hint="check that nobody else has opened the port, and that the board is plugged in "
                "there",
            )
        if commands and not words:
            break
    return received
