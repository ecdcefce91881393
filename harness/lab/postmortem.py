"""Reads the postmortem that a crash left on a device, with the symbols of its firmware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analyze.postmortem import PostmortemDocument, places, postmortem_document
from harness.config.board import Board
from harness.decode.postmortem import Postmortem, read_postmortem
from harness.decode.postmortem_format import BUILD_ID_SIZE
from harness.errors import HarnessError, UsageError
from harness.link.session import Session
from harness.link.wire import Region
from harness.records.clock_domain import ClockDomain
from harness.target.build import build_firmware
from harness.target.symbols import ImageSymbols

_log = logging.getLogger(__name__)

Lookup = Callable[[Postmortem], ImageSymbols | None]
"""Finds the symbols of the image that a postmortem is of, once it has been read."""


@dataclass(frozen=True, slots=True)
class ExaminedPostmortem:
    """A postmortem: as bytes, as read, and in words."""

    image: bytes
    found: Postmortem
    document: PostmortemDocument


def no_symbols(_: Postmortem) -> ImageSymbols | None:
    """Know of no image."""
    return None


def symbols_of_image(image: Path) -> Lookup:
    """Use an image whatever its build.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        symbols = ImageSymbols(image)
    except OSError as error:
        raise UsageError(f"cannot read the image {image}: {error.strerror}") from error
    return lambda _: symbols


def symbols_of_board(board: Board) -> Lookup:
    """Use the board's firmware as it is built here, if it is the build that crashed."""

    def find(found: Postmortem) -> ImageSymbols | None:
        if not found.registers:
            return None
        try:
            firmware = build_firmware(board)
        except HarnessError as error:
            _log.info("no symbols: %s", error.message)
            return None
        if firmware.build_id[:BUILD_ID_SIZE] != found.build_id:
            _log.info("no symbols: %s crashed, %s is built", found.build_id, firmware.build_id)
            return None
        return ImageSymbols(firmware.image)

    return find


def examine(
    image: bytes, clocks: Sequence[ClockDomain] = (), lookup: Lookup = no_symbols
) -> ExaminedPostmortem:
    """Read a postmortem.

    Raises:
        FormatError: It is none.
    """
    found = read_postmortem(image, clocks)
    symbols = lookup(found)
    where = places(found, symbols.place) if symbols else {}
    return ExaminedPostmortem(image, found, postmortem_document(found, where))


def fetch(session: Session, lookup: Lookup = no_symbols) -> ExaminedPostmortem | None:
    """Read what a device that has been greeted says it keeps; None when that is nothing.

    Raises:
        FormatError: What it sent is no postmortem.
        LinkError: It could not be brought over.
        TargetError: It crashed again.
    """
    info = session.target
    if info is None or not info.postmortem:
        return None
    return examine(session.read(Region.POSTMORTEM), info.clocks, lookup)
