"""Kernel lock on a file: the kernel ends it with the process, even after SIGKILL.

It is ``flock`` on Unix. On Windows, it is a locked range of one byte (``msvcrt.locking``).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import time
from pathlib import Path
from typing import Any, Final, Protocol

from harness.errors import InfrastructureError
from harness.files import NotRegularFileError, open_regular

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
