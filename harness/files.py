"""Files: paths, regular files, where data files are, and buffers and files with a size limit.

``CappedBuffer`` and ``CappedFile`` keep head and tail of a stream, and count the rest. The output
of boards and programs is unbounded: a port can send text for as long as it is open. The head shows
how the output began, the tail what came last.
"""

from __future__ import annotations

import io
import mmap
import os
import re
import stat
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, overload

from harness.errors import UsageError

if TYPE_CHECKING:
    import msgspec

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

MOST_PIPE: Final = 2 << 30
"""Longest trace read from a pipe, bytes; it is in memory, because a pipe cannot be mapped."""

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


class DeviceFileError(UsageError):
    """A path names a device, such as ``/dev/zero`` or a serial port; it was not opened."""


def _open_data(path: Path) -> BinaryIO:
    """Open a regular file or a pipe.

    Raises:
        DeviceFileError: It is a device: reading may never end, and opening one can have effects,
            such as the reset of a board.
        OSError: It does not exist or cannot be opened.
    """
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DeviceFileError(
            f"{display_path(path)} is a device, not a file", hint="give a file or a pipe"
        )
    return path.open("rb")


def _read_all(file: BinaryIO, path: Path, most: int) -> bytes:
    # A buffer that grows by a share of its size: time stays linear, and nothing is copied.
    buffer = io.BytesIO()
    while piece := file.read(_PIECE):
        check_size(path, buffer.tell() + len(piece), most)
        buffer.write(piece)
    return buffer.getvalue()


def read_limited(path: Path, most: int) -> bytes:
    """Read a file of at most ``most`` bytes; it may be a pipe, whose size is not known before.

    Raises:
        DeviceFileError: It is a device.
        TooLargeError: It is larger.
        OSError: It does not exist or cannot be read.
    """
    with _open_data(path) as file:
        check_size(path, os.fstat(file.fileno()).st_size, most)
        return _read_all(file, path, most)


Content = bytes | mmap.mmap
"""The bytes of a file, or a large file mapped into memory."""

_MAPPED = 1 << 24
"""Size in bytes from which on a file is mapped instead of read."""


def map_or_read(path: Path) -> Content:
    """Return the content of a file; a large one is mapped, and takes memory only while it is used.

    A mapped file must not be shortened while it is read: the operating system ends a process that
    reads beyond the end.

    Raises:
        DeviceFileError: It is a device.
        TooLargeError: It has more than `MOST_TRACE` bytes, or a pipe more than `MOST_PIPE`.
        OSError: The file cannot be read.
    """
    with _open_data(path) as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, MOST_TRACE)
        if size < _MAPPED:
            return _read_all(file, path, MOST_PIPE)
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


def find_model(model: Path) -> Path:
    """Return ``model``, or the packaged model if ``model`` is its bare name.

    A file in the working directory takes precedence. Only a name without folder and suffix can
    select a packaged model, so a mistyped path never runs another model.
    """
    bare = model.suffix == "" and model.absolute().parent == Path.cwd()
    packaged = packaged_models().get(model.name) if bare and not model.exists() else None
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


_FILLERS: Final = (0x00, 0xFF, 0x1A)
"""The rest of a buffer, erased flash memory, and the last block of an XMODEM transfer."""


def is_padding(data: Content, begin: int = 0) -> bool:
    """Return whether the bytes from ``begin`` on only fill the file; True for none."""
    if begin >= len(data):
        return True
    if data[begin] not in _FILLERS:  # without a copy of the rest, for each of many images
        return False
    return not data[begin:].strip(data[begin : begin + 1])


HEAD_BYTES: Final = 256 << 10
"""Default size of the head, bytes."""

TAIL_BYTES: Final = 1 << 20
"""Default size of the tail, bytes."""

_LINE_BYTES: Final = 96
"""Length of the line that reports omitted bytes: fixed, because it is rewritten in place."""


class CappedBuffer:
    """Head and tail of a byte stream, in memory.

    Attributes:
        size: Length of the stream so far, bytes.
    """

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.size = 0
        self._most = head
        self._keep = tail
        self._head = bytearray()
        self._tail = bytearray()

    def extend(self, data: bytes) -> None:
        """Append to the stream."""
        self.size += len(data)
        room = self._most - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._keep:
            self._tail[:] = data[len(data) - self._keep :]
            return
        self._tail += data
        if len(self._tail) > 2 * self._keep:  # rarely, so that each byte is moved at most once
            del self._tail[: len(self._tail) - self._keep]

    @property
    def left_out(self) -> int:
        """Number of bytes omitted."""
        return self.size - len(self._head) - min(len(self._tail), self._keep)

    @property
    def kept(self) -> bytes:
        """Head and tail, concatenated."""
        return bytes(self._head + self._tail[max(0, len(self._tail) - self._keep) :])

    def __bytes__(self) -> bytes:
        """Head and tail, with a line between them that reports the number of omitted bytes."""
        kept, head = self.kept, len(self._head)
        if not self.left_out:
            return kept
        return kept[:head] + f"\n[{self.left_out} bytes left out]\n".encode() + kept[head:]


class CappedFile:
    """A file with head and tail of a stream, limited in size at all times.

    Bytes are written at once, so they survive if this process is killed. After the head the file is
    a ring; closing it puts the ring in order.

    Attributes:
        path: The file.
        size: Length of the stream so far, bytes.
        error: The first write error, or None; all later bytes are dropped, because writers must
            not block.
    """

    def __init__(self, path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        """Create or truncate the file.

        Raises:
            OSError: The file cannot be created.
        """
        self.path = path
        self.size = 0
        self.error: OSError | None = None
        self._head = head
        self._end = head + tail
        self._first = head + _LINE_BYTES
        """Start of the ring, after the line that reports omitted bytes."""
        self._ring = self._end - self._first
        self._lock = threading.Lock()
        if path.is_symlink():  # the file that it leads to is not of this log
            path.unlink()
        self._file = path.open("w+b", buffering=0)

    def write(self, data: bytes) -> None:
        """Append to the stream; an error is stored in ``error``."""
        with self._lock:
            if self.error is not None or self._file.closed:
                return
            try:
                self._write(data)
            except OSError as error:
                error.filename = error.filename or os.fspath(self.path)
                self.error = error

    @property
    def left_out(self) -> int:
        """Number of bytes omitted."""
        return 0 if self.size <= self._end else self.size - self._head - self._ring

    def close(self) -> None:
        """Put the ring in order and close the file; further calls do nothing."""
        with self._lock:
            if self._file.closed:
                return
            try:
                if self.left_out:
                    self._put_in_order()
            except OSError as error:
                self.error = self.error or error
            finally:
                self._file.close()

    def __enter__(self) -> CappedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            offset = self._offset(self.size)
            if offset == self._first and self.size >= self._end:
                self._say(f"[bytes left out: {self.left_out}, at least; from here on a ring]")
            count = self._write_at(offset, rest[: self._end - offset])
            self.size += count
            rest = rest[count:]

    def _offset(self, number: int) -> int:
        """Return the offset in the file of byte ``number`` of the stream."""
        if number < self._end:
            return number
        return self._first + (number - self._first) % self._ring

    def _say(self, text: str) -> None:
        line = f"\n{text}".ljust(_LINE_BYTES - 1) + "\n"
        self._write_at(self._head, line.encode())

    def _put_in_order(self) -> None:
        self._file.seek(self._first)
        ring = self._file.read(self._ring)
        oldest = self._offset(self.size) - self._first
        self._write_at(self._first, ring[oldest:] + ring[:oldest])
        self._say(f"[{self.left_out} bytes left out]")

    def _write_at(self, offset: int, data: bytes | memoryview) -> int:
        """Write at an offset; return the number of bytes written, as ``pwrite`` on Unix does."""
        self._file.seek(offset)
        return self._file.write(data)


_T = TypeVar("_T")

DESCRIBING: Final = threading.RLock()
"""Held while msgspec uses a type that it may not know yet: 0.22 crashes when two threads do that
with the same type at the same time."""


_MOST_DIGITS: Final = 20
_DIGITS: Final = re.compile(rb"-\d{19}|\d{20}")
"""What an integer of more than 64 bits has; a digest or a fraction may have it, too."""


@overload
def decode_json(data: bytes | str, type_: type[_T]) -> _T: ...
@overload
def decode_json(data: bytes | str, type_: Any = Any, *, strict: bool = True) -> Any: ...
def decode_json(data: bytes | str, type_: Any = Any, *, strict: bool = True) -> Any:
    """Return the document as an instance of ``type_``, as ``msgspec.json.decode`` does.

    Raises:
        msgspec.DecodeError: It is not such JSON, is not UTF-8, its brackets are nested too deeply,
            or an integer needs more than 64 bits. msgspec accepts the last, which then fails where
            it is computed with, and raises errors for the others that nobody expects of a
            damaged file.
    """
    import json

    import msgspec

    try:
        if _DIGITS.search(data if isinstance(data, bytes) else data.encode()):
            json.loads(data, parse_int=_checked)
        return _decoder(type_, strict).decode(data)
    except RecursionError as error:
        raise msgspec.DecodeError("brackets are nested too deeply") from error
    except (OverflowError, json.JSONDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from error
    except UnicodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error}") from error


def _checked(digits: str) -> None:
    if len(digits) > _MOST_DIGITS or not -(1 << 63) <= int(digits) < 1 << 64:
        raise OverflowError(f"the number {digits[:40]} needs more than 64 bits")


@cache
def _decoder(type_: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    import msgspec  # here, because commands that only print their help read no JSON

    with DESCRIBING:
        return msgspec.json.Decoder(type_, strict=strict)
