"""Time scales of what was read: several dumps on the same clocks."""

from __future__ import annotations

from pathlib import Path

import harness
from harness import HOST_NANOSECONDS, Block, Trace, operator_statistics, write_ed00


def dump(*numbers: int) -> bytes:
    """Events of 10 ticks each, of delegates with these debug ids (-1: of none)."""
    count = len(numbers)
    trace = Trace.unset(count, blocks=[Block("Execute", 0, count)], clocks=[HOST_NANOSECONDS])
    trace.clock[:], trace.start[:], trace.end[:] = 0, 5, 15
    trace.delegate_int[:] = numbers
    return write_ed00(trace.sealed())


def test_several_dumps_share_their_clocks_whichever_a_scale_means(tmp_path: Path) -> None:
    file = tmp_path / "dumps.etdp"
    file.write_bytes(dump(-1, 1) + dump(-1, -1) + dump(2, 2, 1))
    plain = harness.load(file).trace
    assert plain.clock.tolist() == [0] * 7
    scaled = harness.load(file, time_scales={"1": "2 GHz", "2": "5 GHz"}).trace
    assert [block.count for block in scaled.blocks] == [2, 2, 3]
    assert len(scaled.clocks) == 3
    assert scaled.clock.tolist() == [0, 1, 0, 0, 2, 2, 1]
    times = {op.delegate_int: op.ns.p50 for op in operator_statistics(scaled) if op.ns}
    assert times == {-1: 10.0, 1: 5.0, 2: 2.0}
