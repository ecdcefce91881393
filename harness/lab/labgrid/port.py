"""The serial port at a place: the address by which our own reader opens it."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

from harness.errors import PortError, UsageError
from harness.lab.labgrid.output import Resource
from harness.unit import UsbPort

_KIND: Final = "NetworkSerialPort"
_START_S: Final = 3.0
"""How long a ser2net that an exporter has just started may take to listen."""


def port_at(resources: Sequence[Resource], place: str, port: UsbPort | str | None) -> str:
    """The address of the serial port of a place that is ours.

    Args:
        resources: What is connected there.
        place: Its name.
        port: What the unit says: the name of one of several, an address to be used as it is, or
            None for the only one.

    Raises:
        UsageError: There are several, or none of that name, or it cannot be reached from here.
        PortError: There is none, or nobody listens at it.
    """
    if isinstance(port, str) and ("/" in port or "://" in port):
        return port
    if isinstance(port, UsbPort):
        raise UsageError(
            f"place {place} is labgrid's, which knows its serial port",
            hint="leave `port` out of the unit, or name one of several there",
        )
    found = [item for item in resources if item.kind == _KIND and port in (None, item.name)]
    names = ", ".join(f"{item.name} ({item.kind})" for item in resources) or "nothing"
    if not found:
        called = "" if port is None else f" called {port!r}"
        raise PortError(
            f"place {place} has no serial port{called}; it has {names}",
            hint="`labgrid-client -p PLACE add-match EXPORTER/GROUP/NetworkSerialPort` adds one",
        )
    if len(found) > 1:
        raise UsageError(
            f"place {place} has several serial ports: {names}",
            hint="name one of them as `port` of the unit",
        )
    return _address(found[0], place)


def _address(resource: Resource, place: str) -> str:
    params, extra = resource.params, resource.extra
    if extra.get("proxy_required"):
        raise UsageError(
            f"the serial port of place {place} is only to be reached through "
            f"{extra.get('proxy')} by ssh",
            hint="start its labgrid-exporter without --isolated",
        )
    host, port = params.get("host"), params.get("port")
    if not resource.available or not host or not port:
        raise PortError(
            f"the serial port of place {place} is not there, says its exporter",
            hint="is the board plugged in?",
        )
    if extra.get("path"):
        _wait_for_listener(place, str(host), int(port))
    # Where nothing is said labgrid means RFC 2217, which it tells ser2net, too.
    scheme = "socket" if params.get("protocol") == "raw" else "rfc2217"
    return f"{scheme}://{host}:{port}"


def _wait_for_listener(place: str, host: str, port: int) -> None:
    """Wait until the exporter's ser2net listens: it does not look, and it says so all the same."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection((host, port), timeout=_START_S).close()
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            raise PortError(
                f"nobody listens at the serial port of place {place}, {host}:{port}, though its "
                f"exporter says that it is available: {error.strerror or error}",
                hint="its ser2net has ended or cannot open the board's port; acquiring the place "
                "again starts another, and the exporter's log says why it ended",
            ) from error
        return
