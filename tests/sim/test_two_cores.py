"""Two harts under QEMU, each with a tracer and a counter of its own: one run shows both."""

from __future__ import annotations

import csv
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import harness
from tests.conftest import CommandResult

pytestmark = pytest.mark.sim

BOARD = Path(__file__).parents[2] / "examples/two_cores/two-cores.toml"
OWN_HZ = 10_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    directory = tmp_path_factory.mktemp("two_cores") / "run"
    return harness.run("small_int8", board=BOARD, runs=3, output=directory)


def test_both_are_in_the_trace_and_placed(
    run: harness.Run, etharness: Callable[..., CommandResult]
) -> None:
    trace = run.trace
    second = trace.tracer == 1
    assert {trace.text(int(name)) for name in trace.name[second]} == {"acquire", "filter"}
    [number] = set(trace.clock[second].tolist())
    assert trace.clocks[number].hz == Fraction(OWN_HZ)
    assert trace.clocks[0].hz == Fraction(1_000_000_000)
    assert run.verdict.passed
    assert "I30" in {check.code for check in run.verdict.checks}
    shown = etharness("decode", run.path)
    assert shown.code == 0
    for tracer in (0, 1):
        assert f"tracer {tracer} is placed on clock mcycle by 2 pairs of readings" in shown.out
    assert "acquire" in shown.out


def test_the_timeline_has_the_second_hart_where_it_was(
    run: harness.Run, etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    """Between the readings that the firmware took around the run, and within it."""
    assert etharness("export", run.path, "-f", "csv", "-o", tmp_path / "events.csv").code == 0
    with (tmp_path / "events.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["start_ns"]]
    starts = {
        tracer: [int(r["start_ns"]) for r in rows if r["tracer"] == tracer] for tracer in "01"
    }
    own, reference = (clock.readings for clock in reversed(run.trace.tracer_clocks))
    between_ns = (own[1][1] - own[0][1]) * 100  # by the second hart's counter
    assert abs(between_ns - (reference[1][1] - reference[0][1])) <= 1000  # and by the first one's
    together = [*starts["0"], *starts["1"]]
    assert max(together) - min(together) <= between_ns
    # It works in turns with the first one, from before the model is loaded to the end.
    assert min(starts["0"]) < np.median(starts["1"]) < max(starts["0"])


def test_perfetto_has_a_track_for_each(
    run: harness.Run, etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    path = tmp_path / "run.pftrace"
    assert etharness("export", run.path, "-f", "perfetto", "-o", path).code == 0
    written = path.read_bytes()
    for name in (b"operators", b"operators of tracer 1", b"acquire", b"Method::execute"):
        assert name in written


def test_a_log_that_streams_has_both_to_the_end(tmp_path: Path) -> None:
    run = harness.run(
        "small_int8", board=BOARD, runs=30, stream=True, trace_limit=1500, output=tmp_path / "run"
    )
    assert run.verdict.passed
    assert set(run.trace.tracer.tolist()) == {0, 1}
    assert not run.trace.losses.any
