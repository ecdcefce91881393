"""Lists the lab: serial ports, units with their current ports, lease holders, and who waits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import asdict

from harness.config.unit import CommandPower, Power, RelayPower, Unit, UsbHubPower
from harness.errors import HarnessError, PortError
from harness.extensions.lab.holding import LeaseQueue, open_registry
from harness.extensions.lab.labgrid import labgrid_places, utc
from harness.extensions.lab.leases import Holder, LeaseRegistry, is_alive, utc_text
from harness.formatting import ordinal
from harness.report.terminal import show_line, show_table
from harness.target.ports import SerialPort, device_of, list_ports, port_text
from harness.target.selection import LockKey, lock_keys_of, port_key

if TYPE_CHECKING:
    from rich.console import Console

_log = logging.getLogger(__name__)


class HolderDocument(msgspec.Struct, frozen=True):
    """A lease holder, as printed by ``etharness lab who --json``.

    ``unit`` is the unit's id, null if the resource belongs to no unit. A ``process`` holds it until
    it ends, a ``person`` until ``until_utc`` or a release. ``level`` is the lock level: 0 for the
    first holder, 1 for a process that it started, and so on. ``alive``: the process still runs;
    null for persons and other hosts. ``silent_s`` is the time since its last heartbeat, seconds.
    ``expected_utc`` is when a process expects to be done, null if it does not know. Fields of a
    damaged record are "" or null.
    """

    what: str
    unit: str | None
    kind: Literal["process", "person"]
    level: int
    owner: str
    host: str
    pid: int | None
    command: str
    since_utc: str
    until_utc: str | None
    reason: str
    alive: bool | None
    silent_s: float | None
    expected_utc: str | None = None


class WaiterDocument(msgspec.Struct, frozen=True):
    """A process that waits for a unit; ``place`` is its place in line, from 1."""

    place: int
    owner: str
    host: str
    pid: int
    command: str
    since_utc: str
    reason: str


class StatusDocument(msgspec.Struct, frozen=True):
    """Who holds a unit and who waits for it, as printed by ``etharness lab status --json``."""

    unit: str
    board: str
    holders: list[HolderDocument]
    waiting: list[WaiterDocument]


class PortDocument(SerialPort, frozen=True, kw_only=True):
    """A serial port of this host, as printed by ``etharness lab ports --json``.

    USB ids are null if it is not on USB. ``unit`` is the id of the unit on this port.
    """

    unit: str | None
    holders: list[HolderDocument]


class UnitDocument(msgspec.Struct, frozen=True):
    """A unit of the lab, as printed by ``etharness lab units --json``.

    ``port`` is the port in ``units.toml``, ``device`` its current device name; ``problem`` is the
    reason if it was not found. ``meter`` is the address of its current meter, "" without one.
    """

    id: str
    board: str
    port: str | None
    device: str | None
    problem: str
    probe: str
    power: str
    lease: str
    note: str
    holders: list[HolderDocument]
    meter: str = ""


HOLDERS = list[HolderDocument]


PORTS = list[PortDocument]


STATUS = list[StatusDocument]


UNITS = list[UnitDocument]
"""What the commands print with ``--json``; entry points of ``etharness.documents`` name them."""


def ports(units: Sequence[Unit]) -> list[PortDocument]:
    """Return every serial port of this host, with its unit and its lease holders."""
    registry = open_registry()
    names = _units_by_key(units)
    found = []
    for port in list_ports():
        key = port_key(port.device)
        unit = names.get(key)
        holders = list(_holders(registry, key, unit))
        found.append(PortDocument(**asdict(port), unit=unit, holders=holders))
    return found


def units(lab: Sequence[Unit]) -> list[UnitDocument]:
    """Return every unit, with its current port and its lease holders."""
    registry = open_registry()
    found = []
    for unit in lab:
        if unit.lease == "labgrid":
            port, device, holders, problem = _of_labgrid(unit)
        else:
            port = None if unit.port is None else port_text(unit.port)
            device, problem = _current_port(unit)
            holders = _all_holders(registry, unit)
        found.append(
            UnitDocument(
                id=unit.id,
                board=unit.board,
                port=port,
                device=device,
                problem=problem,
                probe=unit.probe,
                power=_power(unit.power),
                lease=unit.lease,
                note=unit.note,
                holders=holders,
                meter=unit.energy.meter if unit.energy else "",
            )
        )
    return found


def who(lab: Sequence[Unit], asked: Sequence[Unit] | None = None) -> list[HolderDocument]:
    """Return the lease holders of ``asked``; of all ports and units if None."""
    registry = open_registry()
    if asked is not None:
        return [holder for unit in asked for holder in _all_holders(registry, unit)]
    names = _units_by_key(lab)
    local = [
        holder for key in registry.all_keys() for holder in _holders(registry, key, names.get(key))
    ]
    return [*local, *_labgrid_holders(lab)]


def status(lab: Sequence[Unit]) -> list[StatusDocument]:
    """Return who holds each unit, and who waits for it, in order."""
    registry = open_registry()
    queue = LeaseQueue(registry)
    return [
        StatusDocument(
            unit=unit.id,
            board=unit.board,
            holders=_all_holders(registry, unit),
            waiting=_waiting(queue, unit),
        )
        for unit in lab
    ]


def _waiting(queue: LeaseQueue, unit: Unit) -> list[WaiterDocument]:
    if unit.lease == "labgrid":
        return []  # the coordinator knows
    tickets = queue.waiting({key.stem for key in lock_keys_of(unit)})
    return [
        WaiterDocument(
            place=place,
            owner=record.owner,
            host=record.host,
            pid=record.pid,
            command=record.command,
            since_utc=utc_text(record.since),
            reason=record.reason,
        )
        for place, (_, record) in enumerate(tickets, start=1)
    ]


def _labgrid_holders(lab: Sequence[Unit]) -> Iterator[HolderDocument]:
    """Yield the lease holders of labgrid units; log a coordinator that does not answer."""
    for unit in lab:
        if unit.lease == "labgrid":
            try:
                yield from labgrid_holders(unit)
            except HarnessError as error:
                _log.warning("unit %s: %s", unit.id, error.message)


def _of_labgrid(unit: Unit) -> tuple[str | None, None, list[HolderDocument], str]:
    """Return the place, the device, the holders and the problem of a unit of labgrid."""
    holders, problem = list[HolderDocument](), ""
    tags = ",".join(f"{key}={value}" for key, value in unit.match.items())
    try:
        holders = [*labgrid_holders(unit)]
    except HarnessError as error:
        problem = error.message
    place = f"labgrid: {tags or unit.place or unit.id}"
    return place, None, holders, problem or "port is known once the unit is leased"


def _units_by_key(units: Sequence[Unit]) -> dict[LockKey, str]:
    return {key: unit.id for unit in units for key in lock_keys_of(unit)}


def _all_holders(registry: LeaseRegistry, unit: Unit) -> list[HolderDocument]:
    """Return the holders of a unit's name and of its port; a holder of both is listed once."""
    if unit.lease == "labgrid":
        return [*labgrid_holders(unit)]
    found: dict[object, HolderDocument] = {}
    for lock_key in lock_keys_of(unit):
        for holder in _holders(registry, lock_key, unit.id):
            key = (holder.kind, holder.owner, holder.host, holder.pid)
            found.setdefault(key, holder)
    return list(found.values())


def _holders(registry: LeaseRegistry, key: LockKey, unit: str | None) -> Iterator[HolderDocument]:
    return (_document(registry, key, unit, holder) for holder in registry.holders(key))


def _document(
    registry: LeaseRegistry, key: LockKey, unit: str | None, holder: Holder
) -> HolderDocument:
    kind: Literal["process", "person"] = "person" if holder.level is None else "process"
    record, known = holder.record, partial(_holder, key.name, unit, kind, holder.level or 0)
    if record is None:
        return known()
    silent = record.beat.seconds_until(registry.clock.now())
    process = record.kind == "process"
    return known(
        owner=record.owner,
        host=record.host,
        pid=record.pid if process else None,
        command=record.command if process else "",
        since_utc=utc_text(record.since),
        until_utc=None if record.until is None else utc_text(record.until),
        reason=record.reason,
        alive=is_alive(record.host, record.pid, record.started) if process else None,
        silent_s=round(max(0.0, silent), 1) if process else None,
        expected_utc=None if record.expected is None else utc_text(record.expected),
    )


def _holder(
    what: str,
    unit: str | None,
    kind: Literal["process", "person"],
    level: int,
    **known: Any,
) -> HolderDocument:
    """Return a holder; what is not known of it is "" or null."""
    nothing = dict.fromkeys(("owner", "host", "command", "since_utc", "reason"), "")
    unknown = dict.fromkeys(("pid", "until_utc", "alive", "silent_s"))
    return HolderDocument(what, unit, kind, level, **{**nothing, **unknown, **known})


def _current_port(unit: Unit) -> tuple[str | None, str]:
    """Return the device or address of a unit's port, and why there is no device."""
    if unit.port is None:
        return None, "runs on this host"
    try:
        return device_of(unit.port), ""
    except PortError as error:
        return None, error.message


def _power(power: Power | None) -> str:
    match power:
        case None:
            return ""
        case UsbHubPower():
            return f"port {power.port} of hub {power.hub}"
        case CommandPower():
            return power.off[0] if power.off else "a command"
        case RelayPower():
            return f"relay on {port_text(power.port)}"


def labgrid_holders(unit: Unit) -> Iterator[HolderDocument]:
    """Yield the holders of a unit's place, or of all places that match its tags.

    Raises:
        UsageError: There is no such place, or labgrid is not installed.
        InfrastructureError: The coordinator does not answer.
    """
    for place in labgrid_places(unit):
        identity = place.identity
        host, _, user = place.acquired.partition("/")
        name = f"labgrid place {place.name}"
        if identity is not None:
            yield _holder(
                *(name, unit.id, "process", 0),
                owner=identity.user,
                host=identity.node,
                pid=identity.pid,
                since_utc=utc(identity.since),
                until_utc=utc(identity.ends(place.allowed)),
                alive=identity.lives,
            )
        elif place.acquired or place.reserved:
            yield _holder(
                *(name, unit.id, "person", 0),
                owner=user or f"reservation {place.reserved}",
                host=host,
                since_utc=_to_utc(place.changed),
            )


def _to_utc(local: str) -> str:
    """Convert a local time that labgrid prints to UTC; "" if it is not a time."""
    try:
        moment = datetime.fromisoformat(local).astimezone(UTC)
    except ValueError:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


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
        rows.append((unit.unit, "", _held(unit.holders) or "free"))
        for waiter in unit.waiting:
            reason = f" ({waiter.reason})" if waiter.reason else ""
            text = f"{waiter.owner} on {waiter.host} since {waiter.since_utc}{reason}"
            rows.append(("", ordinal(waiter.place), text))
    show_table(console, ("unit", "in line", "in use by, waiting"), rows)


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
