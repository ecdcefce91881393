"""Files: absolute and printable paths, regular files, and where models and other data files are."""

from __future__ import annotations

import mmap
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from harness.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"


def resolve_word(word: str, folder: Path) -> str:
    """Resolve a word of a command that a file in ``folder`` contains.

    ``./x`` and ``../x`` are relative to ``folder``; all other words stay as they are.
    """
    return str(absolute(folder / word)) if word.startswith(("./", "../")) else word


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path, valid in every working directory; symbolic links are kept."""
    return Path(os.path.abspath(path)) if os.fspath(path) else Path(path)  # noqa: PTH100


def display_path(path: Path) -> str:
    """Return a path for messages: relative to the working directory if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


_OPEN_FLAGS = (
    getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)  # Windows: without it, line ends are converted
)
"""Flags for opening a file of a folder that others write; Python adds O_CLOEXEC itself."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""0 on Windows, where a symbolic link is only detected by ``stat``."""

_REPLACE_S = 1.0
"""Longest wait on Windows until nobody has a file open that is to be replaced, seconds."""


class NotRegularFileError(OSError):
    """The path is not a regular file, but a folder, FIFO, socket, device or symbolic link."""

    def __init__(self, path: Path) -> None:
        super().__init__(0, "not a regular file", os.fspath(path))


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a regular file and return its descriptor.

    Use this for files found by scanning a folder: opening a FIFO can block, and opening a device
    can have side effects.

    Args:
        path: The file.
        flags: Flags of ``os.open``; new files get mode 0600.
        follow: Follow symbolic links.

    Raises:
        NotRegularFileError: The path is something else.
        OSError: The file does not exist or cannot be opened.
    """
    try:
        found = path.stat(follow_symlinks=follow).st_mode
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    else:
        if not stat.S_ISREG(found):
            raise NotRegularFileError(path)
    # The path may have been replaced since stat(): do not block on it or follow it either way.
    flags |= _OPEN_FLAGS | (0 if follow else _NO_FOLLOW)
    file = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegularFileError(path)
    return file


def read_regular(path: Path, most: int = -1, *, follow: bool = True) -> bytes:
    """Read a regular file, or its first ``most`` bytes.

    Raises:
        NotRegularFileError: The path is something else.
        OSError: The file does not exist or cannot be read.
    """
    file: BinaryIO
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        return file.read(most)


MOST_MODEL: Final = (1 << 31) - 1
"""Largest model or debug buffer, bytes: offsets in a FlatBuffer are signed and have 32 bits."""

MOST_DOCUMENT: Final = 256 << 20
"""Largest JSON document of a run, a night or a history, bytes; usual ones have some kilobytes."""

MOST_TRACE: Final = 16 << 30
"""Largest file with traces, bytes."""

_PIECE: Final = 1 << 20


class TooLargeError(UsageError):
    """A file is larger than any sound file of its kind; it was not read."""


def check_size(path: Path, size: int, most: int) -> None:
    """Check the size of a file before memory is taken for it.

    Raises:
        TooLargeError: It is larger than ``most`` bytes.
    """
    if size > most:
        raise TooLargeError(
            f"{display_path(path)} is too large: {size:,} bytes, the limit is {most:,}",
            hint="check that it is the right file, and that it is not damaged",
        )


def read_limited(path: Path, most: int) -> bytes:
    """Read a file of at most ``most`` bytes; it may be a pipe, whose size is not known before.

    Raises:
        TooLargeError: It is larger.
        OSError: It does not exist or cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, most)
        data = file.read(size)
        while piece := file.read(_PIECE):
            data += piece
            check_size(path, len(data), most)
        return data


Content = bytes | mmap.mmap
"""The bytes of a file, or a large file mapped into memory."""

_MAPPED = 1 << 24
"""Size in bytes from which on a file is mapped instead of read."""


def map_or_read(path: Path) -> Content:
    """Return the content of a file; a large one is mapped, and takes memory only while it is used.

    A mapped file must not be shortened while it is read: the operating system ends a process that
    reads beyond the end.

    Raises:
        TooLargeError: It has more than `MOST_TRACE` bytes.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, MOST_TRACE)
        if size < _MAPPED:
            return file.read()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def release(content: Content) -> None:
    """Give the memory of a mapped file back; it is read again from the file when needed."""
    if sys.platform == "win32":
        return  # it has no madvise(); Windows takes pages of a mapped file back when it needs them
    if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        content.madvise(mmap.MADV_DONTNEED)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file that is complete or absent at any moment; an existing file is replaced.

    Raises:
        OSError: The file cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(data)
    except OSError:
        # On a full disk, a partial file takes space from complete ones.
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    replace_file(partial, path)


def replace_file(partial: Path, path: Path) -> None:
    """Move ``partial`` to ``path``, which is replaced if it exists.

    Raises:
        OSError: The file cannot be moved; ``partial`` still exists.
    """
    deadline = time.monotonic() + _REPLACE_S
    while True:
        try:
            partial.replace(path)
            return
        except PermissionError:
            # Windows does not replace a file while another process reads it. Readers of our
            # files close them within milliseconds. Elsewhere, the permissions are missing.
            if os.name != "nt" or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def read_tail(path: Path, count: int) -> bytes:
    """Read the last bytes of a regular file, at most ``count``.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    file: BinaryIO
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - count))
        return file.read(count)


def data_directory(name: str) -> Path:
    """Return the directory ``name`` (``boards``, ``docs``, ``schema`` or ``firmware_stub``).

    A wheel has copies in ``harness/_data``; a checkout has them at its top level.
    """
    packaged = _DATA / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def packaged_models() -> dict[str, Path]:
    """Return the paths of the packaged models by name, such as ``kws_int8``."""
    models = data_directory("firmware_stub") / "models"
    return {path.stem: path for path in sorted(models.glob("*.pte"))}


def packaged_model(name: str) -> Path | None:
    """Return the path of a packaged model such as ``kws_int8``, or None."""
    return packaged_models().get(name)


def find_model(model: Path) -> Path:
    """Return ``model``, or the packaged model if ``model`` is its bare name.

    A file in the working directory takes precedence. Only a name without folder and suffix can
    select a packaged model, so a mistyped path never runs another model.
    """
    bare = model.suffix == "" and model.absolute().parent == Path.cwd()
    packaged = packaged_model(model.name) if bare and not model.exists() else None
    return packaged or model


def read_model(path: Path) -> bytes:
    """Read a ``.pte`` file.

    Raises:
        UsageError: It cannot be read, or is too large.
    """
    try:
        return read_limited(path, MOST_MODEL)
    except OSError as error:
        raise UsageError(
            f"cannot read the model {display_path(path)}: {error.strerror}",
            hint="give a .pte file, or the name of a model that comes with the package, such as "
            "kws_int8",
        ) from error


def user_cache(name: str) -> Path:
    """Return the path of the directory ``name`` in the user's cache; it may not exist yet.

    The cache is below ``$XDG_CACHE_HOME``, by default ``~/.cache``.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return absolute(Path(cache).expanduser()) / "etdump-harness" / name
