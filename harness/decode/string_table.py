"""Interns the strings of a FlatBuffer, many references at a time.

ExecuTorch's ETDumpGen writes a name again for every event, so a dump has as many strings as events,
but few distinct ones. Short strings are compared as 64-bit words, all of one length at once: a hash
(the sum of the words, each times a constant) finds the candidate, and comparing the words confirms
it. Only new strings are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.decode.flatbuffer import FlatBuffer, Ints

_Words = npt.NDArray[np.uint64]

_SHORT = 64
"""Longest string that is compared word by word, bytes."""
_FACTORS = np.random.default_rng(0).integers(0, 2**63, _SHORT // 8, np.uint64) * np.uint64(2) + 1
"""Odd, so that no bit of a word is lost."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Distinct strings of one length, sorted by hash key.

    Attributes:
        keys: Hash keys, ascending and unique.
        words: Their bytes, one array per word.
        codes: Their indices.
    """

    keys: _Words
    words: list[_Words]
    codes: npt.NDArray[np.int32]

    def find(self, keys: _Words, words: list[_Words]) -> tuple[npt.NDArray[np.int32], Ints]:
        """Return the indices of strings, and the rows of unknown strings (index invalid)."""
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        same = self.keys[at] == keys
        if len(words) > 1:  # for a single word the key is unique, because the factor is odd
            for mine, theirs in zip(self.words, words, strict=True):
                same &= mine[at] == theirs
        return self.codes[at], np.flatnonzero(~same)


class Interner:
    """Assigns indices to strings in order of first use.

    Attributes:
        texts: The strings by index; bytes that are not UTF-8 are surrogate escapes.
    """

    def __init__(self, buffer: FlatBuffer) -> None:
        self.texts: list[str] = []
        self._buffer = buffer
        self._codes: dict[bytes, int] = {}
        self._known: dict[int, _Known] = {}
        self._long: dict[int, int] = {}  # indices of long strings by position
        self._room = buffer.end - buffer.start  # limit for the total size of further long strings

    def check(self, places: Ints, field: str) -> None:
        """Check the strings at ``places``; required before `codes`.

        Raises:
            DefectError: A string is truncated or not terminated, or all together are longer than
                the buffer: overlapping long strings could otherwise take unlimited time.
        """
        buffer = self._buffer
        lengths = buffer.string_lengths(places, field)
        long = np.flatnonzero(lengths > _SHORT)
        if not len(long):
            return
        distinct, shared = np.unique(places[long], return_inverse=True)
        unseen = np.array([place not in self._long for place in distinct.tolist()])
        sizes = np.where(unseen, buffer.load("<u4", distinct).astype(np.int64), 0)
        good = np.ones(len(places), np.bool_)
        good[long] = (np.cumsum(sizes) <= self._room)[shared]
        buffer.require(good, places, field, "strings overlap")

    def codes(self, places: Ints) -> npt.NDArray[np.int32]:
        """Return the indices of the strings at ``places``, shape (n,)."""
        lengths = self._buffer.load("<u4", places).astype(np.int64)
        # A string at the very end of the buffer cannot be read in whole words.
        short = (lengths <= _SHORT) & (places <= self._buffer.end - 4 - (lengths + 7 & -8))
        kinds = np.where(short, lengths, _SHORT + 1)
        codes = np.empty(len(places), np.int32)
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            rows = np.flatnonzero(kinds == kind)
            if kind > _SHORT:
                codes[rows] = self._one_by_one(places[rows])
            elif kind == 0:
                codes[rows] = self._code(b"")
            else:
                codes[rows] = self._short(places[rows], kind)
        return codes

    def _short(self, places: Ints, length: int) -> npt.NDArray[np.int32]:
        words = [self._buffer.load("<u8", places + (4 + at)) for at in range(0, length, 8)]
        if length % 8:
            words[-1] &= np.uint64((1 << 8 * (length % 8)) - 1)
        keys = words[0] * _FACTORS[0]
        for word, factor in zip(words[1:], _FACTORS[1:], strict=False):
            keys += word * factor
        known = self._known.get(length)
        if known is None:
            known = self._learn(length, places, keys, words)
        codes, new = known.find(keys, words)
        if len(new):
            parts = [word[new] for word in words]
            known = self._learn(length, places[new], keys[new], parts)
            codes[new], colliding = known.find(keys[new], parts)
            codes[new[colliding]] = self._one_by_one(places[new[colliding]])
        return codes

    def _learn(self, length: int, places: Ints, keys: _Words, words: list[_Words]) -> _Known:
        """Add the strings with new hash keys to the known ones."""
        keys, first = np.unique(keys, return_index=True)
        known = self._known.get(length)
        if known is not None:
            new = ~np.isin(keys, known.keys)
            keys, first = keys[new], first[new]
        # Indices in order of first use, which is easier to read in listings.
        numbers = np.empty(len(first), np.int32)
        in_order = np.argsort(first)
        numbers[in_order] = [self._code_at(place) for place in places[first[in_order]].tolist()]
        words = [word[first] for word in words]
        if known is not None:
            keys = np.concatenate([known.keys, keys])
            numbers = np.concatenate([known.codes, numbers])
            words = [np.concatenate(pair) for pair in zip(known.words, words, strict=True)]
        order = np.argsort(keys)
        learnt = _Known(keys[order], [word[order] for word in words], numbers[order])
        self._known[length] = learnt
        return learnt

    def _one_by_one(self, places: Ints) -> npt.NDArray[np.int32]:
        distinct, shared = np.unique(places, return_inverse=True)
        for place in distinct.tolist():
            if place not in self._long:
                self._long[place] = self._code_at(place)
                self._room -= int.from_bytes(self._buffer.data[place : place + 4], "little")
        return np.array([self._long[place] for place in distinct.tolist()], np.int32)[shared]

    def _code_at(self, place: int) -> int:
        return self._code(self._buffer.text(place))

    def _code(self, raw: bytes) -> int:
        code = self._codes.setdefault(raw, len(self.texts))
        if code == len(self.texts):
            self.texts.append(raw.decode("utf-8", "surrogateescape"))
        return code
