"""`run --live`: the growing trace is read by Perfetto's trace_processor, also after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("viztracer", reason="needs the tools that read exports")
pytest.importorskip("perfetto", reason="needs the tools that read exports")

import harness
from tests.support.perfetto import rows, trace_processor

pytestmark = pytest.mark.tools

SLICES = """
select track.name as track, slice.name as name, slice.ts as ts, slice.dur as dur,
  ifnull(parent.name, '') as parent
from slice join track on slice.track_id = track.id
  left join slice as parent on slice.parent_id = parent.id
order by slice.ts, slice.depth
"""
COMMAND = [sys.executable, "-m", "harness", "run", "--board", "native", "--model", "small_int8"]


def run(folder: Path, runs: int, *more: str) -> list[str]:
    streaming = ("--stream", "--trace-limit", "4096", "--live", str(folder / "live.pftrace"))
    return [*COMMAND, "--runs", str(runs), *streaming, "-o", str(folder / "run"), *more]


def slices(file: Path) -> list[tuple[str, str, int, int, str]]:
    with trace_processor(file) as client:
        return rows(client, SLICES)


def counts(file: Path) -> tuple[int, int]:
    """How many slices there are, and how many of them have no end."""
    with trace_processor(file) as client:
        [(count, open_)] = rows(client, "select count() as n, total(dur < 0) as o from slice")
        return count, int(open_)


def test_it_has_the_scopes_of_the_run_as_far_as_they_were_streamed(tmp_path: Path) -> None:
    subprocess.run(run(tmp_path, 80), check=True, capture_output=True)
    drawn = slices(tmp_path / "live.pftrace")
    trace = harness.load(tmp_path / "run").trace
    hz = trace.clocks[0].hz
    assert hz is not None
    found = sorted((ts, dur) for _, _, ts, dur, _ in drawn)
    profiled = trace.kind == harness.Kind.PROFILE
    assert 0.8 * profiled.sum() < len(found) < profiled.sum()
    # As they were logged, scopes around others behind them.
    logged = zip(trace.start[profiled].tolist(), trace.end[profiled].tolist(), strict=True)
    streamed = sorted(
        (int(start * 10**9 / hz), int((end - start) * 10**9 / hz))
        for start, end in islice(logged, len(found))
    )
    for (ts, dur), (exact, length) in zip(found, streamed, strict=True):
        assert abs(ts - exact) <= 1
        assert abs(dur - length) <= 1
    assert {track for track, *_ in drawn} == {"executions", "operators", "link"}
    kernels = [row for row in drawn if row[1].startswith("quantized_linear #")]
    assert kernels
    assert all(parent.startswith("OPERATOR_CALL") for *_, parent in kernels)


def test_it_can_be_read_while_the_run_goes_on_and_after_a_kill(tmp_path: Path) -> None:
    live = tmp_path / "live.pftrace"
    with subprocess.Popen(
        run(tmp_path, 100_000), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        sizes: list[int] = []
        try:
            for least in (20_000, 80_000):
                limit = time.monotonic() + 60
                while not live.exists() or live.stat().st_size < least:
                    assert process.poll() is None
                    assert time.monotonic() < limit
                    time.sleep(0.05)
                sizes.append(counts(live)[0])
        finally:
            process.send_signal(signal.SIGKILL)
    after, unended = counts(live)
    assert 0 < sizes[0] < sizes[1] <= after
    assert unended <= 3  # of a chunk that was being written
