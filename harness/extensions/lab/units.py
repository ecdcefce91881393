"""Leases units of the lab: for a process, or for a person; the plugin ``etharness.leases``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from harness.config.unit import Unit
from harness.errors import BusyError, UsageError
from harness.extensions.lab.holding import Lease, hold_keys, known_tokens, open_registry
from harness.extensions.lab.labgrid import HeldPlace, hold_place
from harness.extensions.lab.leases import Holder, new_token, utc_text
from harness.target.selection import LockKey, lock_keys_of

WAIT_S = 60.0
"""Default for the longest wait for a unit that is held, seconds."""


class LeasedDocument(msgspec.Struct, frozen=True):
    """A lease as ``etharness lab lease --json`` prints it; ``token``: for ``$ETHARNESS_LEASE``."""

    unit: str
    token: str
    until_utc: str
    reason: str


class ReleasedDocument(msgspec.Struct, frozen=True):
    """A released unit and its former holders, as printed by ``etharness lab release --json``."""

    unit: str
    ended: list[str]


LEASED = list[LeasedDocument]


RELEASED = list[ReleasedDocument]


@contextmanager
def hold(
    unit: Unit,
    *,
    reason: str = "",
    timeout_s: float = WAIT_S,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease | HeldPlace]:
    """Hold a unit inside a ``with`` block; processes started in the block act under the lease.

    ``unit.lease`` selects who manages the lease: this host, or a labgrid coordinator.

    Args:
        unit: The unit.
        reason: Why the unit is held; shown to others who wait for it.
        timeout_s: Longest wait for the current lease holder, seconds.
        cancelled: Whether to stop waiting.

    Raises:
        BusyError: The unit was not free in time; the message names the lease holder.
        InfrastructureError: The lease directory cannot be used, or the coordinator does not answer.
    """
    if unit.lease == "labgrid":
        with hold_place(unit, timeout_s) as place:
            yield place
        return
    with hold_keys(
        lock_keys_of(unit),
        timeout_s,
        reason=reason,
        cancelled=cancelled,
    ) as lease:
        yield lease


@contextmanager
def hold_unit(unit: Unit, timeout_s: float, *, reason: str = "") -> Iterator[Unit]:
    """Hold a unit as ``hold`` does.

    Yields:
        The unit with its current port and, if labgrid chose it among several places, the name of
        that place.
    """
    with hold(unit, reason=reason, timeout_s=timeout_s) as held:
        yield held.unit if isinstance(held, HeldPlace) else unit


def lease(
    units: Sequence[Unit], seconds: float, *, reason: str = "", wait_s: float = 0.0
) -> list[LeasedDocument]:
    """Lease units to this user without a process that holds them; all of them or none.

    Args:
        units: The units.
        seconds: Duration of the lease.
        reason: Purpose, for messages.
        wait_s: Longest wait for the current lease holders, seconds.

    Returns:
        The leases; the token of each lets other processes act under it.

    Raises:
        BusyError: A unit is already in use.
        UsageError: The leases of a unit are not managed by this host.
    """
    names = [
        LockKey(key.stem, f"unit {unit.id!r}")
        for unit in _managed_here(units)
        for key in lock_keys_of(unit)
    ]
    with hold_keys(names, wait_s, reason=reason or "lease"):
        return [_reserve(unit, seconds, reason) for unit in units]


def _reserve(unit: Unit, seconds: float, reason: str) -> LeasedDocument:
    """Lease a unit that this process holds."""
    registry = open_registry()
    token = new_token()
    until = ""
    for key in lock_keys_of(unit):
        got = registry.reserve(key, seconds, known_tokens(), reason=reason, token=token)
        if isinstance(got, Holder):  # its holder has just lost it
            raise BusyError(f"unit {unit.id!r} is already in use by {got.text}", hint="try again")
        until = utc_text(got.until or got.since)
    return LeasedDocument(unit.id, token, until, reason)


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
        for key in lock_keys_of(unit):
            holders |= dict.fromkeys(registry.release(key, known_tokens(), force=force))
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
