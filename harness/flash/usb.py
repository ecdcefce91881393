"""USB ids of debug probes and bootloaders: VID:PID, or VID for all devices of a vendor."""

from __future__ import annotations

from typing import Final

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
