"""Samples: what history keeps of results, as series of numbers with the origin of each.

This is the contract between the store, which fills it, the statistics, which judge by it, and the
reports, which draw it. A History holds everything that a judgement depends on, so a judgement can
be made again from a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Kind = Literal["operator", "allocator", "result"]
"""What a number is of: an operator's time, an allocator's bytes, or the result as a whole."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers of a result come from.

    Attributes:
        id: The result's own, unique in any store.
        started_utc: When the run began, ISO 8601.
        board: Board type.
        unit: The board of this type.
        model: Name of the model's file.
        model_sha256: Digest of the file.
        method: Method that ran.
        build_id: The firmware's, as it reports it.
        tool_version: Version of this package.
        commit: Commit of what was tested; empty when unknown.
        session: What results have in common that were made together, such as in one night.
    """

    id: str
    started_utc: str
    board: str
    unit: str
    model: str
    model_sha256: str
    method: str
    build_id: str
    tool_version: str
    commit: str
    session: str


class Metric(msgspec.Struct, frozen=True):
    """What a series is of.

    Attributes:
        kind: What it is a number of.
        name: Name of the operator or allocator; of a number of the whole result, what it is, such
            as ``log_bytes``, ``stack_used``, ``text_bytes``.
        statistic: Which statistic, such as ``p50`` of a Summary or ``peak_bytes`` of an allocator;
            empty for a number of the whole result.
        unit: ``ns``, ``ticks`` or ``bytes``.
        block: Of an operator, the name of its blocks; this and what follows as in ``Signature``.
        chain: Chain index.
        instruction: Instruction id.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id.
        clock: Name of its clock domain.
    """

    kind: Kind
    name: str
    statistic: str
    unit: Literal["ns", "ticks", "bytes"]
    block: str = ""
    chain: int = -1
    instruction: int = -1
    delegate_int: int = -1
    delegate_str: str | None = None
    clock: str = ""


class Sample(msgspec.Struct, frozen=True):
    """One number of one result.

    Attributes:
        value: The number.
        count: How many durations it summarises; 1 for what is no time.
        std: Their standard deviation, in the same unit.
    """

    value: float
    count: int = 1
    std: float = 0.0


class Series(msgspec.Struct, frozen=True):
    """A metric through history.

    Attributes:
        metric: What it is of.
        results: Indices into ``History.results`` of the results that have it, rising.
        samples: The number of each of these.
    """

    metric: Metric
    results: tuple[int, ...]
    samples: tuple[Sample, ...]


class History(msgspec.Struct, frozen=True):
    """Earlier results of one model and method on one type of board.

    Attributes:
        results: Oldest first.
        series: What was measured in them.
        baseline: Indices into ``results`` of those that a new result is held against, rising. The
            others tell about noise and trends.
        description: How the baseline was chosen, for people: ``the last 20``, ``name v1.2``.
    """

    results: tuple[Provenance, ...] = ()
    series: tuple[Series, ...] = ()
    baseline: tuple[int, ...] = ()
    description: str = ""


class Measured(msgspec.Struct, frozen=True):
    """A result as history sees it.

    Attributes:
        provenance: Where the numbers come from.
        samples: The numbers.
    """

    provenance: Provenance
    samples: dict[Metric, Sample]


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
