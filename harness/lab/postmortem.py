"""Reads the postmortem of a crash from a device, with the symbols of its firmware."""

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
from harness.target.build import ImageSymbols, build_firmware, placed_image

_log = logging.getLogger(__name__)

Lookup = Callable[[Postmortem], ImageSymbols | None]
"""Finds the symbols of the image that crashed, given the decoded postmortem."""


@dataclass(frozen=True, slots=True)
class ExaminedPostmortem:
    """A postmortem: raw bytes, decoded, and as a document for people."""

    image: bytes
    found: Postmortem
    document: PostmortemDocument


def no_symbols(_: Postmortem) -> ImageSymbols | None:
    """Return None: look up no symbols."""
    return None


def symbols_of_image(image: Path) -> Lookup:
    """Return a lookup that uses this image, whatever its build id.

    Raises:
        UsageError: The image cannot be read.
    """
    try:
        symbols = ImageSymbols(image)
    except OSError as error:
        raise UsageError(f"cannot read the image {image}: {error.strerror}") from error
    return lambda _: symbols


def symbols_of_board(board: Board) -> Lookup:
    """Return a lookup that builds the board's firmware; None if another build crashed.

    Firmware with a placed model is looked for among the images that were built.
    """

    def find(found: Postmortem) -> ImageSymbols | None:
        if not found.registers:
            return None
        try:
            placed = placed_image(board, found.build_id)
            if placed is not None:
                return ImageSymbols(placed)
            firmware = build_firmware(board)
        except HarnessError as error:
            _log.info("no symbols: %s", error.message)
            return None
        if firmware.build_id[:BUILD_ID_SIZE] != found.build_id:
            _log.info(
                "no symbols: build %s crashed, the local build is %s",
                found.build_id,
                firmware.build_id,
            )
            return None
        return ImageSymbols(firmware.image)

    return find


def examine(
    image: bytes, clocks: Sequence[ClockDomain] = (), lookup: Lookup = no_symbols
) -> ExaminedPostmortem:
    """Decode a postmortem and resolve its addresses.

    Raises:
        FormatError: ``image`` is not a valid postmortem.
    """
    found = read_postmortem(image, clocks)
    symbols = lookup(found)
    where = places(found, symbols.locate) if symbols else {}
    return ExaminedPostmortem(image, found, postmortem_document(found, where))


def fetch(session: Session, lookup: Lookup = no_symbols) -> ExaminedPostmortem | None:
    """Read the postmortem from a device after HELLO; None if the device has none.

    Raises:
        FormatError: The device sent an invalid postmortem.
        LinkError: The transfer failed.
        TargetError: The device crashed again.
    """
    info = session.target
    if info is None or not info.postmortem:
        return None
    return examine(session.read(Region.POSTMORTEM), info.clocks, lookup)
