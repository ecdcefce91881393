"""Build directories in the user's cache: where they are, one build at a time, what they hold."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from harness.errors import InfrastructureError, UsageError
from harness.files import absolute, user_cache
from harness.target.process_group import run_program, with_death_signal

_log = logging.getLogger(__name__)

BUILT: Final = "etharness-built"
"""File in a build directory with the options of the last complete build."""

MOST_CACHE: Final = 10 << 30
"""Size of all build directories above which the longest unused are removed, bytes."""

UNUSED_S: Final = 3600.0
"""A directory that was used so recently is kept: what was built there may be about to start."""

_UNDER_WAY: Final = "etharness-building"
"""File in a build directory while programs write there; it stays if they are killed."""

_BUILD_LIMIT_S: Final = 300.0


def build_root() -> Path:
    """Return the root of build directories: ``$ETHARNESS_BUILD_DIR``, or in the user's cache."""
    if configured := os.environ.get("ETHARNESS_BUILD_DIR"):
        return absolute(configured)  # CMake runs in the source directory
    return user_cache("build")


@contextmanager
def alone_in(directory: Path, what: str) -> Iterator[None]:
    """Lock ``directory`` against builds of other processes; wait for one in progress.

    A directory in which a build was cut off is removed: a compiler that was killed leaves a half
    object file, which Make takes for a new one.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory.with_name(f"{directory.name}.lock"), timeout=_BUILD_LIMIT_S)
    try:
        lock.acquire()
    except Timeout as error:
        raise InfrastructureError(
            f"another process has been building {what} in {directory} for {_BUILD_LIMIT_S:.0f} s",
            hint=f"end that process, which holds {lock.lock_file}, or set ETHARNESS_BUILD_DIR",
        ) from error
    try:
        os.utime(lock.lock_file)  # by which `_trim` knows when the directory was last used
        if (directory / _UNDER_WAY).exists():
            shutil.rmtree(directory)
        yield
    finally:
        lock.release()


@contextmanager
def building_in(directory: Path) -> Iterator[None]:
    """Mark a locked directory while programs write there, for `alone_in` of the next build."""
    directory.mkdir(parents=True, exist_ok=True)
    mark = directory / _UNDER_WAY
    mark.touch()
    try:
        yield
    except UsageError:
        mark.unlink()  # the programs have ended by themselves
        raise
    mark.unlink()
    _trim(directory.parent)


def _trim(root: Path) -> None:
    """Remove the build directories that were not used for longest, until the others fit.

    A directory is kept if a process has locked it, or used it within the last hour.
    """
    found = []
    for lock in root.glob("*.lock"):
        directory = lock.with_suffix("")
        with suppress(OSError):  # another process removes it
            if directory.is_dir():
                found.append((lock.stat().st_mtime, directory, _size_of(directory)))
    total = sum(size for *_, size in found)
    for used, directory, size in sorted(found):
        if total <= MOST_CACHE or time.time() - used < UNUSED_S:
            return
        with suppress(Timeout), FileLock(f"{directory}.lock", timeout=0):
            shutil.rmtree(directory, ignore_errors=True)
            total -= size
            _log.info("removed the build directory %s, unused for longest", directory)


def _size_of(directory: Path) -> int:
    """Return the bytes of all files in a directory."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{folder}/{name}").st_size
    return total


def run_build_step(command: list[str], cwd: Path, what: str) -> None:
    """Run one program of a build in ``cwd``; ``what`` is built.

    Raises:
        UsageError: It failed, and the message has the end of its output; or it does not exist.
        InfrastructureError: It timed out, was killed, or cannot be started.
    """
    try:
        done = run_program(with_death_signal(command), _BUILD_LIMIT_S, cwd=cwd)
    except FileNotFoundError as error:
        raise UsageError(f"cannot start {command[0]}: {error.strerror}") from error
    except OSError as error:
        raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from error
    if done.code is None:
        raise InfrastructureError(
            f"building {what} timed out after {_BUILD_LIMIT_S:.0f} s{done.remains}",
            hint="try again when the machine is less busy",
        )
    if done.code < 0:
        raise InfrastructureError(
            f"building {what} failed: {command[0]} {done.how}{done.remains}",
            hint="try again; the host may have run out of memory",
        )
    if done.code != 0:
        tail = "\n".join(done.output.strip().splitlines()[-20:])
        raise UsageError(f"building {what} failed: {' '.join(command)}\n{tail}")
