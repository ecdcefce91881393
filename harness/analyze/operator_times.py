"""OperatorTimes: the durations of one operator, as durations with a unit."""

from __future__ import annotations

from harness.analyze.statistics import Operator, Summary
from harness.durations import Duration
from harness.errors import UsageError
from harness.formatting import printable


class _Time:
    """A statistic of an operator's times, as a duration."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, times: OperatorTimes, _owner: type) -> Duration:
        return Duration(getattr(times.in_time, self._name))


class OperatorTimes:
    """How long the repeats of one operator took.

    ``total``, ``avg``, ``p10``, ``p50``, ``p90``, ``min``, ``max`` and ``std`` are durations in
    nanoseconds, which compare as numbers and print with a unit; ``ticks`` has the same in ticks.

    Attributes:
        name: Name of the event.
        block: Name of its block.
        instruction: Its instruction id.
        count: Number of repeats.
        operator: The statistics behind this, with rows in the trace.
    """

    total, avg, p10, p50, p90, min, max, std = (_Time() for _ in range(8))

    def __init__(self, operator: Operator) -> None:
        """Wrap an operator's statistics."""
        self.operator = operator
        self.name, self.block = operator.name, operator.block
        self.instruction, self.count = operator.instruction, len(operator.rows)

    @property
    def ticks(self) -> Summary:
        """The same statistics in ticks of the operator's own clock.

        Raises:
            UsageError: All its events end before they start.
        """
        if self.operator.ticks is None:
            raise UsageError(
                f"the duration of {self.name} is unknown: all its events end before they start",
                hint="see what check I03 says of the clock",
            )
        return self.operator.ticks

    @property
    def in_time(self) -> Summary:
        """The statistics in nanoseconds.

        Raises:
            UsageError: The rate of its clock is unknown.
        """
        _ = self.ticks
        if self.operator.ns is None:
            raise UsageError(
                f"the rate of clock {self.operator.clock.name!r} is unknown, so {self.name} has no "
                "times",
                hint="ask for ticks: .ticks.p50",
            )
        return self.operator.ns

    def __repr__(self) -> str:
        shown = "unknown"
        if self.operator.ticks is not None:
            shown = f"{self.ticks.p50:g} ticks" if self.operator.ns is None else f"{self.p50}"
        return f"<{printable(self.name)}, instruction {self.instruction}: p50 {shown}>"
