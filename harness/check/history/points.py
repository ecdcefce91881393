"""Points: the numbers of a metric, each with the session and the commit it is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.check.history.samples import Provenance

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Numbers of one metric on one unit.

    Attributes:
        values: The numbers, in the metric's unit, shape (n,).
        sessions: Numbers of their sessions, shape (n,).
        origins: Numbers of what was tested, in the order in which that was first seen, shape (n,).
        results: Indices of the results that they are from, into ``OnUnit.results``, shape (n,).
    """

    values: Floats
    sessions: Ints
    origins: Ints
    results: Ints

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Points:
        """Those of them that are chosen, shape (n,)."""
        return Points(
            self.values[chosen], self.sessions[chosen], self.origins[chosen], self.results[chosen]
        )

    def followed_by(self, more: Points) -> Points:
        """These and more."""
        pairs = zip(self._parts, more._parts, strict=True)
        values, sessions, origins, results = (np.concatenate(pair) for pair in pairs)
        return Points(values, sessions, origins, results)

    @property
    def _parts(self) -> tuple[npt.NDArray[Any], ...]:
        return self.values, self.sessions, self.origins, self.results

    def with_values(self, values: Floats) -> Points:
        """Other numbers of the same results."""
        return Points(values, self.sessions, self.origins, self.results)

    def groups(self, keys: Ints) -> Iterator[tuple[int, Points]]:
        """Those that have a key in common, by that key, rising; keys have shape (n,)."""
        for key in np.unique(keys).tolist():
            yield key, self.where(keys == key)

    def cells(self) -> Points:
        """One point per session and origin, their median: by origin, then as they came."""
        keys = self.origins * (int(self.sessions.max(initial=0)) + 1) + self.sessions
        _, first = np.unique(keys, return_index=True)
        order = np.lexsort((first, self.origins[first]))
        places = first[order]
        medians = medians_by(keys, self.values)[order]
        return Points(medians, self.sessions[places], self.origins[places], self.results[places])


def medians_by(keys: Ints, values: Floats) -> Floats:
    """Medians of the values of each key, rising, shape (keys,)."""
    order = np.lexsort((values, keys))
    _, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    ordered = values[order]
    return np.asarray((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2)


def numbered(keys: Iterable[str]) -> Ints:
    """Numbers of keys, the same for the same one, in the order in which they are first seen."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def session_of(result: Provenance) -> str:
    """What a result has in common with those made together with it; itself if nothing."""
    return result.session or result.id


def occasion_of(result: Provenance) -> str:
    """What sessions were made together: that of ``night 12/7`` is ``night 12``."""
    return session_of(result).partition("/")[0]


def origin_of(result: Provenance) -> str:
    """What was tested: the commit, or where that does not say, firmware and model."""
    if result.commit and not result.commit.endswith("-dirty"):
        return result.commit
    return f"{result.commit} {result.build_id} {result.model_sha256}"
