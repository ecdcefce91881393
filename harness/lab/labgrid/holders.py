"""Lists who holds the labgrid places of a unit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from harness.config.unit import Unit
from harness.lab.labgrid.client import LabgridPlace
from harness.lab.labgrid.identity import utc
from harness.lab.labgrid.place import labgrid_places
from harness.records.lab import HolderDocument


def holders(unit: Unit) -> list[HolderDocument]:
    """Return the holders of a unit's place, or of all places that match its tags.

    Raises:
        UsageError: There is no such place, or labgrid is not installed.
        InfrastructureError: The coordinator does not answer.
    """
    return [*_holders(unit, labgrid_places(unit))]


def whereabouts(unit: Unit) -> str:
    """Return the place or tags of a unit, for people."""
    tags = ",".join(f"{key}={value}" for key, value in unit.match.items())
    return f"labgrid: {tags or unit.place or unit.id}"


def _holders(unit: Unit, places: list[LabgridPlace]) -> Iterator[HolderDocument]:
    for place in places:
        identity = place.identity
        host, _, user = place.acquired.partition("/")
        name = f"labgrid place {place.name}"
        if identity is not None:
            yield HolderDocument(
                *(name, unit.id, "process" if identity.pid else "person", 0, identity.user),
                host=identity.node,
                pid=identity.pid or None,
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
                since_utc=_utc(place.changed),
                until_utc=None,
                reason="",
                alive=None,
                silent_s=None,
            )


def _utc(local: str) -> str:
    """Convert a local time that labgrid prints to UTC; "" if it is not a time."""
    try:
        moment = datetime.fromisoformat(local).astimezone(UTC)
    except ValueError:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
