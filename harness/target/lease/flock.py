"""A lock of the kernel on a file: it ends with the process that has it, however that ends."""

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

_passed_over: Final[set[str]] = set()
"""What there has been a warning of."""


class Flock:
    """An exclusive lock on a file, which is made if need be and never removed.

    Not ``filelock``: where a file system has no locks that falls back to files that exist, which
    would outlive their makers, and one cannot ask it whether a lock is held without taking it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> bool:
        """Take it if nobody has it, without waiting.

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

    def is_taken(self) -> bool:
        """Whether anybody has it at the moment.

        Raises:
            InfrastructureError: The file cannot be opened, or the file system has no locks.
        """
        try:
            file = self._open(os.O_RDWR)
        except FileNotFoundError:
            return False
        except NotRegularFileError as error:
            pass_over(error)
            return False
        except OSError as error:
            raise self._failed(error) from error
        try:
            # Shared, so that two who ask do not take each other for a holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(file)
        return False

    @property
    def is_ours(self) -> bool:
        """Whether we have it still: nobody has removed the file, so that others would make anew."""
        if self._file is None:
            return False
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._file), self.path.lstat())
        return False

    def release(self) -> None:
        """Let it go; further calls do nothing.

        By closing alone: what a child has inherited by a fork stays locked until that ends, too.
        """
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self, flags: int) -> int:
        file = open_regular(self.path, flags)
        try:
            share(file, self.path.parent)
        except OSError:
            os.close(file)
            raise
        return file

    def _failed(self, error: OSError) -> InfrastructureError:
        return _cannot(f"lock {self.path}", error)


def make_directory(directory: Path) -> None:
    """Make a directory for locks, unless there is one.

    Raises:
        InfrastructureError: It cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot(f"make {directory}", error) from error


def share(file: int, directory: Path) -> None:
    """Let those use a file of ours who may use its directory."""
    mode = directory.stat().st_mode & 0o666
    with contextlib.suppress(PermissionError):  # another user's, who has done so
        if os.fstat(file).st_mode & 0o666 != mode:
            os.fchmod(file, mode)


def pass_over(error: NotRegularFileError) -> None:
    """Warn of something between locks and notes that is neither; once, as it is met often."""
    name = str(error.filename)
    if name not in _passed_over:
        _passed_over.add(name)
        _log.warning("%s: not a regular file, so it is no lease: remove it", name)


def _cannot(what: str, error: OSError) -> InfrastructureError:
    if isinstance(error, NotRegularFileError):
        return InfrastructureError(f"cannot {what}: {error.strerror}", hint="remove it")
    return InfrastructureError(
        f"cannot {what}: {error.strerror}",
        hint="name a directory that may be written, on a disk with locks, in $ETHARNESS_LOCK_DIR "
        "(docs/lab.md)",
    )
