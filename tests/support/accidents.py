"""Damage to files as accidents and careless tools do it: bits, bytes, words, lengths, blocks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

_WORDS: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def _flip(data: bytearray, random: Random) -> None:
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])


def _set_word(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data)) & ~3
    data[at : at + 4] = random.choice(_WORDS).to_bytes(4, "little")


def _change_word(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data)) & ~3
    word = int.from_bytes(data[at : at + 4], "little") + random.choice([-16, -4, -1, 1, 4, 16])
    data[at : at + 4] = (word % 2**32).to_bytes(4, "little")


def _cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _extend(data: bytearray, random: Random) -> None:
    data += random.choice([b"\0", b"\xff", b"\x1a", random.randbytes(1)]) * random.randrange(1, 99)


def _remove(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    del data[at : at + random.choice([1, 2, 4, 16, 64])]


def _insert(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    data[at:at] = random.randbytes(random.choice([1, 2, 4, 16, 64]))


def _repeat(data: bytearray, random: Random) -> None:
    at, size = random.randrange(len(data)), random.choice([1, 4, 16, 64, 256])
    data[at:at] = data[at : at + size]


def _exchange(data: bytearray, random: Random) -> None:
    size = random.choice([4, 16, 32])
    one, other = (random.randrange(len(data)) // size * size for _ in range(2))
    first, second = data[one : one + size], data[other : other + size]
    if len(first) == len(second):
        data[one : one + size], data[other : other + size] = second, first


def _blank(data: bytearray, random: Random) -> None:
    at, size = random.randrange(len(data)), random.choice([4, 16, 64, 512])
    data[at : at + size] = bytes([random.choice([0, 0xFF])]) * len(data[at : at + size])


_ACCIDENTS: Final[tuple[Callable[[bytearray, Random], None], ...]] = (
    *(_flip, _set_byte, _set_word, _change_word, _cut, _extend),
    *(_remove, _insert, _repeat, _exchange, _blank),
)


def damage(data: bytes, random: Random) -> bytes:
    """Return the data with one accident, sometimes two."""
    damaged = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2])):
        if damaged:
            random.choice(_ACCIDENTS)(damaged, random)
    return bytes(damaged)
