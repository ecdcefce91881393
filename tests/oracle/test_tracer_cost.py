"""Our tracer beside ExecuTorch's ETDumpGen, counted by valgrind on this machine."""

from __future__ import annotations

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from benchmarks.tracer_cost import Tracers, build, instructions, log_bytes, missing

pytestmark = pytest.mark.oracle

RATIOS = {"unnamed": 10, "interned": 10, "named": 9, "scope": 10, "delegate": 10, "afterwards": 10}
"""How many times as many instructions ETDumpGen takes for an event."""


@pytest.fixture(scope="module")
def tracers(tmp_path_factory: pytest.TempPathFactory) -> Tracers:
    if reason := missing():
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("tracers"))


@pytest.mark.parametrize("scenario", RATIOS)
def test_an_event_takes_a_tenth_of_etdumpgens_instructions(tracers: Tracers, scenario: str) -> None:
    assert tracers.theirs is not None
    theirs = instructions(tracers.theirs, scenario)
    assert instructions(tracers.ours, scenario) * RATIOS[scenario] <= theirs


@pytest.mark.parametrize(("scenario", "size"), [("unnamed", 16), ("named", 16), ("delegate", 32)])
def test_an_event_takes_records_of_sixteen_bytes(
    tracers: Tracers, scenario: str, size: int
) -> None:
    assert log_bytes(tracers.ours, scenario) == size
    assert tracers.theirs is not None
    assert log_bytes(tracers.theirs, scenario) > size
