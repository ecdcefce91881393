"""Call trees of a log have the parents of the PyTorch profiler's event tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from torch.profiler import ProfilerActivity, profile

from harness import HOST_NANOSECONDS, Subject
from tests.support.logs import profile_trace
from tests.support.torch_events import in_order_of_ends

pytestmark = pytest.mark.oracle


def training() -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with profile(activities=[ProfilerActivity.CPU]) as collected:
        net(torch.ones(2, 3, 8, 8)).sum().backward()
        optimizer.step()
    return collected


@pytest.mark.parametrize("tick", [1, 1_000, 10_000, 100_000])
def test_a_log_in_order_of_ends_has_the_same_parents_but_for_marked_ones(tick: int) -> None:
    collected = training()
    log = list(in_order_of_ends(collected.profiler.kineto_results.experimental_event_tree()))
    row = {event.id: index for index, event in enumerate(log)}
    parent = np.array([row[event.parent.id] if event.parent else -1 for event in log])
    start = np.array([event.start_time_ns for event in log]) // tick
    end = np.array([event.end_time_ns for event in log]) // tick
    tree = Subject(profile_trace(start.tolist(), end.tolist(), HOST_NANOSECONDS)).tree
    wrong = tree.parent != parent
    assert not (wrong & ~tree.ambiguous).any()
    if tick == 1:
        assert not wrong.any()
    # The order of starts, by which others go, is wrong at least as often.
    assert np.count_nonzero(wrong) <= np.count_nonzero(_by_start(start, end) != parent)
    print(
        f"{tick} ns: {np.count_nonzero(wrong)} of {len(log)} wrong, {tree.ambiguous.sum()} marked"
    )


def _by_start(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Parents when events are sorted by their starts and each is in what is open then."""
    parent = np.full(len(start), -1)
    stack: list[int] = []
    for row in np.argsort(start, kind="stable").tolist():
        while stack and end[stack[-1]] < start[row]:
            stack.pop()
        parent[row] = stack[-1] if stack else -1
        if end[row] > start[row]:
            stack.append(row)
    return parent
