"""Leases of units: who may talk to them at the moment, and who does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from harness.config.unit import Unit
from harness.errors import BusyError, PortError, UsageError
from harness.lab.labgrid.place import HeldPlace, hold_place
from harness.records.lease import LeasedDocument, ReleasedDocument
from harness.target.lease.holding import Lease, known_tokens, open_book
from harness.target.lease.holding import hold as hold_places
from harness.target.lease.lock_keys import LockKey, place_of_port, place_of_unit
from harness.target.lease.records import day, new_token
from harness.target.lease.registry import Busy
from harness.target.ports import device_of

WAIT_S = 60.0
"""Longest wait for a unit that somebody holds, unless another is given, seconds."""


def places_of(unit: Unit) -> list[LockKey]:
    """What a lease of a unit holds: its name and, where it is plugged in now, its port.

    The port, so that nobody gets it who calls it by the device; the name, as a board keeps that
    when it is somewhere else.
    """
    places = [place_of_unit(unit.id)]
    if unit.port is not None:
        with suppress(PortError):  # whoever opens it finds it, and holds it then
            places.append(place_of_port(device_of(unit.port)))
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
    """Hold a unit for as long as this lasts; processes that are started meanwhile act under it.

    Who says whose it is, this host or a labgrid coordinator, stands in the unit.

    Args:
        unit: What to hold.
        owner: Who holds it; None for ``$ETHARNESS_OWNER`` or this user.
        reason: What for.
        timeout_s: Longest wait for whoever holds it, seconds.
        expires_s: After how long the lease's ``check`` says that it is over, seconds; None: never.

    Raises:
        BusyError: It was not free in time; the message says who held it since when.
        InfrastructureError: The directory of leases cannot be used, or the coordinator does not
            answer.
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
    """Hold a unit, if there is one; a board that no lab describes is held by its port alone.

    Yields:
        The unit as it is where it was found: with the port that a coordinator says it has, and the
        name of its place if it may be at several.
    """
    if unit is None:
        yield None
        return
    with hold(unit, reason=reason, timeout_s=timeout_s) as held:
        yield held.unit if isinstance(held, HeldPlace) else unit


def lease(units: Sequence[Unit], seconds: float, *, reason: str = "") -> list[LeasedDocument]:
    """Lease units to this person, with no process behind it; all or none of them.

    Returns:
        What was leased, with the token of each that lets others act under it.

    Raises:
        BusyError: Somebody else holds one.
        UsageError: A unit is not this host's to lease.
    """
    book = open_book()
    leased: list[LeasedDocument] = []
    done: list[LockKey] = []
    for unit in _ours(units):
        token = new_token()
        for place in places_of(unit):
            got = book.lend(place, seconds, known_tokens(), reason=reason, token=token)
            if isinstance(got, Busy):
                for each in done:
                    book.release(each, known_tokens())
                raise BusyError(
                    f"unit {unit.id!r} is held by {got.said}",
                    hint="wait for that to end, or ask them; `etharness lab who` says more",
                )
            done.append(place)
            until = day(got.until or got.since)
        leased.append(LeasedDocument(unit.id, token, until, reason))
    return leased


def release(units: Sequence[Unit], *, force: bool = False) -> list[ReleasedDocument]:
    """End the leases of units: a person's at once, a process's when it notices.

    Args:
        units: Which.
        force: Also those of others, and of processes.

    Returns:
        Of each unit who held it.

    Raises:
        BusyError: One is another's, and ``force`` is not given.
        UsageError: A unit is not this host's to release.
    """
    book = open_book()
    ended = []
    for unit in _ours(units):
        said: dict[str, None] = {}
        for place in places_of(unit):
            said |= dict.fromkeys(book.release(place, known_tokens(), force=force))
        ended.append(ReleasedDocument(unit.id, list(said)))
    return ended


def _ours(units: Sequence[Unit]) -> Sequence[Unit]:
    for unit in units:
        if unit.lease != "local":
            raise UsageError(
                f"unit {unit.id!r} is leased by {unit.lease}, not here",
                hint="a run waits for it; a person reserves it there",
            )
    return units
