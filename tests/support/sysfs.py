"""A host's ``/sys`` and ``/dev`` with serial ports that are plugged in and pulled out."""

from __future__ import annotations

from pathlib import Path


class FakeHost:
    """Directories as the kernel and udev make them.

    Attributes:
        root: Where ``sys`` and ``dev`` are.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tty = root / "sys/class/tty"
        self.by_id = root / "dev/serial/by-id"
        for directory in (self.tty, self.by_id):
            directory.mkdir(parents=True)
        (self.tty / "console").mkdir()
        (self.tty / "ptmx").mkdir()

    def plug(
        self,
        name: str,
        *,
        vid: int = 0x0483,
        pid: int = 0x374E,
        serial: str | bytes = "0024",
        interface: int = 2,
        location: str = "1-4.3",
        link: str = "",
        leads_to: str = "",
    ) -> str:
        """Plug in a USB port; return its device, which is a link to another if that is given."""
        usb = self.root / f"sys/devices/pci0000:00/usb1/1-4/{location}"
        port = usb / f"{location}:1.{interface}"
        behind = port / name if name.startswith("ttyUSB") else port  # as its drivers make it
        entry = behind / "tty" / name
        entry.mkdir(parents=True)
        (usb / "idVendor").write_text(f"{vid:04x}\n")
        (usb / "idProduct").write_text(f"{pid:04x}\n")
        (usb / "bNumInterfaces").write_text(" 3\n")
        if serial:
            raw = serial.encode() if isinstance(serial, str) else serial
            (usb / "serial").write_bytes(raw + b"\n")
        (port / "bInterfaceNumber").write_text(f"{interface:02x}\n")
        return self._enter(name, entry, behind, link, leads_to)

    def build_in(self, name: str, type_: int = 4) -> str:
        """Have a port that is not on USB; ``type_`` 0 is only a place for one."""
        port = self.root / f"sys/devices/pnp0/00:05/{name}"
        entry = port / "tty" / name
        entry.mkdir(parents=True)
        (entry / "type").write_text(f"{type_}\n")
        return self._enter(name, entry, port, "", "")

    def unplug(self, name: str) -> None:
        """Take it away, with every name it has."""
        (self.tty / name).unlink()
        (self.root / "dev" / name).unlink()
        for link in self.by_id.iterdir():
            if link.readlink().name == name:
                link.unlink()

    def _enter(self, name: str, entry: Path, behind: Path, link: str, leads_to: str) -> str:
        (entry / "device").unlink(missing_ok=True)
        (entry / "device").symlink_to(behind)
        (self.tty / name).symlink_to(entry)
        device = self.root / "dev" / name
        if leads_to:
            device.symlink_to(leads_to)
        else:
            device.touch()
        if link:
            (self.by_id / link).symlink_to(f"../../{name}")
        return str(device)
