"""What is intact of a damaged device log: of every image the records before the first defect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from harness.errors import FormatError
from harness.etdump import log_format as fmt
from harness.etdump.compact_chunks import LOST_NAME, Chunk, Header, padded, read_chunk, read_header
from harness.etdump.compact_records import Records, check_clocks
from harness.trace import Damage, Trace

_MAGIC: Final = fmt.MAGIC.to_bytes(4, "little")
_RECORD_COUNT, _NAMES_SIZE = slice(12, 16), slice(20, 24)
"""Where these are in a header."""


def salvaged_chunks(data: bytes, clocks: int, damage: list[Damage]) -> Iterator[Chunk]:
    """Read image after image, each up to its first defect.

    Names that are not there are ``LOST_NAME``. They stand at the end of an image, the newest
    first, so a log that was cut off loses the oldest, or all.

    Args:
        data: The log.
        clocks: How many clock domains there are.
        damage: Gets what is left out.
    """
    place = debug_end = 0
    while place < len(data):
        try:
            header = read_header(data, place)
        except FormatError as error:
            behind = _next_image(data, place)
            _leave_out(damage, error, f"; {behind - place} bytes left out")
            place = behind
            continue
        behind = place + _size(header)
        if behind > len(data):
            behind = _next_image(data, place)
        image = data[place:behind]
        chunk = _intact(image, place, header, debug_end, clocks, damage)
        if chunk is not None:
            yield chunk
        debug_end += padded(header.debug_size)
        place = behind


def without_lost_names(trace: Trace, damage: list[Damage]) -> Trace:
    """The trace without the events whose names are lost; blocks without theirs are ``""``."""
    lost = [index for index, name in enumerate(trace.names) if name == LOST_NAME]
    if not lost:
        return trace
    kept = ~(np.isin(trace.name, lost) | np.isin(trace.delegate_str, lost))
    events = len(trace) - int(np.count_nonzero(kept))
    nameless = sum(block.name == LOST_NAME for block in trace.blocks)
    what = f"the names of {events} events and {nameless} blocks are lost"
    damage.append(Damage(None, "names", what, events))
    before = np.concatenate([[0], np.cumsum(kept)]).tolist()
    columns: dict[str, Any] = {
        name: column[kept]
        for name in Trace.__slots__
        if isinstance(column := getattr(trace, name), np.ndarray)
    }
    blocks = tuple(
        replace(
            block,
            name="" if block.name == LOST_NAME else block.name,
            first=before[block.first],
            count=before[block.first + block.count] - before[block.first],
            allocators=tuple("" if name == LOST_NAME else name for name in block.allocators),
        )
        for block in trace.blocks
    )
    names = tuple("" if name == LOST_NAME else name for name in trace.names)
    return replace(trace, names=names, blocks=blocks, **columns)


def _size(header: Header) -> int:
    return fmt.HEADER_SIZE + header.record_count * fmt.RECORD_SIZE + header.names_size


def _next_image(data: bytes, place: int) -> int:
    """Where the next whole image begins, or the end."""
    while (place := data.find(_MAGIC, place + 1)) >= 0:
        try:
            header = read_header(data, place)
        except FormatError:
            continue
        if place + _size(header) <= len(data):
            return place
    return len(data)


def _intact(
    image: bytes,
    place: int,
    header: Header,
    debug_end: int,
    clocks: int,
    damage: list[Damage],
) -> Chunk | None:
    """The records of an image before its first defect; None when nothing can be made of it."""
    if len(image) < _size(header):
        message = f"log is truncated: {_size(header)} bytes announced, {len(image)} there"
        _leave_out(damage, FormatError(message, offset=place + len(image), field="log"))
    body = image[fmt.HEADER_SIZE :]
    names_at = header.record_count * fmt.RECORD_SIZE
    names, lost = _newest_names(body[names_at:][: header.names_size], header)
    if lost and len(image) == _size(header):
        error = FormatError("do not fill their part", offset=place + len(image), field="names")
        _leave_out(damage, error)
    if lost > len(image):  # as many would take more memory than the file does
        error = FormatError(f"{lost} are lost", offset=place + 16, field="names")
        _leave_out(damage, error, "; the image is left out")
        return None
    records = min(header.record_count, len(body) // fmt.RECORD_SIZE)
    while True:
        patched = bytearray(image[: fmt.HEADER_SIZE])
        patched[_RECORD_COUNT] = records.to_bytes(4, "little")
        patched[_NAMES_SIZE] = len(names).to_bytes(4, "little")
        shorter = bytes(patched) + body[: records * fmt.RECORD_SIZE] + names
        try:
            chunk = read_chunk(shorter, 0, debug_end)
            check_clocks(chunk.records, clocks)
        except FormatError as error:
            first_bad = ((error.offset or 0) - fmt.HEADER_SIZE) // fmt.RECORD_SIZE
            if not 0 <= first_bad < records:
                _leave_out(damage, error, "; the image is left out", place)
                return None
            left_out = header.record_count - first_bad
            _leave_out(damage, error, f"; {left_out} records from there on left out", place)
            records = first_bad
        else:
            found = chunk.records
            return replace(
                chunk,
                place=place,
                names=(LOST_NAME,) * lost + chunk.names[lost:],
                records=Records.of(found.raw, found.kinds, found.places + place),
            )


def _newest_names(region: bytes, header: Header) -> tuple[bytes, int]:
    """Names as they stand in an image, empty ones for the lost, and how many these are."""
    position = known = 0
    while known < header.name_count and position < len(region):
        behind = position + 1 + region[position]
        if behind > len(region):
            break
        position, known = behind, known + 1
    whole = len(region) == header.names_size
    if whole and (position < len(region) or known < header.name_count):
        position = known = 0  # a length is wrong, and nobody knows which
    lost = header.name_count - known
    return region[:position] + bytes(lost), lost


def _leave_out(
    damage: list[Damage], error: FormatError, consequence: str = "", place: int = 0
) -> None:
    """Note a defect, found in bytes that stand at ``place``."""
    offset = error.offset or 0
    reason = error.message.replace(f"at byte {offset}", f"at byte {offset + place}") + consequence
    damage.append(Damage(offset + place, error.field, reason, None))
