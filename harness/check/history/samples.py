"""Samples: what history keeps of results, as series of numbers with the origin of each.

This is the contract between the store, which fills it, the statistics, which judge by it, and the
reports, which draw it. A History holds everything that a judgement depends on, so a judgement can
be made again from a copy of it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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
