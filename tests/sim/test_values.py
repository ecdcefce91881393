"""Values logged on boards: the same everywhere, in chunks too, and outside what is timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import Kind, LoggedValues, Losses, Trace, durations
from tests.conftest import MODELS, CommandResult
from tests.support.values import logged_tensors

pytestmark = pytest.mark.sim

MODEL = MODELS / "small_int8.pte"
RUNS = 2


def run(
    board: str,
    directory: Path,
    values: LoggedValues,
    model: Path = MODEL,
    runs: int = RUNS,
    **options: object,
) -> harness.Run:
    return harness.run(model, board=board, runs=runs, output=directory, values=values, **options)  # type: ignore[arg-type]


def tensors(outcome: harness.Run, directory: Path) -> list[tuple[object, ...]]:
    buffer = (directory / "debug_buffer.bin").read_bytes()
    return [value.exact for value in logged_tensors(outcome.trace, buffer)]


def operator_times(trace: Trace) -> list[tuple[str | None, int]]:
    rows = np.flatnonzero((trace.kind == Kind.PROFILE) & (trace.chain >= 0))
    ticks = durations(trace)
    return [(trace.text(int(trace.name[row])), int(ticks[row])) for row in rows]


def method_time(trace: Trace) -> int:
    [row] = [i for i in range(len(trace)) if trace.text(int(trace.name[i])) == "Method::execute"]
    return int(durations(trace)[row])


def test_a_simulated_board_logs_what_native_logs(tmp_path: Path) -> None:
    found = {
        board: tensors(run(board, tmp_path / board, "intermediate"), tmp_path / board)
        for board in ("native", "qemu-mps2-an385")
    }
    assert len(found["native"]) >= 4 * RUNS
    assert found["native"] == found["qemu-mps2-an385"]


@pytest.mark.long
def test_logging_values_takes_nothing_from_operators(tmp_path: Path) -> None:
    board, model = "qemu-mps2-an385", MODELS / "kws_int8.pte"
    plain = run(board, tmp_path / "plain", "none", model, 1)
    logged = run(board, tmp_path / "logged", "intermediate", model, 1)
    before, after = operator_times(plain.trace), operator_times(logged.trace)
    assert [name for name, _ in after] == [name for name, _ in before]
    # A tick is many instructions, so where in a tick a scope begins may make one tick.
    assert max(abs(a - b) for (_, a), (_, b) in zip(after, before, strict=True)) <= 1
    values = logged.trace.kind == Kind.DEBUG
    assert durations(logged.trace)[values].max() > 10
    assert plain.result.trace is not None
    assert logged.result.trace is not None
    assert plain.result.trace.values == plain.result.trace.value_ticks == 0
    assert logged.result.trace.value_ticks == durations(logged.trace)[values].sum()
    # Between operators it does take time, within the scope around them all.
    extra = method_time(logged.trace) - method_time(plain.trace)
    outputs = values & np.array(
        [v >= 0 and bool(logged.trace.debug_values[v].output) for v in logged.trace.debug]
    )
    between = int(durations(logged.trace)[values & ~outputs].sum())
    assert between <= extra


def test_values_are_streamed_like_the_log(tmp_path: Path) -> None:
    whole = run("native", tmp_path / "whole", "intermediate")
    streamed = run(
        "native",
        tmp_path / "streamed",
        "intermediate",
        stream=True,
        trace_limit=1024,
    )
    assert streamed.result.trace is not None
    assert streamed.result.trace.streaming_ticks > 0
    assert tensors(streamed, tmp_path / "streamed") == tensors(whole, tmp_path / "whole")


def test_the_command_line_asks_for_values_and_tells_of_them(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text("schema = 1\n")  # the board's own limits operators, which are left out here
    common = ["run", "--board", "native", "--model", MODEL, "--runs", "2", "--values", "outputs"]
    common += ["--budget", budget]
    code, out, _ = etharness(*common, "--profile", "method", "-o", tmp_path / "run", "--json")
    summary = json.loads(out)["trace"]
    assert code == 0
    assert (summary["values"], summary["debug_bytes"]) == (2, 32)
    trace = harness.load(tmp_path / "run").trace
    assert (trace.chain == -1).all()
    _, out, _ = etharness(*common, "-o", tmp_path / "again")
    assert "values" in out
    assert "2 with 32 bytes of tensors" in out


def test_a_board_without_room_for_tensors_counts_them(tmp_path: Path) -> None:
    outcome = run("qemu-microbit", tmp_path / "run", "outputs")
    assert outcome.trace.losses == Losses(values=RUNS)
    summary = outcome.result.trace
    assert summary is not None
    assert (summary.values, summary.dropped_values) == (RUNS, RUNS)
    assert (summary.debug_bytes, summary.etdp_left_out_values) == (0, RUNS)
    assert outcome.result.verdict is not None
    assert not outcome.result.verdict.passed
    assert not (tmp_path / "run" / "debug_buffer.bin").exists()
