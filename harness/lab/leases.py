"""Leases of units: holding one while a process uses it, and leasing one to a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from harness.config.unit import Unit
from harness.errors import BusyError, PortError, UsageError
from harness.lab.labgrid.place import HeldPlace, hold_place
from harness.records.lab import LeasedDocument, ReleasedDocument
from harness.target.lease.holding import Lease, known_tokens, open_registry
from harness.target.lease.holding import hold as hold_places
from harness.target.lease.records import LockKey, new_token, port_key, unit_key, utc_text
from harness.target.lease.registry import Busy
from harness.target.ports import device_of

WAIT_S = 60.0
"""Default for the longest wait for a unit that is held, seconds."""


def places_of(unit: Unit) -> list[LockKey]:
    """Return the keys that a lease of a unit locks: its name and its current port.

    The port excludes commands that name the device; the name stays the same when the board is
    plugged in elsewhere.
    """
    places = [unit_key(unit.id)]
    if unit.port is not None:
        with suppress(PortError):  # not connected: whoever opens the port later locks it
            places.append(port_key(device_of(unit.port)))
    return places


@contextmanager
def hold(
    unit: Unit,
    *,
    owner: str | None = None,
    reason: str = "",
    timeout_s: float = WAIT_S,
    expires_s: float | None = None,
) -> Iterator[Lease | HeldPlace]:
    """Hold a unit inside a ``with`` block; processes started in the block act under the lease.

    ``unit.lease`` selects who manages the lease: this host, or a labgrid coordinator.

    Args:
        unit: The unit.
        owner: Name of the lease holder; None for ``$ETHARNESS_OWNER`` or this user.
        reason: Why the unit is held; shown to others who wait for it.
        timeout_s: Longest wait for the current lease holder, seconds.
        expires_s: Time after which ``check`` of the lease fails, seconds; None for never.

    Raises:
        BusyError: The unit was not free in time; the message names the lease holder.
        InfrastructureError: The lease directory cannot be used, or the coordinator does not answer.
    """
    if unit.lease == "labgrid":
        with hold_place(unit, timeout_s) as place:
            yield place
        return
    with hold_places(
        places_of(unit), timeout_s, owner=owner, reason=reason, expires_s=expires_s
    ) as lease:
        yield lease


@contextmanager
def hold_if(unit: Unit | None, *, reason: str, timeout_s: float) -> Iterator[Unit | None]:
    """Hold a unit unless it is None: a board that is not a unit of the lab is locked by its port.

    Yields:
        The unit with its current port and, if labgrid chose it among several places, the name of
        that place; None for None.
    """
    if unit is None:
        yield None
        return
    with hold(unit, reason=reason, timeout_s=timeout_s) as held:
        yield held.unit if isinstance(held, HeldPlace) else unit


def lease(units: Sequence[Unit], seconds: float, *, reason: str = "") -> list[LeasedDocument]:
    """Lease units to this user without a process that holds them; all of them or none.

    Returns:
        The leases; the token of each lets other processes act under it.

    Raises:
        BusyError: A unit is already in use.
        UsageError: The leases of a unit are not managed by this host.
    """
    registry = open_registry()
    leased: list[LeasedDocument] = []
    locked: list[LockKey] = []
    for unit in _managed_here(units):
        token = new_token()
        for place in places_of(unit):
            got = registry.reserve(place, seconds, known_tokens(), reason=reason, token=token)
            if isinstance(got, Busy):
                for each in locked:
                    registry.release(each, known_tokens())
                raise BusyError(
                    f"unit {unit.id!r} is already in use by {got.description}",
                    hint="wait until it is free, or ask its holder; `etharness lab who` lists all",
                )
            locked.append(place)
            until = utc_text(got.until or got.since)
        leased.append(LeasedDocument(unit.id, token, until, reason))
    return leased


def release(units: Sequence[Unit], *, force: bool = False) -> list[ReleasedDocument]:
    """End the leases of units: a person's at once, a process's at its next ``check``.

    Args:
        units: The units.
        force: Also end the leases of other users and of processes.

    Returns:
        The former lease holders of each unit.

    Raises:
        BusyError: Another user holds a unit, and ``force`` is not set.
        UsageError: The leases of a unit are not managed by this host.
    """
    registry = open_registry()
    released = []
    for unit in _managed_here(units):
        holders: dict[str, None] = {}
        for place in places_of(unit):
            holders |= dict.fromkeys(registry.release(place, known_tokens(), force=force))
        released.append(ReleasedDocument(unit.id, list(holders)))
    return released


def _managed_here(units: Sequence[Unit]) -> Sequence[Unit]:
    for unit in units:
        if unit.lease != "local":
            raise UsageError(
                f"unit {unit.id!r} is leased through {unit.lease}, not by this host",
                hint=f"a run waits for it by itself; people reserve it with {unit.lease}",
            )
    return units
