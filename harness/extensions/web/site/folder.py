"""The folder of a site: a file is written only if its content changed, and removed when it is gone.

A manifest lists every file by its digest. It also tells that the folder is a site, so that no
other folder is ever written to.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import HostError, UsageError
from harness.files import decode_json, display_path, write_atomic

MANIFEST: Final = "etharness-site.json"

_VERSION: Final = 1


class SiteManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a site.

    Attributes:
        version: Version of this format.
        files: SHA-256 of each file, by its path.
        groups: What the files of a model on a unit were made of: a digest by the path of its data.
    """

    version: int = _VERSION
    files: dict[str, str] = {}
    groups: dict[str, str] = {}


class SiteChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What writing a site did.

    Attributes:
        directory: Folder of the site.
        results: Results of the history.
        written: Files that were written, sorted.
        removed: Files that were removed, because what they showed is gone, sorted.
        unchanged: Number of files that stayed as they were.
    """

    directory: str
    results: int
    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


class SiteFolder:
    """The folder of a site while it is written.

    Attributes:
        directory: The folder.
    """

    def __init__(self, directory: Path) -> None:
        """Read the manifest of an existing site; nothing is written yet.

        Raises:
            UsageError: The folder is not empty and not a site, or its manifest is damaged.
        """
        self.directory = directory
        self._before = _read_manifest(directory)
        self._files: dict[str, str] = {}
        self._groups: dict[str, str] = {}
        self._written: list[str] = []
        self._made: set[Path] = set()
        self._marked = False

    def kept_group(self, data: str, digest: str) -> bytes | None:
        """Keep all files of a model on a unit if they were made of the same; return its data.

        Args:
            data: Path of its data file.
            digest: Digest of what it would be made of.
        """
        if self._before.groups.get(data) != digest:
            return None
        slug = data.removeprefix("data/").removesuffix(".js")
        files = [data, f"models/{slug}.html"]
        files += [name for name in self._before.files if name.startswith(f"series/{slug}/")]
        if not all(self._is_there(name) for name in files):
            return None
        for name in files:
            self._files[name] = self._before.files[name]
        self._groups[data] = digest
        return (self.directory / data).read_bytes()

    def add_group(self, data: str, digest: str, files: Mapping[str, bytes]) -> None:
        """Write all files of a model on a unit."""
        for name, content in files.items():
            self.add(name, content)
        self._groups[data] = digest

    def add(self, name: str, content: bytes) -> None:
        """Write a file unless it has this content.

        Raises:
            HostError: It cannot be written.
        """
        self._files[name] = hashlib.sha256(content).hexdigest()
        if self._read(name) != content:
            self._write(name, content)
            self._written.append(name)

    def finish(self, results: int) -> SiteChanges:
        """Write the manifest and remove files that no page is of any more.

        Raises:
            HostError: The manifest cannot be written.
        """
        removed = sorted(self._before.files.keys() - self._files.keys())
        manifest = SiteManifest(
            files=dict(sorted(self._files.items())), groups=dict(sorted(self._groups.items()))
        )
        # Before files are removed: a site that is cut off here has files too many, not too few.
        if manifest != self._before:
            self._write(MANIFEST, _encoded(manifest))
        for name in removed:
            with contextlib.suppress(OSError):
                (self.directory / name).unlink()
        for folder in sorted({(self.directory / name).parent for name in removed}, reverse=True):
            with contextlib.suppress(OSError):  # not empty
                if folder != self.directory:
                    folder.rmdir()
        return SiteChanges(
            directory=display_path(self.directory),
            results=results,
            written=tuple(sorted(self._written)),
            removed=tuple(removed),
            unchanged=len(self._files) - len(self._written),
        )

    def _is_there(self, name: str) -> bool:
        """Whether a file still is what the manifest says."""
        content = self._read(name)
        known = self._before.files.get(name)
        return content is not None and hashlib.sha256(content).hexdigest() == known

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.directory / name).read_bytes()
        except OSError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        if not self._marked:
            # First of all: a folder that is cut off while it is filled must still be ours.
            self._marked = True
            if not (self.directory / MANIFEST).exists():
                self._write(MANIFEST, _encoded(self._before))
        path = self.directory / name
        try:
            if path.parent not in self._made:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._made.add(path.parent)
            write_atomic(path, content)
        except OSError as error:
            raise HostError.of(error, f"cannot write {display_path(path)}") from error


def _encoded(manifest: SiteManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def _read_manifest(directory: Path) -> SiteManifest:
    file = directory / MANIFEST
    again = f"write the site to a new folder, or remove {display_path(directory)} and try again"
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if not _is_empty(directory):
            raise UsageError(
                f"{display_path(directory)} is not empty and not a site",
                hint="give a new or empty folder, or the folder of a site that etharness wrote",
            ) from None
        return SiteManifest()
    except OSError as error:
        raise UsageError(
            f"cannot read {display_path(file)}: {error.strerror}", hint=again
        ) from error
    try:
        found = decode_json(content, type_=SiteManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{display_path(file)} is damaged: {error}", hint=again) from error
    if found.version != _VERSION:
        raise UsageError(
            f"{display_path(file)} is of version {found.version}, this package writes {_VERSION}",
            hint=again,
        )
    outside = [name for name in found.files if not _is_inside(name)]
    if outside:
        raise UsageError(f"{display_path(file)} names a file outside: {outside[0]!r}", hint=again)
    return found


def _is_inside(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and name != ""


def _is_empty(directory: Path) -> bool:
    try:
        found: Iterable[Path] = directory.iterdir()
        return not any(found)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        raise UsageError(
            f"{display_path(directory)} is not a folder", hint="give a new or empty folder"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read {display_path(directory)}: {error.strerror}",
            hint="give a folder that can be read and written",
        ) from error
