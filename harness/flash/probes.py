"""Debug probes and bootloaders on USB: which are connected, and which one is meant.

One is chosen by ``VID:PID:Serial``, never by its product's name, which says nothing about which
board it is on. What is connected, Linux says in sysfs; nothing is opened for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from harness.errors import InfrastructureError, UsageError
from harness.target.ports import system_root

_SELECTOR: Final = re.compile(r"([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,4})(?::(.*))?", re.DOTALL)


class Probe(NamedTuple):
    """A USB device: its ids, its serial number ("" if it has none), where it is plugged in ("" if
    that is not known, as of one that is only asked for).
    """

    vid: int
    pid: int
    serial: str
    location: str = ""

    @property
    def ids(self) -> str:
        """VID:PID, hexadecimal."""
        return f"{self.vid:04x}:{self.pid:04x}"

    @property
    def selector(self) -> str:
        """What it is chosen by."""
        return f"{self.ids}:{self.serial}" if self.serial else self.ids

    def is_of(self, kinds: Collection[str]) -> bool:
        """Whether it has one of these USB ids, VID:PID or VID."""
        return self.ids in kinds or f"{self.vid:04x}" in kinds


def connected(root: Path | None = None) -> list[Probe]:
    """USB devices of this host, sorted; none where there is no sysfs.

    Args:
        root: Where ``sys`` is; None for ``system_root``.
    """
    found = []
    for folder in ((root or system_root()) / "sys/bus/usb/devices").glob("*"):
        texts = [_read(folder / name) for name in ("idVendor", "idProduct", "serial")]
        if texts[0] and texts[1]:
            found.append(Probe(int(texts[0], 16), int(texts[1], 16), texts[2], folder.name))
    return sorted(found)


def choose_probe(
    selector: str, kinds: Collection[str], devices: Sequence[Probe], what: str
) -> Probe | None:
    """The one device that is meant.

    Args:
        selector: VID:PID:Serial, or its beginning VID:PID; "" if none was given.
        kinds: USB ids of what the tool can use, VID:PID or VID; what is given by a selector may be
            any other.
        devices: What is connected.
        what: Whose it is to be, for messages.

    Returns:
        It; None if no selector was given and none that is known is connected: the tool may know
        more kinds.

    Raises:
        UsageError: The selector is none, or several devices fit; the hint lists them.
        InfrastructureError: What the selector says is not connected.
    """
    if not selector:
        fitting = [device for device in devices if device.is_of(kinds)]
        if len(fitting) > 1:
            raise UsageError(
                f"{len(fitting)} probes are connected, and nothing says which one is on {what}",
                hint=f"say which with --probe, or with `probe` in units.toml: {_list(fitting)}",
            )
        return fitting[0] if fitting else None
    wanted = parse_selector(selector)
    fitting = [device for device in devices if _fits(device, wanted)]
    if len(fitting) > 1:
        raise UsageError(
            f"{len(fitting)} connected devices are {selector}, and only one is on {what}",
            hint=f"say the serial number, too: {_list(fitting)}",
        )
    if fitting:
        return fitting[0]
    if devices:
        probes = [device for device in devices if device.is_of(kinds)] or devices
        raise InfrastructureError(
            f"the probe {selector} of {what} is not connected",
            hint=f"plug it in; connected are: {_list(probes)}",
        )
    # Where sysfs cannot be read the tool will say whether it is there.
    return wanted


def parse_selector(text: str) -> Probe:
    """Read VID:PID:Serial or VID:PID.

    Raises:
        UsageError: It is neither.
    """
    match = _SELECTOR.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} selects no probe",
            hint="write VID:PID:Serial, hexadecimal, such as 0483:374b:066DFF485550755187121723",
        )
    vid, pid, serial = match.groups()
    return Probe(int(vid, 16), int(pid, 16), serial or "")


def _fits(device: Probe, wanted: Probe) -> bool:
    # Tools disagree about the case of serial numbers, which are mostly hexadecimal.
    same = not wanted.serial or device.serial.casefold() == wanted.serial.casefold()
    return (device.vid, device.pid) == (wanted.vid, wanted.pid) and same


def _list(devices: Sequence[Probe]) -> str:
    return ", ".join(f"{device.selector} (USB {device.location})" for device in devices)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
