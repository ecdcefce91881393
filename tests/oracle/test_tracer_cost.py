"""Our tracer beside ExecuTorch's ETDumpGen, counted by valgrind on this machine; and its adapter
on a Cortex-M3."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from benchmarks.device_costs import CORES, costs
from benchmarks.device_costs import build as build_for
from benchmarks.tracer_cost import Tracers, build, instructions, log_bytes, missing
from harness.extensions.executorch.linking import find_executorch
from tests.conftest import ROOT

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


def test_an_event_through_executorchs_interface_takes_250_instructions(tmp_path: Path) -> None:
    m3 = CORES["m3"]
    counted = costs(m3, build_for(m3, ROOT / "firmware_stub", tmp_path, find_executorch()))
    assert 0 < counted["any"] <= 250
    assert 0 < counted["fixed"] <= 180


@pytest.mark.parametrize("option", ["-munaligned-access", "-mno-unaligned-access"])
def test_names_that_change_are_logged_as_the_c_tracer_logs_them(
    option: str, tmp_path: Path
) -> None:
    """They are compared by words, and by bytes where a CPU cannot load unaligned words."""
    m3 = CORES["m3"]._replace(options=(*CORES["m3"].options, option))
    program = Path(__file__).with_name("changing_names.cpp")
    counted = costs(m3, build_for(m3, ROOT / "firmware_stub", tmp_path, find_executorch(), program))
    assert counted["different"] == 0
    assert counted["names"] > 500
    assert counted["dropped"] > 1000
