"""Build directories in the user's cache: where they are, one build at a time, what they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from harness.errors import InfrastructureError, UsageError
from harness.files import absolute, user_cache
from harness.target.process_group import run_program, with_death_signal

BUILT: Final = "etharness-built"
"""File in a build directory with the options of the last complete build."""

_BUILD_LIMIT_S: Final = 300.0


def build_root() -> Path:
    """Return the root of build directories: ``$ETHARNESS_BUILD_DIR``, or in the user's cache."""
    if configured := os.environ.get("ETHARNESS_BUILD_DIR"):
        return absolute(configured)  # CMake runs in the source directory
    return user_cache("build")


@contextmanager
def alone_in(directory: Path, what: str) -> Iterator[None]:
    """Lock ``directory`` against builds of other processes; wait for one in progress."""
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
        yield
    finally:
        lock.release()


def run_build_step(command: list[str], cwd: Path, what: str) -> None:
    """Run one program of a build in ``cwd``; ``what`` is built.

    Raises:
        UsageError: It failed, and the message has the end of its output; or it does not exist.
        InfrastructureError: It timed out, or cannot be started.
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
    if done.code != 0:
        tail = "\n".join(done.output.strip().splitlines()[-20:])
        raise UsageError(f"building {what} failed: {' '.join(command)}\n{tail}")
