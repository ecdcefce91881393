"""File systems on which SQLite loses data: those of networks, whose locks do not hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.errors import UsageError

_NETWORK: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs")
)
_MOUNTS: Final = Path("/proc/self/mounts")


def refuse_network(file: Path) -> None:
    """Refuse a file on a network's file system.

    Raises:
        UsageError: It is on one.
    """
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux: nobody knows, and SQLite is tried
        return
    kind = file_system(file, mounts)
    if kind in _NETWORK:
        raise UsageError(
            f"{file} is on a network ({kind}), where several writers would destroy it",
            hint="keep the file on a local disk, or use postgresql:// for what machines share",
        )


def file_system(file: Path, mounts: Sequence[str]) -> str:
    """The kind of file system that ``file`` is on, by the lines of ``/proc/mounts``; "" if none."""
    place, found, longest = file.resolve(), "", -1
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode("utf-8", "surrogateescape").decode("unicode_escape"))
        if place.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = fields[2], len(point.parts)
    return found
