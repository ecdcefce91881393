"""Boards of RTL for tests and benchmarks: their cores, and the same image on QEMU."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from harness import RtlCore
from tests.conftest import ROOT

CORES: tuple[RtlCore, ...] = get_args(RtlCore)
QEMU = (
    'target = { kind = "qemu", machine = "virt", system = "qemu-system-riscv32", '
    'arguments = ["-icount", "shift=0", "-bios", "none"] }'
)
"""This machine has the devices and memory of the testbenches of CV32E40P and Ibex: it runs their
images, and counts instructions."""


def board_file(directory: Path, name: str, target: str | None) -> Path:
    """Write a copy of a board file, without a budget, and with another target if given."""
    lines = (ROOT / f"boards/{name}.toml").read_text().splitlines()
    replaced = ("budget =", "target =") if target else "budget ="
    path = directory / f"{name}.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith(replaced)))
    with path.open("a") as file:
        file.write(f"\n{target or ''}\n")
    return path
