"""Lists the lab: serial ports, units with their current ports, and lease holders."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from harness.config.unit import CommandPower, Power, RelayPower, Unit, UsbHubPower
from harness.errors import HarnessError, PortError
from harness.lab.labgrid.identity import utc
from harness.lab.labgrid.place import labgrid_places
from harness.lab.units import lock_keys_of
from harness.records.lab import (
    HolderDocument,
    PortDocument,
    StatusDocument,
    UnitDocument,
    WaiterDocument,
)
from harness.target.lease.holding import open_registry
from harness.target.lease.queue import LeaseQueue
from harness.target.lease.records import LockKey, is_alive, port_key, utc_text
from harness.target.lease.registry import Holder, LeaseRegistry
from harness.target.ports import describe, device_of, list_ports

_log = logging.getLogger(__name__)


def ports(units: Sequence[Unit]) -> list[PortDocument]:
    """Return every serial port of this host, with its unit and its lease holders."""
    registry = open_registry()
    names = _units_by_key(units)
    found = []
    for port in list_ports():
        key = port_key(port.device)
        unit = names.get(key)
        holders = list(_holders(registry, key, unit))
        found.append(
            PortDocument(
                *(port.device, port.vid, port.pid, port.serial, port.interface, port.location),
                links=port.links,
                unit=unit,
                holders=holders,
            )
        )
    return found


def units(lab: Sequence[Unit]) -> list[UnitDocument]:
    """Return every unit, with its current port and its lease holders."""
    registry = open_registry()
    found = []
    for unit in lab:
        if unit.lease == "labgrid":
            found.append(_labgrid_unit(unit))
            continue
        device, problem = _current_port(unit)
        found.append(
            UnitDocument(
                id=unit.id,
                board=unit.board,
                port=None if unit.port is None else describe(unit.port),
                device=device,
                problem=problem,
                probe=unit.probe,
                power=_power(unit.power),
                lease=unit.lease,
                note=unit.note,
                holders=_all_holders(registry, unit),
                meter=_meter(unit),
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
    now = datetime.now()  # local time, as working hours are
    return [
        StatusDocument(
            unit=unit.id,
            board=unit.board,
            holders=_all_holders(registry, unit),
            waiting=_waiting(queue, unit),
            people_first=unit.people_first or "",
            people_first_now=unit.working_hours.include(now),
        )
        for unit in lab
    ]


def _waiting(queue: LeaseQueue, unit: Unit) -> list[WaiterDocument]:
    if unit.lease == "labgrid":
        return []  # the coordinator knows
    tickets = queue.waiting({key.stem for key in lock_keys_of(unit)})
    return [
        WaiterDocument(
            *(place, ticket.record.owner, ticket.record.host),
            *(ticket.record.pid, ticket.record.command, utc_text(ticket.record.since)),
            reason=ticket.record.reason,
            goes_first=ticket.goes_first,
        )
        for place, ticket in enumerate(tickets, start=1)
    ]


def _labgrid_holders(lab: Sequence[Unit]) -> Iterator[HolderDocument]:
    """Yield the lease holders of labgrid units; log a coordinator that does not answer."""
    for unit in lab:
        if unit.lease == "labgrid":
            try:
                yield from labgrid_holders(unit)
            except HarnessError as error:
                _log.warning("unit %s: %s", unit.id, error.message)


def _labgrid_unit(unit: Unit) -> UnitDocument:
    holders, problem = list[HolderDocument](), ""
    tags = ",".join(f"{key}={value}" for key, value in unit.match.items())
    try:
        holders = labgrid_holders(unit)
    except HarnessError as error:
        problem = error.message
    return UnitDocument(
        id=unit.id,
        board=unit.board,
        port=f"labgrid: {tags or unit.place or unit.id}",
        device=None,
        problem=problem or "port is known once the unit is leased",
        probe=unit.probe,
        power=_power(unit.power),
        lease=unit.lease,
        note=unit.note,
        holders=holders,
        meter=_meter(unit),
    )


def _meter(unit: Unit) -> str:
    return unit.energy.meter if unit.energy else ""


def _units_by_key(units: Sequence[Unit]) -> dict[LockKey, str]:
    return {key: unit.id for unit in units for key in lock_keys_of(unit)}


def _all_holders(registry: LeaseRegistry, unit: Unit) -> list[HolderDocument]:
    """Return the holders of a unit's name and of its port; a holder of both is listed once."""
    if unit.lease == "labgrid":
        return labgrid_holders(unit)
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
    record = holder.record
    if record is None:
        nothing = ("", "", None, "", "", None, "", None, None)
        return HolderDocument(key.name, unit, holder.kind, holder.level, *nothing)
    silent = record.beat.seconds_until(registry.clock.now())
    process = record.kind == "process"
    return HolderDocument(
        *(key.name, unit, record.kind, holder.level, record.owner, record.host),
        pid=record.pid if process else None,
        command=record.command if process else "",
        since_utc=utc_text(record.since),
        until_utc=None if record.until is None else utc_text(record.until),
        reason=record.reason,
        alive=is_alive(record.host, record.pid, record.started) if process else None,
        silent_s=round(max(0.0, silent), 1) if process else None,
        expected_utc=None if record.expected is None else utc_text(record.expected),
    )


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
            return f"relay on {describe(power.port)}"


def labgrid_holders(unit: Unit) -> list[HolderDocument]:
    """Return the holders of a unit's place, or of all places that match its tags.

    Raises:
        UsageError: There is no such place, or labgrid is not installed.
        InfrastructureError: The coordinator does not answer.
    """
    return [*_holders_of_places(unit)]


def _holders_of_places(unit: Unit) -> Iterator[HolderDocument]:
    for place in labgrid_places(unit):
        identity = place.identity
        host, _, user = place.acquired.partition("/")
        name = f"labgrid place {place.name}"
        if identity is not None:
            yield HolderDocument(
                *(name, unit.id, "process", 0, identity.user),
                host=identity.node,
                pid=identity.pid,
                command="",
                since_utc=utc(identity.since),
                until_utc=utc(identity.ends(place.allowed)),
                reason="",
                alive=identity.lives,
                silent_s=None,
            )
        elif place.acquired or place.reserved:
            yield HolderDocument(
                *(name, unit.id, "person", 0, user or f"reservation {place.reserved}", host),
                pid=None,
                command="",
                since_utc=_to_utc(place.changed),
                until_utc=None,
                reason="",
                alive=None,
                silent_s=None,
            )


def _to_utc(local: str) -> str:
    """Convert a local time that labgrid prints to UTC; "" if it is not a time."""
    try:
        moment = datetime.fromisoformat(local).astimezone(UTC)
    except ValueError:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
