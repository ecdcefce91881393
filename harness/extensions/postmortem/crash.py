"""A crash of a board: its postmortem from the board, a run directory or a file, with the lines of
code that the firmware's symbols name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.config.board import Board, attached, load_board
from harness.errors import FormatError, HarnessError, RestartedError, TargetError, UsageError
from harness.extensions.postmortem.description import places, postmortem_document
from harness.extensions.postmortem.record import Postmortem, is_postmortem, read_postmortem
from harness.extensions.postmortem.record_format import BUILD_ID_SIZE
from harness.files import read_limited
from harness.link.session import Session
from harness.link.wire import Region, Reset
from harness.records.result import encode
from harness.records.trace import ClockDomain
from harness.runs.directory import (
    EARLIER_POSTMORTEM,
    EARLIER_POSTMORTEM_IMAGE,
    LOG,
    POSTMORTEM,
    POSTMORTEM_IMAGE,
    PostmortemDocument,
    RunDirectory,
)
from harness.target.build import build_firmware, placed_image
from harness.target.process_group import run_program
from harness.target.selection import Chosen
from harness.target.start import greet, started

_log = logging.getLogger(__name__)

_ADDR2LINE_LIMIT_S: Final = 30.0

_MACHINE_AT: Final = 18
"""Offset of ``e_machine`` in an ELF file."""

_PREFIXES: Final = {40: "arm-none-eabi-", 243: "riscv64-unknown-elf-"}
"""Toolchain prefix by ``e_machine``; other images are for this host."""


class ImageSymbols:
    """Looks up addresses in one image; without a working addr2line all lookups return None."""

    def __init__(self, image: Path) -> None:
        """Read the header of an ELF file.

        Raises:
            OSError: The file cannot be read.
        """
        with image.open("rb") as file:
            header = file.read(_MACHINE_AT + 2)
        prefix = _PREFIXES.get(int.from_bytes(header[_MACHINE_AT:], "little"), "")
        self._command = [f"{prefix}addr2line", "-f", "-e", str(image)]

    def locate(self, address: int) -> str | None:
        """Return ``function at file:line``, only the function if the line is unknown, or None."""
        try:
            done = run_program([*self._command, hex(address)], _ADDR2LINE_LIMIT_S)
        except OSError:
            return None
        if done.code != 0:
            return None
        function, _, line = done.stdout.decode(errors="replace").strip().partition("\n")
        if not function or function.startswith("?"):
            return None
        file, _, number = line.partition(" ")[0].rpartition(":")
        return f"{function} at {Path(file).name}:{number}" if number.isdigit() else function


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
    postmortem = read_postmortem(image, clocks)
    symbols = lookup(postmortem)
    where = places(postmortem, symbols.locate) if symbols else {}
    return ExaminedPostmortem(image, postmortem, postmortem_document(postmortem, where))


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


def save_earlier(session: Session, directory: RunDirectory) -> None:
    """Save the postmortem of an earlier crash, which the run will overwrite on the device."""
    try:
        finding = fetch(session)
    except FormatError as error:
        _log.warning("cannot read the postmortem of an earlier crash: %s", error.message)
        return
    if finding is not None:
        _log.warning(
            "the device has the postmortem of an earlier crash: %s", finding.document.message
        )
        directory.write(EARLIER_POSTMORTEM_IMAGE, finding.image)
        directory.write(EARLIER_POSTMORTEM, encode(finding.document))


def explain(
    error: RestartedError, session: Session, board: Board, directory: RunDirectory
) -> tuple[RestartedError, int | None]:
    """Explain the restart of a device by its postmortem, and save that in the run directory.

    Returns:
        The error to raise, and the number of completed executions; None if it is unknown.
    """
    try:
        session.hello(board.deadlines.boot_s)
        finding = fetch(session, symbols_of_board(board))
    except HarnessError as second:
        _log.warning("cannot read the postmortem: %s", second.message)
        return error, None
    if finding is None:
        return error, None
    directory.write(POSTMORTEM_IMAGE, finding.image)
    directory.write(POSTMORTEM, encode(finding.document))
    if finding.found.log and not (directory.path / LOG).is_file():  # else of an execution after it
        directory.write(LOG, finding.found.log)
    location = finding.document.places.get("PC")
    at = f", at {location}" if location else ""
    explained = RestartedError(
        f"{error.message}: {finding.document.message}{at}",
        hint=f"`etharness postmortem {directory.path}` shows registers, allocators and last events",
    )
    return explained, finding.found.completed if finding.found.running else None


MOST_DUMP: Final = 64 << 20
"""Largest postmortem or memory dump that contains one, bytes."""


def postmortem_of_path(path: Path, lookup: Lookup | None = None) -> ExaminedPostmortem:
    """Read a postmortem from a run directory, a saved file or a memory dump.

    Without ``lookup``, symbols for a run directory come from the firmware of its board.

    Raises:
        UsageError: The file is missing.
        DamagedError: The run directory's file is damaged.
        FormatError: The file is not a postmortem.
    """
    file = path / POSTMORTEM_IMAGE if path.is_dir() else path
    run = RunDirectory(file.parent)
    if run.is_one:
        result, damaged = run.examine(None if path.is_dir() else (file.name,))
        if damaged is not None:
            raise damaged
    try:
        image = read_limited(file, MOST_DUMP)
    except OSError as error:
        raise UsageError(
            f"cannot read the postmortem {file}: {error.strerror}",
            hint="a run directory has a postmortem only if the board crashed during the run",
        ) from error
    if not is_postmortem(image):
        raise FormatError(f"{file} is not a postmortem: it does not begin with ETPM", offset=0)
    if lookup is None and run.is_one:
        board, _ = load_board(result.board)
        lookup = symbols_of_board(board)
    return examine(image, lookup=lookup or no_symbols)


def postmortem_of_board(
    board: Board, chosen: Chosen, baud: int | None, lookup: Lookup, *, clear: bool
) -> ExaminedPostmortem | None:
    """Read the postmortem from a running board, None without one; ``clear`` also removes it.

    Raises:
        TargetError: The board sent an invalid postmortem.
        InfrastructureError: The port cannot be opened, or the board does not answer.
    """
    with (
        chosen.held(reason="postmortem", timeout_s=board.deadlines.unit_s) as chosen,
        started(attached(board, baud), None, port=chosen.port) as session,
    ):
        greet(session, board)
        try:
            finding = fetch(session, lookup)
        except FormatError as error:
            raise TargetError(f"the device sent a damaged postmortem: {error.message}") from error
        if finding is not None and clear:
            session.reset(Reset.POSTMORTEM)
        return finding
