"""Opens a port by its address: a device of this host, or one that another host serves.

    /dev/ttyACM0             any device name
    socket://host:port       bytes as they are, over TCP; the rate is the server's own
    rfc2217://host:port      with Telnet's COM-PORT-CONTROL, so the rate can be set

The last two may end in ``?timeout=SECONDS``, the longest wait for the server. Other schemes come
from plugins of the group ``etharness.transports``, which get the address as it is.
"""

from __future__ import annotations

import os
import re
import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

from harness.errors import PortError, UsageError
from harness.link.rfc2217 import Rfc2217Transport, said
from harness.link.telnet import IAC, TelnetError, data_of
from harness.link.transports import SocketTransport, Transport, open_serial
from harness.plugins import TRANSPORTS, load_plugin, plugin_names, unfit_plugin

TIMEOUT_S: Final = 5.0
"""Longest wait for a server to accept, and to confirm something, seconds."""

_KINDS: Final = "a device name such as /dev/ttyACM0, socket://host:port, or rfc2217://host:port"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HANGS_UP_S: Final = 0.1
"""A server whose port is taken accepts, says so, and hangs up; by then it has."""
_MOST_WORDS: Final = 200
_KEEPALIVE: Final = (
    (socket.TCP_KEEPIDLE, 5),
    (socket.TCP_KEEPINTVL, 2),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 12_000),
)
"""A host that has gone without a word is noticed after some ten seconds."""


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """The address of a serial port that another host serves.

    Attributes:
        scheme: How it is served.
        host: Its host, in lower case; an IPv6 address without brackets.
        port: The TCP port.
        timeout_s: Longest wait for the server, seconds.
    """

    scheme: Literal["socket", "rfc2217"]
    host: str
    port: int
    timeout_s: float = TIMEOUT_S

    @property
    def place(self) -> str:
        """Host and port, as addresses have them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def plugin_scheme(address: str) -> str | None:
    """The scheme of an address that a plugin opens; None for all others. Nothing is imported."""
    scheme, sign, _ = address.partition("://")
    if not sign or not _URL.match(address) or scheme in ("socket", "rfc2217"):
        return None
    return scheme if scheme in plugin_names(TRANSPORTS) else None


def parse_address(address: str) -> NetworkPort | None:
    """Read an address; None for a device of this host.

    Raises:
        UsageError: It is neither.
    """
    if not _URL.match(address):
        return None
    try:
        url = urlsplit(address)
        host, port = url.hostname, url.port
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError as error:
        raise UsageError(f"{address!r} is no address of a port: {error}") from error
    if url.scheme not in ("socket", "rfc2217"):
        others = "".join(f", {name}://" for name in plugin_names(TRANSPORTS))
        raise UsageError(
            f"{address!r} is no address of a port: there is no {url.scheme}://",
            hint=f"give {_KINDS}{others}",
        )
    if not host or not port or url.path.strip("/") or url.fragment or "@" in url.netloc:
        raise UsageError(
            f"{address!r} is no address of a port",
            hint=f"write {url.scheme}://host:port, with brackets around an IPv6 address",
        )
    timeout_s = _timeout(address, options)
    return NetworkPort("socket" if url.scheme == "socket" else "rfc2217", host, port, timeout_s)


def port_identity(address: str) -> str:
    """The name of what is behind an address, the same for all its spellings.

    A device of this host is what its links lead to. A TCP port of a host is one port, however it is
    spoken to, and this host is one by all its names.

    Raises:
        UsageError: It is no address.
    """
    if plugin_scheme(address) is not None:
        return address
    network = parse_address(address)
    here = socket.gethostname()
    if network is None:
        place = os.path.realpath(address) if address.startswith("/") else address
        return f"{here}:{place}"
    loopback = network.host in ("localhost", "::1", here.lower()) or re.fullmatch(
        r"127(\.\d{1,3}){3}", network.host
    )
    return f"tcp:{here if loopback else network.host}:{network.port}"


def open_port(address: str, baud: int) -> Transport:
    """Open a port.

    Args:
        address: Its device name, or its address on another host (see above).
        baud: Bits per second; nothing to ``socket://``, whose server has a rate of its own.

    Raises:
        UsageError: This is no address.
        PortError: It cannot be reached, opened or set up.
    """
    if (scheme := plugin_scheme(address)) is not None:
        return _open_by_plugin(scheme, address, baud)
    network = parse_address(address)
    if network is None:
        return open_serial(address, baud)
    connection = _connect(address, network)
    telnet = network.scheme == "rfc2217"
    _refuse_hung_up(connection, address, telnet=telnet)
    stream = SocketTransport(connection)
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


def _timeout(address: str, options: dict[str, str]) -> float:
    text = options.pop("timeout", str(TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if options or not 0 < seconds < 3600:
        what = f"no option {next(iter(options))!r}" if options else f"no time of {text!r} s"
        raise UsageError(
            f"{address!r} is no address of a port: there is {what}",
            hint="what it may end in is ?timeout=SECONDS",
        )
    return seconds


def _connect(address: str, network: NetworkPort) -> socket.socket:
    try:
        connection = socket.create_connection((network.host, network.port), network.timeout_s)
    except socket.gaierror as error:
        raise PortError(
            f"cannot open the serial port {address}: there is no host {network.host!r}: "
            f"{error.strerror}",
            hint="is the name right, and does this host resolve it?",
        ) from error
    except OSError as error:
        late = isinstance(error, TimeoutError)
        why = f"no answer within {network.timeout_s:g} s" if late else error.strerror or error
        raise PortError(
            f"cannot open the serial port {address}: {why}",
            hint="is that host up, does ser2net or another server run there, and is this its TCP "
            "port?",
        ) from error
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection


def _refuse_hung_up(connection: socket.socket, address: str, *, telnet: bool) -> None:
    """Wait a moment, in which a server whose port is taken says so and hangs up.

    One that has nothing but commands of Telnet to say has not.

    Raises:
        PortError: It has.
    """
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | (select.POLLIN if telnet else 0))
    give_up_at = time.monotonic() + _HANGS_UP_S
    while events := poll.poll(max(0.0, give_up_at - time.monotonic()) * 1000):
        words = b""
        with suppress(OSError):
            words = connection.recv(_MOST_WORDS, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        commands = telnet and words.startswith(IAC)
        with suppress(TelnetError):
            words = data_of(words) if telnet else words
        if events[0][1] & ~select.POLLIN:
            connection.close()
            raise PortError(
                f"cannot open the serial port {address}: the server hung up at once{said(words)}",
                hint="has somebody else opened the port, and is the board plugged in there?",
            )
        if commands and not words:
            return
        poll.modify(connection, select.POLLRDHUP)
