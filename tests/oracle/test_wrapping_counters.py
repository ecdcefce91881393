"""A recording on a 32-bit counter that wrapped, beside ExecuTorch's own tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools import Inspector as Theirs
from executorch.devtools.inspector import TimeScale
from torch.profiler._trace_validator import validate_trace

from harness import durations, export_trace, read_ed00, with_width
from harness.inspector import Inspector
from harness.inspector import TimeScale as OurScale
from tests.oracle.test_inspector import official
from tests.support.wrapping import RECORDED, narrowed, on_a_wide_counter

pytestmark = pytest.mark.oracle


def raw_times(inspector: Any) -> list[tuple[str, str, list[float]]]:
    """Name, delegate's id and every duration of each of an Inspector's events."""
    return [
        (event.name, str(event.delegate_debug_identifier), list(event.perf_data.raw))
        for block in inspector.event_blocks
        for event in block.events
    ]


def test_executorchs_reader_finds_in_it_what_ours_does(tmp_path: Path) -> None:
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    data = RECORDED.read_bytes()
    assert official(read_ed00(data)) == deserialize_from_etdump_flatcc(data).run_data
    wide = on_a_wide_counter()
    for row in (0, 11, 14, len(wide) - 1):  # wraps at the start of each of these
        offset = 2**32 - int(wide.start[row]) % 2**32
        for adding in (True, False):
            data = narrowed(wide, 32, offset, adding=adding)
            assert official(read_ed00(data)) == deserialize_from_etdump_flatcc(data).run_data


def test_the_inspector_is_one_tick_short_at_the_wrap_and_ours_is_not() -> None:
    scales = {"source_time_scale": TimeScale.NS, "target_time_scale": TimeScale.NS}
    theirs = raw_times(Theirs(etdump_path=str(RECORDED), **scales))
    mine = {"source_time_scale": OurScale.NS, "target_time_scale": OurScale.NS}
    ours = raw_times(Inspector(etdump_path=str(RECORDED), **mine))
    assert [event[:2] for event in ours] == [event[:2] for event in theirs]
    longer = [
        (name, np.subtract(times, their_times).tolist())
        for (name, _, times), (_, _, their_times) in zip(ours, theirs, strict=True)
        if times != their_times
    ]
    assert sorted(longer) == [("DELEGATE_CALL", [0, 1, 0]), ("Method::execute", [0, 1, 0])]
    trace = with_width(read_ed00(RECORDED.read_bytes()), 32)
    assert sorted(time for *_, times in ours for time in times) == sorted(durations(trace).tolist())


@pytest.mark.parametrize("bits", [32, 64])
def test_pytorchs_own_validator_finds_nothing_wrong(bits: int, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    trace = with_width(read_ed00(RECORDED.read_bytes()), bits)
    file.write_bytes(export_trace(trace, "kineto").data)
    assert validate_trace(str(file)) == (True, [])
