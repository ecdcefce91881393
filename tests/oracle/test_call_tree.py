"""Call trees have the parents of the PyTorch profiler's own event tree."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from torch._C._profiler import _EventType, _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from harness.analyze.begin_order import NEVER, begin_tree
from harness.analyze.call_tree import call_tree
from harness.records.clock_domain import HOST_NANOSECONDS
from tests.support.logs import profile_trace
from tests.support.torch_events import Profiled, in_order_of_ends, profiled

pytestmark = pytest.mark.oracle


def collect(**options: Any) -> Any:
    return profile(activities=[ProfilerActivity.CPU], **options)


def on_all_threads() -> Any:
    return collect(experimental_config=_ExperimentalConfig(profile_all_threads=True))


def network() -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10))


IMAGE = torch.ones(2, 3, 8, 8)


def on_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def nested_operators() -> Any:
    with collect() as collected:
        network()(IMAGE)
    return collected


def training() -> Any:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with collect() as collected:
        net(IMAGE).sum().backward()
        optimizer.step()
    return collected


def backward_on_another_thread() -> Any:
    with on_all_threads() as collected, record_function("outer"):
        loss = network()(IMAGE).sum()
        with record_function("wait"):
            on_another_thread(loss.backward)
    return collected


def two_threads() -> Any:
    net = network()
    with on_all_threads() as collected:
        threads = [threading.Thread(target=lambda: net(IMAGE)) for _ in range(2)]
        for thread in threads:
            thread.start()
        with record_function("here"):
            net(IMAGE)
        for thread in threads:
            thread.join()
    return collected


def record_functions() -> Any:
    with collect() as collected, record_function("outer"):
        for step in range(3):
            with record_function(f"step {step}"), record_function("inner"):
                network()(IMAGE)
            torch.ones(3).sum()
    return collected


def quantized() -> Any:
    layer = torch.ao.nn.quantized.Conv2d(3, 8, 3)
    tensor = torch.quantize_per_tensor(IMAGE, 0.1, 0, torch.quint8)
    with collect() as collected:
        torch.nn.functional.relu(layer(tensor)).dequantize().mean()
    return collected


def memory() -> Any:
    with collect(profile_memory=True, record_shapes=True) as collected:
        network()(IMAGE).sum().backward()
    return collected


def ended_on_another_thread() -> Any:
    net = network()
    with on_all_threads() as collected, record_function("outer"):
        handle = torch.ops.profiler._record_function_enter_new("moved", None)
        net(IMAGE)

        def end() -> None:
            torch.ops.profiler._record_function_exit(handle)
            net(IMAGE)

        on_another_thread(end)
        net(IMAGE)
    return collected


CASES = [nested_operators, training, backward_on_another_thread, two_threads, record_functions]
CASES += [quantized, memory, ended_on_another_thread]


@pytest.mark.parametrize("case", CASES)
def test_parents_are_those_of_torchs_event_tree(case: Callable[[], Any]) -> None:
    found = profiled(case())
    tree = begin_tree(found.columns)
    assert len(found.events) > 5
    assert tree.parent.tolist() == found.parent.tolist()
    assert tree.end.tolist() == found.columns.end.tolist()


def test_the_cases_have_what_they_are_about() -> None:
    def crossing(found: Profiled) -> int:
        thread, parent = found.columns.thread, found.parent
        return int(np.count_nonzero((parent >= 0) & (thread != thread[parent])))

    assert crossing(profiled(backward_on_another_thread())) > 5
    assert len(np.unique(profiled(two_threads()).columns.thread)) == 3
    assert begin_tree(profiled(ended_on_another_thread()).columns).moved == 1
    kinds = {event.tag for event in profiled(memory()).events}
    assert _EventType.Allocation in kinds


def test_what_never_ended_ends_as_torch_says() -> None:
    kept = []

    def never(name: str) -> None:
        kept.append(record_function(name))
        kept[-1].__enter__()

    net = network()
    with collect() as collected:
        with record_function("outer"):
            never("never, within")
            net(IMAGE)
        never("never, last")
        net(IMAGE)
    found = profiled(collected)
    unseen = np.array([event.name.startswith("never") for event in found.events])
    end = np.where(unseen, NEVER, found.columns.end)
    tree = begin_tree(replace(found.columns, end=end))
    assert tree.parent.tolist() == found.parent.tolist()
    assert tree.finished.tolist() == (~unseen).tolist()
    names = [event.name for event in found.events]
    within, outer = names.index("never, within"), names.index("outer")
    assert tree.end[within] == found.columns.end[within] == tree.end[outer]
    # With nothing around it, torch closes it when the profile ends, which the events do not tell.
    last = names.index("never, last")
    assert tree.end[last] == max(found.columns.end[~unseen]) <= found.columns.end[last]


@pytest.mark.parametrize("tick", [1, 1_000, 10_000, 100_000])
def test_a_log_in_order_of_ends_has_the_same_parents_but_for_marked_ones(tick: int) -> None:
    collected = training()
    log = list(in_order_of_ends(collected.profiler.kineto_results.experimental_event_tree()))
    row = {event.id: index for index, event in enumerate(log)}
    parent = np.array([row[event.parent.id] if event.parent else -1 for event in log])
    start = np.array([event.start_time_ns for event in log]) // tick
    end = np.array([event.end_time_ns for event in log]) // tick
    tree = call_tree(profile_trace(start.tolist(), end.tolist(), HOST_NANOSECONDS))
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
