"""Our tracer beside ExecuTorch's ETDumpGen, counted by valgrind on this machine."""

from __future__ import annotations

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from benchmarks.tracer_cost import Tracers, build, instructions, log_bytes, missing

pytestmark = pytest.mark.oracle

SCENARIOS = ("unnamed", "interned", "named", "delegate", "afterwards")


@pytest.fixture(scope="module")
def tracers(tmp_path_factory: pytest.TempPathFactory) -> Tracers:
    if reason := missing():
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("tracers"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_event_takes_a_tenth_of_etdumpgens_instructions(tracers: Tracers, scenario: str) -> None:
    assert tracers.theirs is not None
    theirs = instructions(tracers.theirs, scenario)
    assert instructions(tracers.ours, scenario) * 10 <= theirs


@pytest.mark.parametrize(("scenario", "size"), [("unnamed", 16), ("named", 16), ("delegate", 32)])
def test_an_event_takes_records_of_sixteen_bytes(
    tracers: Tracers, scenario: str, size: int
) -> None:
    assert log_bytes(tracers.ours, scenario) == size
    assert tracers.theirs is not None
    assert log_bytes(tracers.theirs, scenario) > size
