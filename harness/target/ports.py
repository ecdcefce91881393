"""The serial ports of this host, and the one that a unit is on.

The kernel says in ``/sys`` what is plugged in where, also when ``/dev`` has another name for it
than a minute ago. A product's name is never asked: two of a kind have the same, and a new one of
the same kind may have another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from harness.config.unit import UsbPort
from harness.errors import PortError
from harness.files import absolute

ROOT_VARIABLE: Final = "ETHARNESS_SYSROOT"
"""Environment variable: where ``sys`` and ``dev`` are looked for, for tests and containers."""

_NO_UART: Final = "0"
"""The type of a port that a driver keeps a place for, but behind which there is none."""


class SerialPort(msgspec.Struct, frozen=True):
    """A serial port that is there now.

    Attributes:
        device: Its name at the moment, such as ``/dev/ttyACM0``.
        vid: USB vendor; None if it is not on USB.
        pid: USB product number; likewise.
        serial: The USB device's serial number; "" if it has none.
        interface: Which interface of the device it is; None if it is not on USB.
        location: Where it is plugged in, hub by hub, such as ``1-4.3``; "" if not on USB.
        links: Other names in ``/dev/serial``, which stay.
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
        """What it is found by, in one line."""
        if self.vid is None or self.pid is None:
            return f"{self.device} (not on USB)"
        what = describe(UsbPort(self.vid, self.pid, self.serial, self.interface, self.location))
        return f"{self.device} ({what})"

    def matches(self, wanted: UsbPort) -> bool:
        """Whether it is all that is said of ``wanted``."""
        return (
            (self.vid, self.pid) == (wanted.vid, wanted.pid)
            and wanted.serial in ("", self.serial)
            and wanted.interface in (None, self.interface)
            and wanted.location in ("", self.location)
        )


def system_root() -> Path:
    """Where ``sys`` and ``dev`` are: ``$ETHARNESS_SYSROOT``, else the root of the file system."""
    return absolute(os.environ.get(ROOT_VARIABLE) or "/")


def list_ports(root: Path | None = None) -> list[SerialPort]:
    """Return every serial port that is there, by its device's name.

    Args:
        root: Where ``sys`` and ``dev`` are; None for ``system_root``.
    """
    root = root or system_root()
    links = dict(_links(root / "dev/serial"))
    ports = (_port(root, tty, links) for tty in sorted((root / "sys/class/tty").glob("*")))
    return [port for port in ports if port is not None]


def find_port(wanted: UsbPort, root: Path | None = None) -> str:
    """Return the device that ``wanted`` is at the moment.

    Raises:
        PortError: None is it, or several are; the message says what there is, and what tells it
            apart.
    """
    ports = list_ports(root)
    found = [port for port in ports if port.matches(wanted)]
    if len(found) == 1:
        return found[0].device
    if found:
        raise PortError(
            f"{len(found)} serial ports are {describe(wanted)}: {_listed(found)}",
            hint=f"say more of the port in units.toml: {_what_differs(found)}",
        )
    there = _listed([port for port in ports if port.vid is not None])
    raise PortError(
        f"no serial port is {describe(wanted)}; on USB there is {there or 'none'}",
        hint="is it plugged in, and has it power? `etharness lab ports` lists what there is",
    )


def device_of(port: UsbPort | str) -> str:
    """Return the device or the address of a port, looking for what is on USB.

    Raises:
        PortError: It is not there, or cannot be told apart from another.
    """
    return port if isinstance(port, str) else find_port(port)


def describe(port: UsbPort | str) -> str:
    """What a port is found by, in one line; a name or an address is itself."""
    if isinstance(port, str):
        return port
    text = f"{port.vid:04x}:{port.pid:04x}"
    if port.serial:
        # Escaped, as a device may say anything; without quotes where it is what one expects.
        text += f":{port.serial if _is_plain(port.serial) else repr(port.serial)}"
    text += f" interface {port.interface}" if port.interface is not None else ""
    return text + (f" at {port.location}" if port.location else "")


def _is_plain(serial: str) -> bool:
    return serial.isascii() and serial.isprintable() and " " not in serial


def _listed(ports: list[SerialPort]) -> str:
    return ", ".join(port.described for port in ports)


def _what_differs(ports: list[SerialPort]) -> str:
    """The keys of a unit's port that tell these apart."""
    keys = ("serial", "interface", "location")
    telling = [key for key in keys if len({getattr(port, key) for port in ports}) == len(ports)]
    telling = telling or [key for key in keys if len({getattr(port, key) for port in ports}) > 1]
    return " or ".join(telling) or "nothing tells them apart"


def _port(root: Path, tty: Path, links: dict[str, list[str]]) -> SerialPort | None:
    """The port of an entry of ``/sys/class/tty``; None for consoles and ports without hardware."""
    device = root / "dev" / tty.name
    behind = tty / "device"
    if not behind.exists() or _read(tty / "type") == _NO_UART:
        return None
    names = tuple(sorted(links.get(tty.name, ())))
    interface = None
    for place in (behind.resolve(), *behind.resolve().parents):
        if (place / "bInterfaceNumber").is_file():
            interface = _hexadecimal(place / "bInterfaceNumber")
        if (place / "idVendor").is_file():
            return SerialPort(
                str(device),
                _hexadecimal(place / "idVendor"),
                _hexadecimal(place / "idProduct"),
                _read(place / "serial"),
                interface,
                place.name,
                names,
            )
    return SerialPort(str(device), links=names)


def _links(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Names of devices, and the links in ``/dev/serial`` that lead to each."""
    found: dict[str, list[str]] = {}
    for link in directory.glob("by-*/*"):
        if link.is_symlink():
            found.setdefault(link.readlink().name, []).append(str(link))
    yield from found.items()


def _hexadecimal(file: Path) -> int | None:
    try:
        return int(_read(file), 16)
    except ValueError:
        return None


def _read(file: Path) -> str:
    """A line of ``/sys``; "" if it is not there, as a device may go while it is looked at."""
    try:
        return file.read_bytes().decode("utf-8", errors="backslashreplace").strip()
    except OSError:
        return ""
