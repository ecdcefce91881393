"""Puts together the chunks of the log that a device sends while it runs."""

from __future__ import annotations

from harness.link.answers import LogPart
from harness.link.ranges import MissingRanges


class LogChunks:
    """Chunks as their parts arrive. The device sends each part once; what is lost stays lost."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[bytearray, MissingRanges]] = {}

    def add(self, part: LogPart) -> None:
        """Take a part."""
        image, missing = self._images.setdefault(
            part.chunk, (bytearray(part.size), MissingRanges(part.size))
        )
        end = part.offset + len(part.data)
        if end <= len(image):
            image[part.offset : end] = part.data
            missing.remove(part.offset, end)

    def whole(self) -> tuple[bytes, ...]:
        """Return the images that arrived whole, in order."""
        return tuple(bytes(self._images[n][0]) for n in sorted(self._images) if self._is_whole(n))

    def broken(self) -> int:
        """Return of how many chunks some parts arrived and others did not."""
        return sum(not self._is_whole(number) for number in self._images)

    def _is_whole(self, number: int) -> bool:
        return not self._images[number][1]
