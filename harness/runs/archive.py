"""Archives: reproducible zip files with a digest over the whole file.

The comment of the zip file is the SHA-256 of all bytes before it, so that any change is detected.
Size limits are checked before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from harness.errors import FormatError, UsageError

MOST_BYTES: Final = 1 << 30
"""Largest total size of the files of an archive, bytes."""

MOST_FILES: Final = 10_000

_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
"""Timestamp of all files, the earliest of the format: archives of equal files are equal."""

_COMMENT: Final = re.compile(rb"sha256:([0-9a-f]{64})")
_COMMENT_SIZE: Final = 71
_LENGTH_SIZE: Final = 2
"""Size of the comment's length field, which precedes it."""

_AGAIN: Final = "copy it again from its origin"

_BROKEN: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(EOFError, OSError, ValueError, OverflowError),
)
"""Exceptions of ``zipfile`` for invalid files."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files, sorted by name.

    Raises:
        UsageError: There are too many files, they are too large, or a name is not portable.
    """
    total = sum(map(len, files.values()))
    if total > MOST_BYTES or len(files) > MOST_FILES:
        raise UsageError(f"{len(files)} files of {total:,} bytes exceed the limits of an archive")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            if problem := _problem(name):
                raise UsageError(f"cannot archive {name!r}: the name {problem}")
            info = zipfile.ZipInfo(name, _BEGINNING)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, whatever the host
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name])
    body = packed.getvalue()
    comment = b"sha256:" + hashlib.sha256(body).hexdigest().encode()
    return body[:-_LENGTH_SIZE] + len(comment).to_bytes(_LENGTH_SIZE, "little") + comment


def unpack(data: bytes, where: str) -> dict[str, bytes]:
    """Return the files of an archive after verifying its digest.

    Args:
        data: The archive.
        where: Its name, for messages.

    Raises:
        FormatError: The data is not an archive of this package, or is damaged.
    """
    unsound = _unsound(data)
    note = f". The archive {unsound}" if unsound else ""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _BROKEN as error:
        raise FormatError(
            f"{where} is not a bundle, or its end is damaged: {error}", hint=_AGAIN
        ) from error
    with archive:
        members = archive.infolist()
        _refuse_bombs(members, where, note)
        files: dict[str, bytes] = {}
        for member in members:
            name = member.filename
            problem = "is duplicated" if name in files else _problem(name)
            if problem:
                raise FormatError(
                    f"{where} contains {name!r}, which {problem}: nothing was unpacked{note}"
                )
            try:
                files[name] = archive.read(member)
            except _BROKEN as error:
                raise FormatError(f"{where}: {name} is damaged: {error}", hint=_AGAIN) from error
    if unsound:
        raise FormatError(f"{where} {unsound}", hint=_AGAIN)
    return files


def _refuse_bombs(members: list[zipfile.ZipInfo], where: str, note: str) -> None:
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES or len(members) > MOST_FILES:
        raise FormatError(
            f"{where} would unpack to {len(members):,} files of {total:,} bytes: "
            f"the limits are {MOST_FILES:,} files and {MOST_BYTES:,} bytes{note}"
        )


def _unsound(data: bytes) -> str:
    """Return the problem with the digest of an archive; "" if it is correct."""
    comment = _COMMENT.fullmatch(data[-_COMMENT_SIZE:])
    length = data[-_COMMENT_SIZE - _LENGTH_SIZE : -_COMMENT_SIZE]
    # The digest covers a length field of zero, so the actual length is checked separately.
    if comment is None or int.from_bytes(length, "little") != _COMMENT_SIZE:
        return "does not end with its digest: it was not made by etharness, or is damaged"
    body = data[: -_COMMENT_SIZE - _LENGTH_SIZE] + bytes(_LENGTH_SIZE)
    if hashlib.sha256(body).hexdigest().encode() != comment[1]:
        return "is damaged: its SHA-256 does not match the digest at its end"
    return ""


def _problem(name: str) -> str:
    """Return the problem with a name; "" if it is portable."""
    if not name or not name.isprintable() or "\\" in name or ":" in name:
        return "has characters that are not portable"
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        return "points outside the archive or is not normalized"
    return ""
