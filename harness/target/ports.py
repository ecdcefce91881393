"""Lists the serial ports of this host, and finds the port of a unit.

Ports are read from ``/sys``, which has the USB location and ids of each port; names in ``/dev``
change. On Windows and macOS, pyserial lists them. Product names are ignored: two adapters of a kind
share one, and a new revision may have another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.config.unit import UsbPort
from harness.errors import PortError
from harness.files import absolute

ROOT_VARIABLE: Final = "ETHARNESS_SYSROOT"
"""Environment variable: directory that contains ``sys`` and ``dev``, for tests and containers."""

_NO_UART: Final = "0"
"""Type of a port that a driver has reserved without hardware."""


class SerialPort(msgspec.Struct, frozen=True):
    """A serial port that is present now.

    Attributes:
        device: Its current device name, such as ``/dev/ttyACM0``.
        vid: USB vendor id; None if it is not on USB.
        pid: USB product id; None if it is not on USB.
        serial: Serial number of the USB device; "" if it has none.
        interface: USB interface number; None if it is not on USB.
        location: USB location, hub by hub, such as ``1-4.3``; "" if it is not on USB.
        links: Its stable names in ``/dev/serial``.
    """

    device: str
    vid: int | None = None
    pid: int | None = None
    serial: str = ""
    interface: int | None = None
    location: str = ""
    links: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """Device name and USB ids in one line."""
        if self.vid is None or self.pid is None:
            return f"{self.device} (not on USB)"
        what = port_text(UsbPort(self.vid, self.pid, self.serial, self.interface, self.location))
        return f"{self.device} ({what})"

    def matches(self, wanted: UsbPort) -> bool:
        """Whether every given field of ``wanted`` matches."""
        return (
            (self.vid, self.pid) == (wanted.vid, wanted.pid)
            and wanted.serial in ("", self.serial)
            and wanted.interface in (None, self.interface)
            and wanted.location in ("", self.location)
        )


def system_root() -> Path:
    """Return the directory with ``sys`` and ``dev``: ``$ETHARNESS_SYSROOT``, by default ``/``."""
    return absolute(os.environ.get(ROOT_VARIABLE) or "/")


def list_ports() -> list[SerialPort]:
    """Return all serial ports, sorted by device name."""
    root = system_root()
    if not os.environ.get(ROOT_VARIABLE) and not (root / "sys/class/tty").is_dir():
        return _list_by_pyserial()
    links = dict(_links(root / "dev/serial"))
    ports = (_port(root, tty, links) for tty in sorted((root / "sys/class/tty").glob("*")))
    return [port for port in ports if port is not None]


def find_port(wanted: UsbPort) -> str:
    """Return the current device name of ``wanted``.

    Raises:
        PortError: No port matches, or several do; the message lists the candidates.
    """
    ports = list_ports()
    matching = [port for port in ports if port.matches(wanted)]
    if len(matching) == 1:
        return matching[0].device
    if matching:
        raise PortError(
            f"{len(matching)} serial ports match {port_text(wanted)}: {_list(matching)}",
            hint=f"add to the port in units.toml: {_distinguishing_keys(matching)}",
        )
    usb = _list([port for port in ports if port.vid is not None])
    raise PortError(
        f"serial port {port_text(wanted)} not found; ports on USB: {usb or 'none'}",
        hint="check that it is plugged in and has power; `etharness lab ports` lists all ports",
    )


def device_of(port: UsbPort | str) -> str:
    """Return the device name or address of a port; a USB port is searched.

    Raises:
        PortError: The USB port is not present, or several ports match.
    """
    return port if isinstance(port, str) else find_port(port)


def port_text(port: UsbPort | str) -> str:
    """Return a port in one line: USB ids, serial number, interface and location; or its name."""
    if isinstance(port, str):
        return port
    text = port.ids
    if port.serial:
        # A device can report any bytes, so unusual serial numbers are quoted and escaped.
        plain = port.serial.isascii() and port.serial.isprintable() and " " not in port.serial
        text += f":{port.serial if plain else repr(port.serial)}"
    text += f" interface {port.interface}" if port.interface is not None else ""
    return text + (f" at {port.location}" if port.location else "")


def _list(ports: list[SerialPort]) -> str:
    return ", ".join(port.described for port in ports)


def _distinguishing_keys(ports: list[SerialPort]) -> str:
    """Return the keys of a unit's port whose values differ between these ports."""
    keys = ("serial", "interface", "location")
    differing = [key for key in keys if len({getattr(port, key) for port in ports}) == len(ports)]
    differing = differing or [key for key in keys if len({getattr(p, key) for p in ports}) > 1]
    return " or ".join(differing) or "(they do not differ)"


def _port(root: Path, tty: Path, links: dict[str, list[str]]) -> SerialPort | None:
    """Return the port of an entry of ``/sys/class/tty``; None for consoles and unused ports."""
    device = root / "dev" / tty.name
    behind = tty / "device"
    if not behind.exists() or _read(tty / "type") == _NO_UART:
        return None
    names = tuple(sorted(links.get(tty.name, ())))
    interface = None
    for folder in (behind.resolve(), *behind.resolve().parents):
        if (folder / "bInterfaceNumber").is_file():
            interface = _hexadecimal(folder / "bInterfaceNumber")
        if (folder / "idVendor").is_file():
            return SerialPort(
                str(device),
                _hexadecimal(folder / "idVendor"),
                _hexadecimal(folder / "idProduct"),
                _read(folder / "serial"),
                interface,
                folder.name,
                names,
            )
    return SerialPort(str(device), links=names)


def _list_by_pyserial() -> list[SerialPort]:
    """Return the serial ports of a system without ``/sys``."""
    from serial.tools.list_ports import comports

    return sorted((_from_pyserial(found) for found in comports()), key=lambda port: port.device)


def _from_pyserial(found: Any) -> SerialPort:
    # On Windows, a port of a composite device has a location such as 1-4.3:x.2: interface 2.
    location, _, interface = (found.location or "").partition(":")
    number = interface.rpartition(".")[2]
    return SerialPort(
        found.device,
        found.vid,
        found.pid,
        found.serial_number or "",
        interface=int(number) if number.isdigit() else None,
        location=location,
    )


def _links(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield device names with their links in ``/dev/serial``."""
    links: dict[str, list[str]] = {}
    for link in directory.glob("by-*/*"):
        if link.is_symlink():
            links.setdefault(link.readlink().name, []).append(str(link))
    yield from links.items()


def _hexadecimal(file: Path) -> int | None:
    try:
        return int(_read(file), 16)
    except ValueError:
        return None


def _read(file: Path) -> str:
    """Read a line from ``/sys``; "" if it does not exist: a device may vanish at any time."""
    try:
        return file.read_bytes().decode("utf-8", errors="backslashreplace").strip()
    except OSError:
        return ""
