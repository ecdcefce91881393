"""Running sums of memory are those that the PyTorch profiler states."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from harness import HOST_NANOSECONDS, Block, Kind, Subject, Trace
from tests.support.torch_events import walk

pytestmark = pytest.mark.oracle


def test_live_bytes_are_torchs_total_allocated() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(net.parameters())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as collected:
        for _step in range(3):
            optimizer.zero_grad()
            net(torch.ones(16, 32)).sum().backward()
            optimizer.step()
    events = sorted(
        walk(collected.profiler.kineto_results.experimental_event_tree()),
        key=lambda event: event.start_time_ns,
    )
    changes = [event.extra_fields for event in events if event.tag == _EventType.Allocation]
    assert len(changes) > 50
    assert any(change.alloc_size < 0 for change in changes)
    trace = Trace.unset(
        len(changes),
        blocks=[Block("", 0, len(changes), allocators=("cpu",))],
        clocks=[HOST_NANOSECONDS],
    )
    trace.kind[:], trace.allocator[:] = Kind.ALLOCATION, 1
    trace.size[:] = [change.alloc_size for change in changes]
    before = changes[0].total_allocated - changes[0].alloc_size
    found = Subject(trace.sealed()).memory
    stated = np.array([change.total_allocated for change in changes]) - before
    assert found.live.tolist() == stated.tolist()
    assert Subject(trace).allocators[0].peak_bytes == found.peak == max(stated)
