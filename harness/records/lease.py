"""JSON output of the commands for leases, units and ports."""

from __future__ import annotations

from typing import Literal

import msgspec


class HolderDocument(msgspec.Struct, frozen=True):
    """A lease holder, as printed by ``etharness lab who --json``.

    ``unit`` is the unit's id, null if the resource belongs to no unit. A ``process`` holds it until
    it ends, a ``person`` until ``until_utc`` or a release. ``level`` is the lock level: 0 for the
    first holder, 1 for a process that it started, and so on. ``alive``: the process still runs;
    null for persons and other hosts. ``silent_s`` is the time since its last heartbeat, seconds.
    Fields of a damaged record are "" or null.
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
    """A serial port of this host, as printed by ``etharness lab ports --json``.

    USB ids are null if it is not on USB. ``unit`` is the id of the unit on this port.
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
    """A unit of the lab, as printed by ``etharness lab units --json``.

    ``port`` is the port in ``units.toml``, ``device`` its current device name; ``problem`` is the
    reason if it was not found.
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
    """A lease as ``etharness lab lease --json`` prints it; ``token``: for ``$ETHARNESS_LEASE``."""

    unit: str
    token: str
    until_utc: str
    reason: str


class ReleasedDocument(msgspec.Struct, frozen=True):
    """A released unit and its former holders, as printed by ``etharness lab release --json``."""

    unit: str
    ended: list[str]
