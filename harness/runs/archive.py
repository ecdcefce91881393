"""Archives: files in a zip that any tool opens, the same bytes for the same files, checked whole.

The comment of the archive holds the SHA-256 of all that stands before it, so no byte of it can be
another one without showing. What is read is bounded before anything is unpacked.
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
"""Bytes that the files of an archive may have together."""

MOST_FILES: Final = 10_000

_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can say, so that it is always the same."""

_COMMENT: Final = re.compile(rb"sha256:([0-9a-f]{64})")
_COMMENT_SIZE: Final = 71
_LENGTH_SIZE: Final = 2
"""Of the length of the comment, which stands before it."""

_AGAIN: Final = "copy it again from where it was made"

_BROKEN: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(EOFError, OSError, ValueError, OverflowError),
)
"""What ``zipfile`` raises at files that are not what they should be."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files by their names, in the order of the names.

    Raises:
        UsageError: There are too many of them, they are too large, or a name is not a plain one.
    """
    total = sum(map(len, files.values()))
    if total > MOST_BYTES or len(files) > MOST_FILES:
        raise UsageError(f"{len(files)} files of {total:,} bytes are too much for an archive")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            if problem := _problem(name):
                raise UsageError(f"{name!r} cannot be put into an archive: it {problem}")
            info = zipfile.ZipInfo(name, _BEGINNING)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # whatever system it is made on
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name])
    body = packed.getvalue()
    comment = b"sha256:" + hashlib.sha256(body).hexdigest().encode()
    return body[:-_LENGTH_SIZE] + len(comment).to_bytes(_LENGTH_SIZE, "little") + comment


def unpack(data: bytes, where: str) -> dict[str, bytes]:
    """Return the files of an archive, which is sound to the last byte.

    Args:
        data: The archive.
        where: Its name, for messages.

    Raises:
        FormatError: It is none, is damaged, or holds what no archive of ours does.
    """
    unsound = _unsound(data)
    note = f". The archive {unsound}" if unsound else ""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _BROKEN as error:
        raise FormatError(
            f"{where} is no bundle, or its end is damaged: {error}", hint=_AGAIN
        ) from error
    with archive:
        members = archive.infolist()
        _refuse_bombs(members, where, note)
        files: dict[str, bytes] = {}
        for member in members:
            name = member.filename
            problem = "is there twice" if name in files else _problem(name)
            if problem:
                raise FormatError(
                    f"{where} holds {name!r}, which {problem}: nothing was unpacked{note}"
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
            f"more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes are refused{note}"
        )


def _unsound(data: bytes) -> str:
    """What is wrong with the digest of an archive, or ""."""
    comment = _COMMENT.fullmatch(data[-_COMMENT_SIZE:])
    length = data[-_COMMENT_SIZE - _LENGTH_SIZE : -_COMMENT_SIZE]
    # The digest is of a length of zero, so the length that stands there is checked by itself.
    if comment is None or int.from_bytes(length, "little") != _COMMENT_SIZE:
        return "does not end with its digest: it was not made by etharness, or is damaged"
    body = data[: -_COMMENT_SIZE - _LENGTH_SIZE] + bytes(_LENGTH_SIZE)
    if hashlib.sha256(body).hexdigest().encode() != comment[1]:
        return "is damaged: its SHA-256 is not the one at its end"
    return ""


def _problem(name: str) -> str:
    """What is wrong with a name, or ""."""
    if not name or not name.isprintable() or "\\" in name or ":" in name:
        return "has characters that not every system takes"
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        return "leads out of the archive or is not the shortest name"
    return ""
