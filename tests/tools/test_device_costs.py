"""What the tracer's calls cost: cycles on a Cortex-M0+, instructions on a Cortex-M3."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.device_costs import CORES, build, costs, missing
from tests.conftest import ROOT

pytestmark = pytest.mark.tools

MOST = {
    "m0+": {"unnamed": 270, "scope": 270, "delegate": 340, "allocation": 130, "names128": 3800},
    "m3": {"unnamed": 110, "scope": 115, "delegate": 130, "allocation": 52, "names128": 2200},
}
"""Limits of the costs of calls; records stored byte by byte took 506, 854 and 387 cycles."""


@pytest.mark.parametrize("name", MOST)
def test_calls_cost_no_more_than_stated(name: str, tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    measured = costs(CORES[name], build(CORES[name], ROOT / "firmware_stub", tmp_path))
    assert measured.keys() >= {"interned", "named", "names8", "names40", "afterwards"}
    for call, most in MOST[name].items():
        assert 0 < measured[call] <= most, call
