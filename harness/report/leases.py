"""Lease holders, serial ports and units on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.records.lease import HolderDocument, PortDocument, UnitDocument
from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console


def show_holders(console: Console, holders: Sequence[HolderDocument]) -> None:
    """Print the lease holders."""
    rows = [
        (
            holder.what if holder.unit is None else f"{holder.unit}: {holder.what}",
            "  " * holder.level + (holder.owner or "unknown"),
            holder.host,
            "" if holder.pid is None else f"{holder.pid} {holder.command}",
            holder.since_utc,
            holder.until_utc or "",
            holder.reason,
            _life(holder),
        )
        for holder in holders
    ]
    headers = ("what", "held by", "host", "process", "since", "until", "reason", "process is")
    if rows:
        show_table(console, headers, rows)
    else:
        show_line(console, "nobody holds anything")


def show_ports(console: Console, ports: Sequence[PortDocument]) -> None:
    """Print the serial ports of this host."""
    if not ports:
        show_line(console, "no serial ports")
        return
    rows = [
        (
            port.device,
            "" if port.vid is None or port.pid is None else f"{port.vid:04x}:{port.pid:04x}",
            port.serial,
            "" if port.interface is None else str(port.interface),
            port.location,
            port.unit or "",
            _held(port.holders),
            ", ".join(port.links),
        )
        for port in ports
    ]
    headers = ("device", "USB", "serial", "interface", "location", "unit", "held by", "also")
    show_table(console, headers, rows)


def show_units(console: Console, units: Sequence[UnitDocument]) -> None:
    """Print the lab's units."""
    if not units:
        show_line(console, "no units")
        return
    rows = [
        (
            unit.id,
            unit.board,
            unit.device or unit.problem,
            unit.probe,
            unit.power,
            _held(unit.holders) or ("free" if unit.lease == "local" else unit.lease),
            unit.note,
        )
        for unit in units
    ]
    show_table(console, ("unit", "board", "port", "probe", "power", "held by", "note"), rows)


def _held(holders: Sequence[HolderDocument]) -> str:
    """Return the holders as short text."""
    first = next(iter(holders), None)
    if first is None:
        return ""
    text = f"{first.owner or 'unknown'} on {first.host}" if first.owner else "unknown"
    text += f" until {first.until_utc}" if first.until_utc else f" since {first.since_utc}"
    return text + (f" ({first.reason})" if first.reason else "")


def _life(holder: HolderDocument) -> str:
    if holder.kind == "person":
        return "not needed"
    if holder.alive is not None:
        return "alive" if holder.alive else "gone"
    return "unknown" if holder.silent_s is None else f"silent for {holder.silent_s:.0f} s"
