"""A run for people's eyes: what ran where, how it went, and the verdict last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.check.history.comparison import HistoryComparison
from harness.formatting import stack_use
from harness.records.result import Result, bytes_carried, corrupt_frames
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.report.against import print_against
from harness.report.terminal import print_run, print_verdict, show_line

if TYPE_CHECKING:
    from rich.console import Console

EXECUTE = "Execute"
"""What ExecuTorch calls the block of an execution; the others are about loading."""


def show_run(
    console: Console,
    result: Result,
    trace: Trace,
    directory: str,
    *,
    verbosity: int = 0,
    comparison: HistoryComparison | None = None,
) -> None:
    """Print a finished run: only the verdict when ``verbosity`` is negative, all when positive."""
    verdict = Verdict(result.verdict.checks) if result.verdict else None
    if verbosity < 0:
        if verdict is not None:
            print_verdict(console, verdict, verbosity=verbosity)
        return
    header = _header(result, directory)
    print_run(
        console,
        trace,
        header=header,
        verdict=verdict if comparison is None else None,
        block=None if verbosity > 0 else EXECUTE,
        detailed=verbosity > 0,
        qualities=result.clock_quality,
    )
    if comparison is not None:
        show_line(console)
        print_against(console, comparison, detailed=verbosity > 0)
        if verdict is not None:
            print_verdict(console, verdict, verbosity=verbosity)


def _header(result: Result, directory: str) -> dict[str, object]:
    header: dict[str, object] = {}
    if target := result.target:
        header["board"] = f"{target.board} ({target.cpu}), firmware {target.build_id}"
        clock = target.clocks[0]
        rate = clock.hz_numerator / clock.hz_denominator
        header["clock"] = f"{clock.name}, {rate:,.0f} Hz, {clock.bits} bits{_probe_cost(result)}"
    if model := result.model:
        header["model"] = f"{model.file}, {model.nbytes:,} bytes, sha256 {model.sha256[:12]}"
        header["arena"] = f"{model.planned_bytes:,} planned + {model.method_bytes:,} method bytes"
    header["runs"] = f"{result.runs_completed} of {result.runs_requested}"
    if trace := result.trace:
        header["trace"] = f"{trace.events:,} events in {trace.log_bytes:,} bytes, digest verified"
        if trace.values:
            header["values"] = (
                f"{trace.values:,} with {trace.debug_bytes:,} bytes of tensors; logging them took "
                f"{trace.value_ticks:,} ticks"
            )
        if trace.streaming_ticks:
            header["streaming"] = f"{trace.streaming_ticks:,} ticks, within Method::execute"
        if trace.stack_size:
            header["stack"] = stack_use(trace.stack_used, trace.stack_size)
    header["link"] = _link_health(result.link)
    header["kept in"] = directory
    return header


def _probe_cost(result: Result) -> str:
    if result.target is None or not result.target.probe_pairs:
        return ""
    ticks = result.target.probe_ticks / result.target.probe_pairs
    return f"; an empty event costs {ticks:.1f} ticks"


def _link_health(link: dict[str, int]) -> str:
    """What the line cost: bytes carried, and the counters that should be zero."""
    carried, corrupt = bytes_carried(link), corrupt_frames(link)
    return f"{carried:,} bytes, {corrupt} corrupt frames, {link.get('retries', 0)} retries"
