"""What commands print about leases, units and ports as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec


class HolderDocument(msgspec.Struct, frozen=True):
    """What ``etharness lab who --json`` prints of each who holds something.

    ``unit`` is the lab's name for it, null where it has none. A ``process`` holds it until it ends,
    a ``person`` until ``until_utc`` or a release. ``level`` 0 holds it itself, 1 what that has
    started, and so on. ``alive`` says whether that very process is there still, null for persons
    and other hosts; ``silent_s`` how long ago it last said so, seconds. What a damaged note did not
    tell is "" or null.
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


class PortDocument(msgspec.Struct, frozen=True):
    """What ``etharness lab ports --json`` prints of each serial port of this host.

    Numbers are null where it is not on USB. ``unit`` is the one of the lab that is on it.
    """

    device: str
    vid: int | None
    pid: int | None
    serial: str
    interface: int | None
    location: str
    links: tuple[str, ...]
    unit: str | None
    holders: list[HolderDocument]


class UnitDocument(msgspec.Struct, frozen=True):
    """What ``etharness lab units --json`` prints of each unit of the lab.

    ``port`` is what it is found by, ``device`` what that is now; ``problem`` why there is none.
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


class LeasedDocument(msgspec.Struct, frozen=True):
    """What ``etharness lab lease --json`` prints of each unit.

    ``$ETHARNESS_LEASE`` takes the token.
    """

    unit: str
    token: str
    until_utc: str
    reason: str


class ReleasedDocument(msgspec.Struct, frozen=True):
    """What ``etharness lab release --json`` prints of each unit: who held it."""

    unit: str
    ended: list[str]
