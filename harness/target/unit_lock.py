"""A lock per unit: no two processes of a user talk to one physical board at the same time.

``exclusive`` access to a serial port is only advisory, and ends with a message about the port. This
says who holds the board, and waits for it. The lock is the kernel's (``flock``): it ends with the
process that holds it, however that ends. Beside it stands a note of who that is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import local
from typing import Final

from filelock import FileLock, Timeout

from harness.errors import BusyError
from harness.link.ports import port_identity
from harness.resources import user_cache

_log = logging.getLogger(__name__)

_AT_ONCE_S: Final = 0.05
"""A unit that is not free by then is being waited for, which is worth saying."""

_POLL_S: Final = 0.1


class _Held(local):
    """Locks of this thread by their files: it may ask again for what it holds.

    Other threads have their own, so that two of them exclude each other, too.
    """

    def __init__(self) -> None:
        self.locks: dict[Path, FileLock] = {}


_held = _Held()


def lock_directory() -> Path:
    """Where the locks are: ``$ETHARNESS_LOCK_DIR``, else below the user's cache directory."""
    configured = os.environ.get("ETHARNESS_LOCK_DIR")
    return Path(configured) if configured else user_cache("locks")


@contextmanager
def hold_unit(port: str, timeout_s: float) -> Iterator[None]:
    """Hold the unit on ``port`` alone; in one thread, any number of times within each other.

    Args:
        port: Its serial port, by any of its names, or the address of one.
        timeout_s: Longest wait for whoever holds it, seconds.

    Raises:
        BusyError: It was not free in time; the message says who held it.
    """
    file = lock_directory() / f"{_key(port)}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = _held.locks.setdefault(file, FileLock(file))
    if lock.is_locked:
        with lock:
            yield
        return
    _acquire(lock, port, timeout_s)
    try:
        _write_note(lock)
        yield
    finally:
        with suppress(FileNotFoundError):
            _note(lock).unlink()
        lock.release()


def holder(port: str) -> str:
    """Who holds the unit on ``port``, as its note says; also of one who has let it go or died."""
    return _holder(FileLock(lock_directory() / f"{_key(port)}.lock"))


def _acquire(lock: FileLock, port: str, timeout_s: float) -> None:
    with suppress(Timeout):
        lock.acquire(timeout=min(_AT_ONCE_S, timeout_s), poll_interval=_AT_ONCE_S)
        return
    _log.warning("waiting up to %g s for %s, held by %s", timeout_s, port, _holder(lock))
    try:
        lock.acquire(timeout=max(0.0, timeout_s - _AT_ONCE_S), poll_interval=_POLL_S)
    except Timeout:
        raise BusyError(
            f"the unit on {port} was not free within {timeout_s:g} s: it is held by "
            f"{_holder(lock)}",
            hint="wait for that to end, or end it; the lock goes with the process",
        ) from None


def _key(port: str) -> str:
    """The name of a lock: the same for all names of a device, another for each host's devices."""
    identity = port_identity(port)
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", identity.partition(":")[2]).strip("-")[:40]
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _note(lock: FileLock) -> Path:
    return Path(lock.lock_file).with_suffix(".json")


def _write_note(lock: FileLock) -> None:
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": Path(sys.argv[0]).name,
    }
    partial = _note(lock).with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(note))
    partial.rename(_note(lock))


def _holder(lock: FileLock) -> str:
    try:
        note = json.loads(_note(lock).read_text())
        return "process {pid} ({command}) on {host} since {since}".format_map(note)
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has left no note"
