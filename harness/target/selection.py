"""The board that a command is for: its selection, its exclusive use, and whether it is the one.

A board is selected by type, port or unit. One process at a time uses a port, a debug probe or a
unit. The lab's leases grant it where they are installed (``etharness.leases``): they name the
holder, serve those who wait in order, and let child processes use what their parent holds. Kernel
locks grant it otherwise; they are the same files, so both kinds exclude each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, cast

from harness.config.board import Board, load_board
from harness.config.project import find_project
from harness.config.unit import Unit, UsbPort, find_unit, load_units, units_file
from harness.errors import (
    BusyError,
    InfrastructureError,
    PortError,
    UsageError,
    WrongBoardError,
    WrongFirmwareError,
)
from harness.files import NotRegularFileError, absolute, open_regular, user_cache
from harness.link.messages import TargetInfo
from harness.link.transports import device_path, is_device, port_identity
from harness.plugins import LEASES, extension_remedy, load_plugin, plugin_names
from harness.target.ports import device_of, list_ports, port_text

_log = logging.getLogger(__name__)

_warned: Final[set[str]] = set()
"""Paths that a warning has been logged for."""


_QUERY_TRIES: Final = 5
_QUERY_PAUSE_S: Final = 0.002


class KernelLock(Protocol):
    """How this system locks an open file. Both functions return False if another one holds it."""

    def lock(self, file: int) -> bool:
        """Lock the file until its descriptor is closed."""
        ...

    def is_free(self, file: int) -> bool:
        """Whether nobody has locked the file."""
        ...


class UnixLock:
    """``flock``: also ends when every forked child has closed its copy of the descriptor."""

    def __init__(self, fcntl: Any) -> None:
        self._fcntl = fcntl

    def lock(self, file: int) -> bool:
        """Lock the file."""
        return self._flock(file, self._fcntl.LOCK_EX)

    def is_free(self, file: int) -> bool:
        """Whether nobody has locked the file."""
        # A shared lock, so that two concurrent queries do not see each other as a holder.
        return self._flock(file, self._fcntl.LOCK_SH)

    def _flock(self, file: int, kind: int) -> bool:
        try:
            self._fcntl.flock(file, kind | self._fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class WindowsLock:
    """``msvcrt.locking`` of the first byte, which may be beyond the end of the file."""

    def __init__(self, msvcrt: Any) -> None:
        self._msvcrt = msvcrt

    def lock(self, file: int) -> bool:
        """Lock the file."""
        return self._locking(file, self._msvcrt.LK_NBLCK)

    def is_free(self, file: int) -> bool:
        """Whether nobody has locked the file."""
        # There are no shared locks, so another query may hold it for a moment.
        for _ in range(_QUERY_TRIES):
            if self._locking(file, self._msvcrt.LK_NBLCK):
                return self._locking(file, self._msvcrt.LK_UNLCK)
            time.sleep(_QUERY_PAUSE_S)
        return False

    def _locking(self, file: int, mode: int) -> bool:
        os.lseek(file, 0, os.SEEK_SET)  # the range begins at the file's position
        try:
            self._msvcrt.locking(file, mode, 1)
        except PermissionError:
            return False
        return True


def _kernel_lock() -> KernelLock:
    with contextlib.suppress(ImportError):
        return UnixLock(importlib.import_module("fcntl"))
    return WindowsLock(importlib.import_module("msvcrt"))


_kernel: Final = _kernel_lock()


class Flock:
    """An exclusive lock on a file. The file is created on first use and never removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock without waiting; False if another process holds it.

        Raises:
            InfrastructureError: The file cannot be opened, or the file system has no locks.
        """
        try:
            file = self._open(os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._failed(error) from error
        try:
            locked = _kernel.lock(file)
        except OSError as error:
            os.close(file)
            raise self._failed(error) from error
        if not locked:
            os.close(file)
            return False
        self._file = file
        return True

    def is_locked(self) -> bool:
        """Whether any process holds the lock at the moment.

        Raises:
            InfrastructureError: The file cannot be opened, or the file system has no locks.
        """
        try:
            file = self._open(os.O_RDWR)
        except FileNotFoundError:
            return False
        except NotRegularFileError as error:
            warn_not_regular(error)
            return False
        except OSError as error:
            raise self._failed(error) from error
        try:
            return not _kernel.is_free(file)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(file)

    @property
    def is_held(self) -> bool:
        """Whether we hold the lock on the file at ``path``; False once that file was removed."""
        if self._file is None:
            return False
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._file), self.path.lstat())
        return False

    def release(self) -> None:
        """Release the lock; further calls do nothing."""
        # Closing is not unlocking: a flock lasts until every forked child has closed its copy, too.
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self, flags: int) -> int:
        file = open_regular(self.path, flags)
        try:
            share_permissions(file, self.path.parent)
        except OSError:
            os.close(file)
            raise
        return file

    def _failed(self, error: OSError) -> InfrastructureError:
        return _directory_error(f"lock {self.path}", error)


def make_directory(directory: Path) -> None:
    """Create the lock directory if it does not exist.

    Raises:
        InfrastructureError: The directory cannot be created.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _directory_error(f"create {directory}", error) from error


def share_permissions(file: int, directory: Path) -> None:
    """Give an open file the read and write permissions of its directory."""
    fchmod = getattr(os, "fchmod", None)
    if fchmod is None:
        return  # Windows: new files inherit the access list of their directory
    mode = directory.stat().st_mode & 0o666
    with contextlib.suppress(PermissionError):  # the file's owner has done so
        if os.fstat(file).st_mode & 0o666 != mode:
            fchmod(file, mode)


def warn_not_regular(error: NotRegularFileError) -> None:
    """Warn once per path about a foreign entry (FIFO, folder) in the lock directory."""
    name = str(error.filename)
    if name not in _warned:
        _warned.add(name)
        _log.warning("%s: not a regular file; ignored as a lease, remove it", name)


def _directory_error(action: str, error: OSError) -> InfrastructureError:
    if isinstance(error, NotRegularFileError):
        return InfrastructureError(f"cannot {action}: {error.strerror}", hint="remove it")
    return InfrastructureError(
        f"cannot {action}: {error.strerror}",
        hint="set $ETHARNESS_LOCK_DIR to a writable directory on a file system with file locks "
        "(`etharness explain lab`)",
    )


DIRECTORY_VARIABLE: Final = "ETHARNESS_LOCK_DIR"
"""Environment variable: the lock directory; everybody who shares boards needs the same one."""

_POLL_S: Final = 0.05


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
    if is_device(port):
        device = device_path(port)
        for known in list_ports():
            if known.location and device_path(known.device) == device:
                socket = f"{known.location} interface {known.interface}"
                return _key(f"port {host_name()} usb {socket}", port)
    return _key(f"port {port_identity(port)}", port)


def _key(identity: str, name: str) -> LockKey:
    # The readable part is cut and not unique; the digest is what tells identities apart.
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", identity).strip("-.")[:60]
    return LockKey(f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}", name)


def host_name() -> str:
    """Return the name of this host; hosts that share a lock directory need different names."""
    return socket.gethostname()


def lock_directory() -> Path:
    """Return the lock directory: ``$ETHARNESS_LOCK_DIR``, or one in the user's cache."""
    configured = os.environ.get(DIRECTORY_VARIABLE)
    return absolute(configured) if configured else user_cache("locks")


def lock_file(key: LockKey, level: int = 0) -> Path:
    """Return the path of a resource's lock; each process that inherits a lease has a next level."""
    return lock_directory() / f"{key.stem}.{level}.lock"


class ExclusiveUse(Protocol):
    """Resources that this process holds."""

    def check(self) -> None:
        """Do nothing while everything is held.

        Raises:
            BusyError: A resource was lost; the message says how.
        """

    def check_cached(self) -> None:
        """Like `check`, with the result of the last heartbeat; cheap enough for every read."""


class Leases(Protocol):
    """What a plugin of ``etharness.leases`` does."""

    def hold_keys(
        self, keys: Sequence[LockKey], timeout_s: float, *, reason: str = ""
    ) -> AbstractContextManager[ExclusiveUse]:
        """Hold all of several resources, or none."""

    def hold_unit(
        self, unit: Unit, timeout_s: float, *, reason: str = ""
    ) -> AbstractContextManager[Unit]:
        """Hold a unit; yields it with its current port and name."""


@cache
def _leases() -> Leases | None:
    names = plugin_names(LEASES)
    return cast("Leases | None", load_plugin(LEASES, names[0])) if names else None


def hold_keys(
    keys: Sequence[LockKey], timeout_s: float, *, reason: str = ""
) -> AbstractContextManager[ExclusiveUse]:
    """Hold all of several resources, or none, for the duration of the context.

    Args:
        keys: The resources; messages name the first.
        timeout_s: Longest wait for other holders, seconds.
        reason: Purpose, for messages.

    Raises:
        BusyError: Not free in time.
        InfrastructureError: The lock directory cannot be used.
    """
    leases = _leases()
    return leases.hold_keys(keys, timeout_s, reason=reason) if leases else _locked(keys, timeout_s)


@contextmanager
def hold_if(unit: Unit | None, *, reason: str, timeout_s: float) -> Iterator[Unit | None]:
    """Hold a unit unless it is None: a board that is not a unit of the lab is locked by its port.

    Yields:
        The unit with its current port and, if labgrid chose it among several places, the name of
        that place; None for None.
    """
    if unit is None:
        yield None
    elif (leases := _leases()) is not None:
        with leases.hold_unit(unit, timeout_s, reason=reason) as current:
            yield current
    elif unit.lease != "local":
        raise UsageError(
            f"unit {unit.id!r} is leased through {unit.lease}, which this installation does not "
            "support",
            hint=extension_remedy("lab"),
        )
    else:
        with _locked([unit_key(unit.id)], timeout_s):
            yield unit


class _HeldByThread(threading.local):
    def __init__(self) -> None:
        self.stems: set[str] = set()


_held = _HeldByThread()


class _KernelLocks:
    """Locks end only with this process."""

    def check(self) -> None:
        """Do nothing."""

    check_cached = check


@contextmanager
def _locked(keys: Sequence[LockKey], timeout_s: float) -> Iterator[ExclusiveUse]:
    """Lock resources that this thread does not hold yet."""
    make_directory(lock_directory())
    deadline = time.monotonic() + timeout_s
    with ExitStack() as stack:
        for key in sorted(keys, key=lambda key: key.stem):  # one order for all: no deadlock
            if key.stem in _held.stems:
                continue
            lock = Flock(lock_file(key))
            while not lock.acquire():
                if time.monotonic() >= deadline:
                    raise BusyError(
                        f"{key.name} is already in use by another process",
                        hint="wait until it is free, or end that process",
                    )
                time.sleep(_POLL_S)
            stack.callback(lock.release)
            _held.stems.add(key.stem)
            stack.callback(_held.stems.discard, key.stem)
        yield _KernelLocks()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The board that a command is for.

    Attributes:
        board: Board type: its name or a board file.
        port: Serial port, or how to find it; None for a board that this host simulates.
        unit: Name of the unit in results; None for the name of the port.
        leased: The unit of the lab to lease, also when the command named only its port; None if
            the lab has no such unit.
    """

    board: str
    port: UsbPort | str | None = None
    unit: str | None = None
    leased: Unit | None = None

    @contextmanager
    def held(self, *, reason: str, timeout_s: float) -> Iterator[Chosen]:
        """Hold its unit, as `hold_if`; yields it with the unit's port, which labgrid may report.

        It has the name of the place, too, if labgrid chose it among several.
        """
        with hold_if(self.leased, reason=reason, timeout_s=timeout_s) as unit:
            if unit is None or unit.lease == "local":
                yield self
            else:
                name = unit.id if self.leased and self.leased.match else self.unit
                yield replace(self, port=unit.port, unit=name)

    @property
    def name(self) -> str | None:
        """The name of the unit, or of its port; None if only the board is known."""
        return self.unit or self.port_name

    @property
    def port_name(self) -> str | None:
        """The port in one line, independent of the device name; None without a port."""
        return None if self.port is None else port_text(self.port)

    @property
    def is_on_port(self) -> bool:
        """Whether the board is connected to a port, known here or to a coordinator."""
        return self.port is not None or bool(self.leased and self.leased.lease != "local")

    @property
    def probe(self) -> str:
        """Its debug probe, VID:PID:Serial; "" if its unit names none."""
        return self.leased.probe if self.leased else ""


def choose(
    board: str | None, unit: str | None, port: str | None, units: Path | None = None
) -> Chosen:
    """Return the board selected by the options of a command.

    Args:
        board: Board type; None for the project's default if no unit is named.
        unit: Unit of the lab; with ``board`` also a label for a board that is not in the lab.
        port: Serial port.
        units: The lab's ``units.toml``; None for the one that ``units_file`` finds.

    Raises:
        UsageError: The unit or board does not exist, or the options contradict each other or
            select no board.
    """
    lab_unit: Unit | None = None
    if unit is not None and board is not None and units is None:
        # With a board, the name may be only a label.
        lab_unit = next((known for known in lab_units() if known.id == unit), None)
    elif unit is not None:
        lab_unit = find_unit(unit, units)
    if lab_unit is None:
        board = board or find_project().board
        if board is None:
            raise UsageError(
                "no board selected",
                hint="--board native runs it on this computer; `etharness boards` lists others, "
                "and `etharness lab units` units for --unit; or set `board` in [tool.etharness] of "
                "pyproject.toml",
            )
        on_port = None
        if port is not None and (lab := lab_units(units)):
            key = port_key(port)
            on_port = next((known for known in lab if key in lock_keys_of(known)), None)
        return Chosen(board, port, unit, on_port)
    if board is not None:
        _check_board_type(lab_unit, board)
    if port is not None and port != lab_unit.port:
        own = "no port" if lab_unit.port is None else port_text(lab_unit.port)
        raise UsageError(
            f"unit {lab_unit.id!r} is on {own}, but --port is {port}",
            hint="remove --port or --unit",
        )
    return Chosen(lab_unit.board, lab_unit.port, lab_unit.id, lab_unit)


def lab_units(file: Path | None = None) -> tuple[Unit, ...]:
    """Return the units of the lab; () if there is no ``units.toml`` and ``file`` is None."""
    units_path = file or units_file()
    return load_units(units_path) if units_path else ()


def check_identity(info: TargetInfo, board: Board, build_id: str | None) -> None:
    """Check that the target is the selected board, with the expected firmware and clock.

    Args:
        info: The target's answer to HELLO.
        board: The selected board.
        build_id: Build id of the firmware that was built or flashed; None to accept any.

    Raises:
        WrongBoardError: The board or its clock is another one.
        WrongFirmwareError: The firmware is another build.
    """
    if info.board != board.name:
        raise WrongBoardError(f"the target is board {info.board!r}, expected {board.name!r}")
    if build_id is not None and info.build_id != build_id:
        raise WrongFirmwareError(
            f"{info.board} runs firmware {info.build_id!r}, expected {build_id!r}"
        )
    timer, clock = board.timer, info.clocks[0]
    if clock.bits != timer.bits or clock.hz != timer.hz:
        raise WrongBoardError(
            f"{info.board} reports a clock of {clock.hz} Hz and {clock.bits} bits, but its "
            f"board file has {timer.hz} Hz and {timer.bits} bits"
        )


def _check_board_type(unit: Unit, board: str) -> None:
    actual, wanted = load_board(unit.board)[0], load_board(board)[0]
    if actual != wanted:
        raise UsageError(
            f"unit {unit.id!r} is a {actual.name}, but --board is {wanted.name}"
            if actual.name != wanted.name
            else f"unit {unit.id!r} has another board file than {board}: {unit.board}",
            hint="remove --board: the unit defines it",
        )


def lock_keys_of(unit: Unit) -> list[LockKey]:
    """Return the keys that a lease of a unit locks: its name and its current port.

    The port excludes commands that name the device; the name stays the same when the board is
    plugged in elsewhere.
    """
    keys = [unit_key(unit.id)]
    if unit.port is not None:
        with suppress(PortError):  # not connected: whoever opens the port later locks it
            keys.append(port_key(device_of(unit.port)))
    return keys
