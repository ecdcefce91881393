"""The lab on the terminal: units, ports, lease holders, health and power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.formatting import ordinal
from harness.lab.power import Switched
from harness.records.lab import (
    Health,
    HolderDocument,
    PortDocument,
    StatusDocument,
    UnitDocument,
)
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
            holder.until_utc or (f"~{holder.expected_utc}" if holder.expected_utc else ""),
            holder.reason,
            _life(holder),
        )
        for holder in holders
    ]
    headers = ("what", "in use by", "host", "process", "since", "until", "reason", "process is")
    if rows:
        show_table(console, headers, rows)
    else:
        show_line(console, "nobody holds anything")


def show_status(console: Console, units: Sequence[StatusDocument]) -> None:
    """Print who holds units, and below each who waits for it."""
    if not units:
        show_line(console, "no units")
        return
    rows = []
    for unit in units:
        rows.append((unit.unit, "", _held(unit.holders) or "free", _hours(unit)))
        for waiter in unit.waiting:
            reason = f" ({waiter.reason})" if waiter.reason else ""
            text = f"{waiter.owner} on {waiter.host} since {waiter.since_utc}{reason}"
            first = "before nightly runs" if waiter.goes_first else ""
            rows.append(("", ordinal(waiter.place), text, first))
    show_table(console, ("unit", "in line", "in use by, waiting", "people first"), rows)


def _hours(unit: StatusDocument) -> str:
    return f"{unit.people_first}{' (now)' if unit.people_first_now else ''}"


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
    headers = ("device", "USB", "serial", "interface", "location", "unit", "in use by", "also")
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
    show_table(console, ("unit", "board", "port", "probe", "power", "in use by", "note"), rows)


def _held(holders: Sequence[HolderDocument]) -> str:
    """Return the holders as short text."""
    first = next(iter(holders), None)
    if first is None:
        return ""
    text = f"{first.owner or 'unknown'} on {first.host}" if first.owner else "unknown"
    if first.until_utc:
        text += f" until {first.until_utc}"
    else:
        text += f" since {first.since_utc}"
        text += f" until ~{first.expected_utc}" if first.expected_utc else ""
    return text + (f" ({first.reason})" if first.reason else "")


def _life(holder: HolderDocument) -> str:
    if holder.kind == "person":
        return "not needed"
    if holder.alive is not None:
        return "alive" if holder.alive else "gone"
    return "unknown" if holder.silent_s is None else f"silent for {holder.silent_s:.0f} s"


def show_health(console: Console, health: Health, *, verbosity: int = 0) -> None:
    """Print the health of a unit: all findings, or only the last line if ``verbosity`` is negative.

    Args:
        console: The console.
        health: The findings.
        verbosity: Negative for the last line alone.
    """
    if verbosity >= 0:
        rows = [
            (each.state if each.state == "ok" else each.state.upper(), each.part, each.message)
            for each in health.findings
        ]
        where = f" on {health.port}" if health.port else ""
        show_table(
            console, ("", "part", "found"), rows, title=f"{health.unit}, {health.board}{where}"
        )
        if health.rates:
            _show_rates(console, health)
        for step in health.healing:
            became = "well" if step.healthy else "still not well"
            show_line(console, f"{step.step}: {step.outcome}; it was {became} then")
    failure = health.failure
    if failure is None:
        show_line(console, f"{health.unit} is well", style="bold green")
        return
    owner = f" ({failure.owner})" if failure.owner else ""
    text = f"{health.unit} is NOT well{owner}: {failure.message}"
    show_line(console, text, indent=4, style="bold red")
    if failure.hint:
        show_line(console, f"  try: {failure.hint}", indent=4)


def _show_rates(console: Console, health: Health) -> None:
    headers = ["baud", "round trip [us]", "longest", "up [kB/s]", "down [kB/s]", "frames"]
    headers += ["loss [%]", "overruns", ""]
    rows = []
    for rate in health.rates:
        typical, longest = rate.round_trip_us or (None, None)
        rows.append(
            (
                str(rate.baud or "none"),
                _number(typical),
                _number(longest),
                _number(rate.up_bytes_s, 1000, 1),
                _number(rate.down_bytes_s, 1000, 1),
                str(rate.frames),
                f"{100 * rate.loss:.2f}",
                str(rate.overruns),
                rate.message,
            )
        )
    show_table(console, headers, rows, title="Line", numbers=range(8))
    if health.advised_baud is not None:
        show_line(console, f"best for units.toml: baud = {health.advised_baud}")


def _number(value: float | None, divisor: int = 1, decimals: int = 0) -> str:
    return "-" if value is None else f"{value / divisor:.{decimals}f}"


def show_switched(console: Console, switched: Switched, *, verbosity: int = 0) -> None:
    """Print what was done, unless ``verbosity`` is negative, and how it is now."""
    if verbosity >= 0:
        for step in switched.steps:
            show_line(console, step)
        if switched.went is False:
            show_line(console, "its port did not go away: it may have power from elsewhere")
    state = "off" if switched.action == "off" else "on"
    back = "" if switched.back_s is None else f"; its port was back after {switched.back_s:.1f} s"
    show_line(console, f"the power of {switched.unit} is {state}{back}")
