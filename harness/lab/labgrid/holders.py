"""Who holds the places of a coordinator that units may be, for people who ask."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from harness.config.unit import Unit
from harness.lab.labgrid.client import LabgridPlace
from harness.lab.labgrid.identity import utc
from harness.lab.labgrid.place import labgrid_places
from harness.records.lease import HolderDocument


def holders(unit: Unit) -> list[HolderDocument]:
    """Who holds the place of a unit, or those that it may be.

    Raises:
        UsageError: There is no such place, or labgrid is not installed.
        InfrastructureError: The coordinator does not answer.
    """
    return [*_holders(unit, labgrid_places(unit))]


def whereabouts(unit: Unit) -> str:
    """Where a coordinator is asked for a unit, for people."""
    tags = ",".join(f"{key}={value}" for key, value in unit.match.items())
    return f"labgrid: {tags or unit.place or unit.id}"


def _holders(unit: Unit, places: list[LabgridPlace]) -> Iterator[HolderDocument]:
    for place in places:
        identity = place.identity
        host, _, user = place.acquired.partition("/")
        what = f"labgrid place {place.name}"
        if identity is not None:
            yield HolderDocument(
                *(what, unit.id, "process" if identity.pid else "person", 0, identity.user),
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
                *(what, unit.id, "person", 0, user or f"reservation {place.reserved}", host),
                pid=None,
                command="",
                since_utc=_utc(place.changed),
                until_utc=None,
                reason="",
                alive=None,
                silent_s=None,
            )


def _utc(local: str) -> str:
    """What labgrid prints as this host's time; "" if it is none."""
    try:
        moment = datetime.fromisoformat(local).astimezone(UTC)
    except ValueError:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
