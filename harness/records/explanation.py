"""Explanation: what changed between two programs, and what each change cost.

The extension ``why`` computes it once (``harness.plugins.EXPLANATIONS``); terminal, JSON, HTML and
Markdown show it.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class ProgramCause(msgspec.Struct, frozen=True):
    """One change of a program with all that follows from it.

    Attributes:
        kind: What changed, such as ``dtype`` or ``layout`` (``harness.extensions.why.causes``).
        sentence: What changed, in one sentence.
        operators_before: Operators of the first program that it changes, such as ``conv2d #7``.
        operators: Likewise of the second program; the root comes first in one of both.
        difference: What it costs per execution, in ``Explanation.unit``; null if unknown, or if all
            its operators count for other causes.
        share: The difference as a share of the first method's time; null if unknown.
        counters: Differences of hardware counters per execution.
        joules: Difference of the energy per execution; null if either run did not measure it.
    """

    kind: str
    sentence: str
    operators_before: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    difference: float | None = None
    share: float | None = None
    counters: dict[str, float] = {}
    joules: float | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why one method takes another time than before: the causes, and what they leave unexplained.

    The differences of the causes and ``unexplained`` add up to ``after - before``.

    Attributes:
        unit: Of times: ``ns`` or ``ticks`` of runs, ``instructions`` if they are estimates of two
            programs alone.
        before: Time of an execution in the first run; null if unknown.
        after: Time of an execution in the second run; null if unknown.
        unexplained: What no cause explains; null if a time is unknown.
        unchanged: The part of it in operators that did not change; null likewise.
        causes: Root causes, those that cost most first.
        memory: Bytes of planned memory before and after by pool, where they differ.
        notes: What could not be compared, and why.
        method: The method, of programs with several.
        known: Whether both programs are known, and one method of them; else there are no causes.
        same: Whether both are one program, of equal SHA-256.
        left_out: Backends whose calls have no estimate: all times are without theirs.
    """

    unit: Literal["ns", "ticks", "instructions"]
    before: float | None
    after: float | None
    unexplained: float | None
    unchanged: float | None
    causes: tuple[ProgramCause, ...]
    memory: dict[str, tuple[int, int]] = {}
    notes: tuple[str, ...] = ()
    method: str = ""
    known: bool = True
    same: bool = False
    left_out: tuple[str, ...] = ()
