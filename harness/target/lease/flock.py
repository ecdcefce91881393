"""Kernel lock on a file (``flock``): the kernel ends it with the process, even after SIGKILL."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from pathlib import Path
from typing import Final

from harness.errors import InfrastructureError
from harness.files import NotRegularFileError, open_regular

_log = logging.getLogger(__name__)

_warned: Final[set[str]] = set()
"""Paths that a warning has been logged for."""


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
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                return False
            raise self._failed(error) from error
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
            # A shared lock, so that two concurrent queries do not see each other as a holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(file)
        return False

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
        # Closing is not LOCK_UN: the lock lasts until every forked child has closed its copy, too.
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
    mode = directory.stat().st_mode & 0o666
    with contextlib.suppress(PermissionError):  # the file's owner has done so
        if os.fstat(file).st_mode & 0o666 != mode:
            os.fchmod(file, mode)


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
        "(docs/lab.md)",
    )
