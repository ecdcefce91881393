"""Files as they are found: what others may have put into a folder that is scanned, and tails."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularFileError(OSError):
    """There is something, but no regular file: a folder, FIFO, socket, device or symbolic link."""

    def __init__(self, path: Path) -> None:
        super().__init__(0, "not a regular file", os.fspath(path))


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a regular file; its descriptor.

    For files that are found, not named by somebody: to open a FIFO waits for whoever is at its
    other end, and to open a device may do something to it.

    Args:
        path: The file.
        flags: As of ``os.open``; a file that is made belongs to its user alone.
        follow: Also where it is a symbolic link to one.

    Raises:
        NotRegularFileError: It is something else.
        OSError: There is none, or it cannot be opened.
    """
    try:
        found = path.stat(follow_symlinks=follow).st_mode
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    else:
        if not stat.S_ISREG(found):
            raise NotRegularFileError(path)
    # It may have become something else since: then to open it neither waits nor follows.
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    file = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegularFileError(path)
    return file


def read_regular(path: Path, most: int = -1, *, follow: bool = True) -> bytes:
    """Read a regular file, or its first ``most`` bytes.

    Raises:
        NotRegularFileError: It is something else.
        OSError: There is none, or it cannot be read.
    """
    file: BinaryIO
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        return file.read(most)


def read_tail(path: Path, count: int) -> bytes:
    """Read the last bytes of a regular file, at most ``count``.

    Raises:
        OSError: There is none, or it cannot be read.
    """
    file: BinaryIO
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - count))
        return file.read(count)


def shown(path: Path) -> str:
    """A path as messages say it: from the working folder, where it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def placed_word(word: str, folder: Path) -> str:
    """A word of a command in a file in ``folder``: ``./x`` and ``../x`` are relative to that."""
    return str(absolute(folder / word)) if word.startswith(("./", "../")) else word


def absolute(path: Path | str) -> Path:
    """A path from the root, so that it means the same in every working folder; links stay."""
    return Path(os.path.abspath(path)) if os.fspath(path) else Path(path)  # noqa: PTH100
