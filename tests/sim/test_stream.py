"""A run whose log is many times as long as the board's buffer for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.lab.run import RunRequest, run_model
from harness.resources import data_directory

pytestmark = pytest.mark.sim

MODEL = data_directory("firmware_stub") / "models" / "small_int8.pte"
BUFFER = 4096
RUNS = 300


@pytest.mark.parametrize("board", ["native", "qemu-mps2-an385"])
def test_a_log_of_twenty_buffers_arrives_whole(board: str, tmp_path: Path) -> None:
    request = RunRequest(board, MODEL, RUNS, tmp_path / "run", trace_limit=BUFFER, stream=True)
    outcome = run_model(request)
    summary = outcome.result.trace
    assert summary is not None
    assert summary.log_bytes > 20 * BUFFER
    assert not outcome.trace.losses.any
    assert sum(block.name == "Execute" for block in outcome.trace.blocks) == RUNS
    assert summary.streaming_ticks > 0
