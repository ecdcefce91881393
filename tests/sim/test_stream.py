"""A run whose log is many times as long as the board's buffer for it, streamed or cut."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import LinkError, Region, RunOptions, Trace, durations, read_log, without_repeated
from harness.testing import Transport
from tests.conftest import ROOT, CommandResult
from tests.support.boards import started

WAITING = "Link::wait"

pytestmark = pytest.mark.sim

MODEL = ROOT / "firmware_stub/models/small_int8.pte"
BUFFER = 4096
RUNS = 300
SLOW_RUNS = 30

Event = tuple[str | None, int, int]


_BITS_PER_BYTE = 10
_PIECE = 64
"""Bytes that are handed over at once."""


class SlowLine:
    """A transport on which bytes take as long as on a slow serial line, in real time.

    What is behind it does not notice, as bytes wait on the host's side.
    """

    def __init__(self, inner: Transport, baud: int) -> None:
        self._inner = inner
        self._byte_s = _BITS_PER_BYTE / baud
        self._held = b""

    def read(self, timeout: float) -> bytes:
        if not self._held:
            self._held = self._inner.read(timeout)
        piece, self._held = self._held[:_PIECE], self._held[_PIECE:]
        time.sleep(len(piece) * self._byte_s)
        return piece

    def write(self, data: bytes, timeout: float) -> None:
        time.sleep(len(data) * self._byte_s)
        self._inner.write(data, timeout)

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize("board", ["native", "qemu-mps2-an385"])
@pytest.mark.long
def test_a_log_of_twenty_buffers_arrives_whole(board: str, tmp_path: Path) -> None:
    outcome = harness.run(
        MODEL, board=board, runs=RUNS, output=tmp_path / "run", trace_limit=BUFFER, stream=True
    )
    summary = outcome.result.trace
    assert summary is not None
    assert summary.log_bytes > 20 * BUFFER
    assert not outcome.trace.losses.any
    assert sum(block.name == "Execute" for block in outcome.trace.blocks) == RUNS
    assert summary.streaming_ticks > 0


def operators_of(trace: Trace) -> tuple[list[Event], list[int]]:
    """The events of instructions in order: name and place, and their ticks."""
    rows = [row for row in range(len(trace)) if trace.chain[row] >= 0]
    columns = (map(trace.text, trace.name[rows]), trace.chain[rows], trace.instruction[rows])
    events = [(name, int(chain), int(at)) for name, chain, at in zip(*columns, strict=True)]
    return events, [int(ticks) for ticks in durations(trace)[rows]]


@pytest.mark.long
def test_waiting_for_a_slow_line_is_no_part_of_an_operator() -> None:
    """Bundled C kernels on an emulated clock that counts instructions, 40 to a tick."""
    with started("qemu-mps2-an385") as bench:
        session = bench.session
        model = session.load_model(MODEL.read_bytes())
        session.set_input(0, bytes(model.inputs[0].nbytes))
        session.run(SLOW_RUNS, timeout_s=60)
        whole = read_log(session.read(Region.TRACE))
        slow = bench.new_session(SlowLine(bench.target.transport, 38_400), deadline_s=5)
        slow.hello(20)
        options = RunOptions(stream=True, trace_limit=2048)
        outcome = slow.run(SLOW_RUNS, options, timeout_s=60)
        last = slow.read(Region.TRACE)
    streamed = read_log(b"".join(without_repeated(outcome.chunks, last)) + last)
    assert len(outcome.chunks) > 5
    assert not streamed.losses.any
    events, ticks = operators_of(streamed)
    wanted, expected = operators_of(whole)
    assert events == wanted
    # The same instructions begin at another fraction of a tick.
    assert max(abs(a - b) for a, b in zip(ticks, expected, strict=True)) <= 1
    waits = durations(streamed)[streamed.name == streamed.names.index(WAITING)]
    assert len(waits) > 3
    assert waits.sum() > 10 * sum(ticks), "the device waits for the line most of the time"


def test_a_full_log_keeps_the_newest_runs(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    arguments = ["run", "--board", "native", "--model", MODEL, "--runs", RUNS, "--json"]
    arguments += ["--trace-limit", BUFFER, "--when-full", "drop-oldest", "-o", tmp_path / "run"]
    code, out, _ = etharness(*map(str, arguments))
    assert code == 0, "what is asked for is no failure"
    summary = json.loads(out)["trace"]
    kept = harness.load(tmp_path / "run").trace
    executions = [block for block in kept.blocks if block.name == "Execute"]
    assert summary["dropped_events"] == 0
    assert summary["dropped_runs"] == RUNS - len(executions) > 200
    assert kept.blocks[0].allocators == kept.blocks[-1].allocators
    assert len({block.count for block in executions}) == 1


def test_what_had_come_of_a_run_that_fails_is_kept(tmp_path: Path) -> None:
    def stop(stage: str, done: int, _total: int) -> None:
        if stage == "running" and done == RUNS // 2:
            raise LinkError("the line is cut")

    with pytest.raises(LinkError):
        harness.run(
            MODEL,
            board="native",
            runs=RUNS,
            output=tmp_path / "run",
            trace_limit=BUFFER,
            stream=True,
            progress=stop,
        )
    trace = harness.load(tmp_path / "run" / "trace.partial").trace
    assert not trace.losses.any
    executions = sum(block.name == "Execute" for block in trace.blocks)
    # The last few stand in the chunk that the device still had.
    assert 0.8 * RUNS // 2 <= executions <= RUNS // 2
