"""Hardware counters of a run: their selection on the device, and runs in several passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.analyze.ticks import durations
from harness.decode.device_log import read_log
from harness.decode.device_log_counts import JoinedCounts, join_counts, write_counts
from harness.link.counters import CounterList
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.values import TargetInfo
from harness.records.counters import CounterPassesRecord
from harness.records.trace import EXECUTION, Trace
from harness.runs.directory import RunDirectory
from harness.runs.request import RunRequest
from harness.runs.trace_download import read_log_image

TICKS: Final = "ticks"
"""What passes without a common counter are compared by."""


class CounterPasses:
    """The passes that read all counters of a run; one, unless more were asked for.

    The trace is that of the first pass, which runs last, so the device keeps it.
    """

    def __init__(
        self, groups: tuple[tuple[str, ...], ...] = (), offered: CounterList | None = None
    ) -> None:
        """Plan passes with these counters of those that a device offers."""
        self.groups, self.offered = groups, offered or CounterList()
        self.record: CounterPassesRecord | None = None
        self._others: list[bytes] = []

    @property
    def first(self) -> tuple[int, ...]:
        """The device's numbers of the first pass' counters."""
        return self.offered.numbers(self.groups[0]) if self.groups else ()

    def run_others(
        self,
        session: Session,
        directory: RunDirectory,
        run: Callable[[tuple[int, ...]], RunOutcome],
    ) -> None:
        """Run all passes but the first, and save their logs."""
        for number, group in enumerate(self.groups[1:], 2):
            outcome = run(self.offered.numbers(group))
            image, _ = read_log_image(session, directory, chunks=outcome.chunks)
            directory.write(f"pass{number}.etlog", image)
            self._others.append(image)

    def join(self, image: bytes) -> bytes:
        """Return the log of the first pass with the counters of all passes."""
        if not self._others or len(self._others) < len(self.groups) - 1:
            return image  # the run was interrupted
        first, others = read_log(image), [read_log(other) for other in self._others]
        joined = join_counts(first, others)
        self.record = _compared(self.groups, first, others, joined)
        return write_counts(image, joined)


def plan_passes(session: Session, info: TargetInfo, request: RunRequest) -> CounterPasses:
    """Return the passes of a run.

    Raises:
        UsageError: The device does not have a counter, or they do not count at once.
        LinkError: No response in time.
        TargetError: The device restarted or died.
    """
    names = request.counters
    if not names:
        return CounterPasses()  # a device is not asked for what no run needs
    offered = session.counters()
    offered.check(names, info.board)
    if not request.counter_passes:
        offered.check_at_once(names, info.board)
    return CounterPasses(tuple(offered.passes(names)), offered)


def _compared(
    groups: tuple[tuple[str, ...], ...], first: Trace, others: list[Trace], joined: JoinedCounts
) -> CounterPassesRecord:
    """Return how far the passes differ in what they all counted."""
    common = next((name for name in groups[0] if all(name in group for group in groups)), TICKS)
    worst, name, execution = 0.0, "", 0.0
    before = _values(first, common)
    for trace, pairs in zip(others, joined.pairs, strict=True):
        after = _values(trace, common)
        for a, b in pairs:
            share = abs(after[b] - before[a]) / max(before[a], 1)
            event = first.text(int(first.name[a])) or ""
            if share > worst:
                worst, name = share, event
            if event == EXECUTION:
                execution = max(execution, share)
    return CounterPassesRecord(groups, common, worst, name, execution, joined.unmatched)


def _values(trace: Trace, common: str) -> list[int]:
    if common == TICKS:
        return [int(ticks) for ticks in durations(trace)]
    names = [counter.name for counter in trace.counters]
    return [int(count) for count in trace.counts[:, names.index(common)]]
