"""Who is at the other end of a connection on this host, as ``/proc`` tells."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_ESTABLISHED = "01"


def run_directory_of(port: int, peer: int) -> Path | None:
    """The run directory of the run that is connected to a port of this host, if it is one.

    Args:
        port: Ours.
        peer: Its.
    """
    inode = _inode(peer, port)
    if inode is None:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "run" in words and any(
                str(file.readlink()) == f"socket:[{inode}]" for file in (process / "fd").iterdir()
            ):
                return _output(words, (process / "cwd").readlink())
    return None


def _inode(local: int, remote: int) -> str | None:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.partition(":")[2], 16) for address in fields[1:3]]
        if ports == [local, remote] and fields[3] == _ESTABLISHED:
            return fields[9]
    return None


def _output(words: list[str], folder: Path) -> Path:
    for option, value in zip(words, [*words[1:], ""], strict=True):
        if option in ("-o", "--output"):
            return folder / value
        if joined := re.match("--output=(.*)", option):
            return folder / joined[1]
    return folder / "out/run"
