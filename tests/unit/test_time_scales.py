"""Time scales of what was read: several dumps on the same clocks, delegates that a model names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness import HOST_NANOSECONDS, Block, DelegateCall, Trace, operator_statistics, write_ed00
from harness.runs.loading import delegate_calls, read_method
from harness.runs.source import load_source, on_scales

MODELS = Path(__file__).resolve().parents[2] / "firmware_stub/models"


def dump(*numbers: int) -> bytes:
    """Events of 10 ticks each, of delegates with these debug ids (-1: of none)."""
    count = len(numbers)
    trace = Trace.unset(count, blocks=[Block("Execute", 0, count)], clocks=[HOST_NANOSECONDS])
    trace.clock[:], trace.start[:], trace.end[:] = 0, 5, 15
    trace.delegate_int[:] = numbers
    return write_ed00(trace.sealed())


def test_several_dumps_share_their_clocks_whichever_a_scale_means() -> None:
    source = load_source(dump(-1, 1) + dump(-1, -1) + dump(2, 2, 1))
    scaled = on_scales(source, {"1": "2 GHz", "2": "5 GHz"})
    assert [len(found.trace) for found in scaled.dumps] == [2, 2, 3]
    assert {found.trace.clocks for found in scaled.dumps} == {scaled.trace.clocks}
    assert scaled.trace.clock.tolist() == [0, 1, 0, 0, 2, 2, 1]
    times = {op.delegate_int: op.ns.p50 for op in operator_statistics(scaled.trace) if op.ns}
    assert times == {-1: 10.0, 1: 5.0, 2: 2.0}
    assert np.array_equal(source.trace.clock, np.zeros(7))


def test_calls_of_delegates_are_read_from_the_model() -> None:
    model = (MODELS / "npu_str.pte").read_bytes()
    assert delegate_calls(read_method(model, "forward")) == (
        DelegateCall(0, 0, "SimulatedNpu"),
        DelegateCall(0, 2, "SimulatedNpu"),
    )
    assert delegate_calls(read_method(model, "backward")) == ()
    assert delegate_calls(read_method(model[:100], "forward")) == ()
