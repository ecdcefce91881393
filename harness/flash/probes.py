"""Lists debug probes and bootloaders on USB, and selects one.

Probes are selected by ``VID:PID:Serial``. Product names cannot tell two probes of a kind apart. The
list comes from Linux's sysfs; no device is opened. USB ids of kinds of devices are VID:PID, or VID
for all devices of a vendor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from harness.config.unit import UsbPort
from harness.errors import InfrastructureError, UsageError
from harness.target.ports import system_root

ST_LINK: Final = tuple(
    f"0483:{product}"
    for product in ("3744", "3748", "374a", "374b", "374d", "374e", "374f", "3752", "3753", "3754")
)
"""V1, V2, V2-1, V3 (their PIDs in ST's TN1235)."""

J_LINK: Final = ("1366",)
"""SEGGER, also on Nordic's boards."""

CMSIS_DAP: Final = (
    "0d28:0204",  # Arm DAPLink, micro:bit
    "2e8a:000c",  # Raspberry Pi Debug Probe
    "c251:f001",  # Keil ULINK2
    "c251:2750",  # Keil ULINKplus
    "03eb:2111",  # Microchip EDBG
    "03eb:2141",  # Microchip Atmel-ICE
    "03eb:2175",  # Microchip nEDBG
    "1fc9:0143",  # NXP MCU-Link
    "1fc9:0090",  # NXP LPC-Link2
    "0451:bef3",  # TI XDS110
)
FTDI: Final = ("0403:6010", "0403:6011", "0403:6014")
ESP_JTAG: Final = ("303a:1001",)
"""USB-Serial-JTAG built into Espressif's chips."""

ST_DFU: Final = ("0483:df11",)
"""The ROM bootloader of STM32."""

RP_BOOT: Final = ("2e8a:0003", "2e8a:000f")
"""The bootloaders of RP2040 and RP2350."""

_SELECTOR: Final = re.compile(r"([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,4})(?::(.*))?", re.DOTALL)


def connected(root: Path | None = None) -> list[UsbPort]:
    """Return the USB devices of this host, sorted; empty without sysfs.

    Args:
        root: Directory with ``sys``; None for ``system_root``.
    """
    probes = []
    for folder in ((root or system_root()) / "sys/bus/usb/devices").glob("*"):
        texts = [_read(folder / name) for name in ("idVendor", "idProduct", "serial")]
        if texts[0] and texts[1]:
            ids = int(texts[0], 16), int(texts[1], 16)
            probes.append(UsbPort(*ids, texts[2], location=folder.name))
    return sorted(probes)


def choose_probe(
    selector: str, kinds: Collection[str], devices: Sequence[UsbPort], user: str
) -> UsbPort | None:
    """Select one connected device.

    Args:
        selector: VID:PID:Serial or VID:PID; "" for any device of ``kinds``.
        kinds: USB ids that the tool supports, VID:PID or VID; a selector may name others.
        devices: The connected devices.
        user: The board that the probe is for, in messages.

    Returns:
        The device; None without a selector if no known kind is connected: the tool may support
        more kinds.

    Raises:
        UsageError: The selector is invalid, or several devices match; the hint lists them.
        InfrastructureError: The selected device is not connected.
    """
    if not selector:
        matching = [device for device in devices if device.is_of(kinds)]
        if len(matching) > 1:
            raise UsageError(
                f"{len(matching)} probes are connected, and none is selected for {user}",
                hint=f"select one with --probe, or `probe` in units.toml: {_list(matching)}",
            )
        return matching[0] if matching else None
    wanted = parse_selector(selector)
    matching = [device for device in devices if _matches(device, wanted)]
    if len(matching) > 1:
        raise UsageError(
            f"{len(matching)} connected devices match {selector} for {user}",
            hint=f"add the serial number: {_list(matching)}",
        )
    if matching:
        return matching[0]
    if devices:
        probes = [device for device in devices if device.is_of(kinds)] or devices
        raise InfrastructureError(
            f"the probe {selector} of {user} is not connected",
            hint=f"plug it in; connected devices: {_list(probes)}",
        )
    # Without sysfs the tool itself will report a missing probe.
    return wanted


def parse_selector(text: str) -> UsbPort:
    """Parse VID:PID:Serial or VID:PID.

    Raises:
        UsageError: The text is neither.
    """
    match = _SELECTOR.fullmatch(text)
    if match is None:
        raise UsageError(
            f"invalid probe selector {text!r}",
            hint="use VID:PID:Serial, hexadecimal, such as 0483:374b:066DFF485550755187121723",
        )
    vid, pid, serial = match.groups()
    return UsbPort(int(vid, 16), int(pid, 16), serial or "")


def _matches(device: UsbPort, wanted: UsbPort) -> bool:
    # Tools disagree about the case of serial numbers, which are mostly hexadecimal.
    same = not wanted.serial or device.serial.casefold() == wanted.serial.casefold()
    return (device.vid, device.pid) == (wanted.vid, wanted.pid) and same


def _list(devices: Sequence[UsbPort]) -> str:
    return ", ".join(f"{device.selector} (USB {device.location})" for device in devices)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
