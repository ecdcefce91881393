"""The firmware of a simulated board: images of it, and the process that runs one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

import harness
from harness import build_firmware

OTHER_BUILD = "0ddf1e1d0000"
OTHER_BOARD = "gadget"


class Image(Enum):
    """What may be on a board."""

    RIGHT = auto()
    OTHER_BUILD = auto()
    OTHER_BOARD = auto()


def images_in(directory: Path) -> dict[Image, Path]:
    """Where ``make_images`` puts them."""
    return {image: directory / f"{image.name.lower()}.elf" for image in Image}


def make_images(directory: Path) -> dict[Image, Path]:
    """The native firmware, and what it would be had other sources or another board's been built.

    These differ from it in nothing but the name that they say, which is as long.
    """
    board = harness.Board.load("native")
    firmware = build_firmware(board)
    whole = firmware.image.read_bytes()
    own, other = firmware.build_id.encode(), OTHER_BUILD.encode()
    assert own in whole
    assert len(own) == len(other)
    name, other_name = (b"\0%s\0" % text.encode() for text in (board.name, OTHER_BOARD))
    assert whole.count(name) == 1
    assert len(name) == len(other_name)
    made = {
        Image.RIGHT: whole,
        Image.OTHER_BUILD: whole.replace(own, other),
        Image.OTHER_BOARD: whole.replace(name, other_name),
    }
    files = images_in(directory)
    for image, data in made.items():
        files[image].write_bytes(data)
        files[image].chmod(0o755)
    return files


class Firmware:
    """A process that runs an image, and our end of its serial line.

    Attributes:
        line: File descriptor of the line, which does not block.
    """

    def __init__(self, image: Path) -> None:
        self._process = subprocess.Popen([image], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        said = self._process.stdout.readline().decode()
        found = re.match(r"link: (\S+)", said)
        assert found, f"{image} said {said!r}"
        self.line = os.open(found[1], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

    @property
    def pid(self) -> int:
        return self._process.pid

    def hang(self) -> None:
        """It executes nothing any more."""
        self._process.send_signal(signal.SIGSTOP)

    def crash(self) -> None:
        """It reads where nothing is; a board starts again then, and so does this."""
        self._process.send_signal(signal.SIGSEGV)

    def end(self) -> None:
        """Take the power away."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        with suppress(OSError):
            os.close(self.line)
