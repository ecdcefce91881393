"""Lock keys: one key for all names of the same unit, serial port or debug probe."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field

from harness.link.ports import port_identity
from harness.target.lease.clock import host_name
from harness.target.ports import list_ports


@dataclass(frozen=True, slots=True)
class LockKey:
    """A resource with one holder at a time.

    Attributes:
        stem: Stem of its lock files: unique to the resource, equal for all its names.
        name: Name of the resource in messages.
    """

    stem: str
    name: str = field(compare=False)


def unit_key(unit: str) -> LockKey:
    """Return the key of a lab unit, wherever it is plugged in."""
    return _key(f"unit {unit}", f"unit {unit!r}")


def probe_key(selector: str) -> LockKey:
    """Return the key of a debug probe of this host, by its VID:PID:Serial."""
    return _key(f"probe {host_name()} {selector}", f"probe {selector}")


def port_key(port: str) -> LockKey:
    """Return the key of a serial port, by any of its device names or its network address.

    A USB port is identified by its USB location and interface, because its name in ``/dev`` can
    change every time it is plugged in.
    """
    if port.startswith("/"):
        device = os.path.realpath(port)
        for known in list_ports():
            if known.location and os.path.realpath(known.device) == device:
                socket = f"{known.location} interface {known.interface}"
                return _key(f"port {host_name()} usb {socket}", port)
    return _key(f"port {port_identity(port)}", port)


def _key(identity: str, name: str) -> LockKey:
    # The readable part is cut and not unique; the digest is what tells identities apart.
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", identity).strip("-.")[:60]
    return LockKey(f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}", name)
