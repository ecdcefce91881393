"""Which names mean the same thing to hold."""

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
    """Something that one at a time may hold.

    Attributes:
        stem: What its files are called: the same for all its names, and for nothing else.
        name: What people call it.
    """

    stem: str
    name: str = field(compare=False)


def place_of_unit(unit: str) -> LockKey:
    """A unit of the lab, wherever it is plugged in."""
    return _place(f"unit {unit}", f"unit {unit!r}")


def place_of_probe(selector: str) -> LockKey:
    """A debug probe of this host, by its VID:PID:Serial."""
    return _place(f"probe {host_name()} {selector}", f"probe {selector}")


def place_of_port(port: str) -> LockKey:
    """A serial port, by any of its names, or the address of one.

    A USB device is where it is plugged in, as its name in ``/dev`` changes with every restart.
    """
    if port.startswith("/"):
        device = os.path.realpath(port)
        for known in list_ports():
            if known.location and os.path.realpath(known.device) == device:
                socket = f"{known.location} interface {known.interface}"
                return _place(f"port {host_name()} usb {socket}", port)
    return _place(f"port {port_identity(port)}", port)


def _place(identity: str, name: str) -> LockKey:
    """A place with a stem that is readable, and another for every identity."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", identity).strip("-.")[:60]
    return LockKey(f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}", name)
