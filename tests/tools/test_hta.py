"""HolisticTraceAnalysis loads the flavour that is for it, and its numbers are ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hta", reason="needs the tools that read exports")

from harness import Trace, draw, export_trace, read_ed00, with_width
from tests.conftest import FIXTURES
from tests.support.exports import delegated_trace
from tests.support.wrapping import RECORDED as WRAPPED

pytestmark = pytest.mark.tools


def recorded_trace() -> Trace:
    return read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())


def wrapped_trace() -> Trace:
    return with_width(read_ed00(WRAPPED.read_bytes()), 32)


@pytest.fixture(scope="module", params=[delegated_trace, recorded_trace, wrapped_trace])
def analysis(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Any:
    """HTA's view of a trace, and the trace."""
    from hta.trace_analysis import TraceAnalysis

    build: Callable[[], Trace] = request.param
    file: Path = tmp_path_factory.mktemp("hta") / "rank0.json"
    trace = build()
    file.write_bytes(export_trace(trace, "kineto", "hta").data)
    with pytest.MonkeyPatch.context() as patch:
        # Rounding to microseconds inwards makes what is shorter end before it begins.
        patch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
        yield TraceAnalysis(trace_files={0: str(file)}, include_last_profiler_step=True), trace


def kernels(trace: Trace) -> dict[str, list[int]]:
    """Durations of what the flavour makes kernels, nanoseconds, by name."""
    drawing = draw(trace)
    chosen = [event for _, event in drawing.flows] or [
        number for number in range(len(drawing)) if drawing.name(number).startswith("native_call")
    ]
    found = defaultdict(list)
    for number in chosen:
        found[drawing.name(number)].append(int(drawing.end[number] - drawing.start[number]))
    return found


def test_every_event_is_there_and_none_ends_before_it_begins(analysis: Any) -> None:
    hta, trace = analysis
    frame = hta.t.get_trace(0)
    assert (frame.dur >= 0).all()
    assert (frame.stream > 0).sum() == sum(map(len, kernels(trace).values()))


def test_time_in_kernels_is_ours(analysis: Any) -> None:
    hta, trace = analysis
    _, frame = hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    found = {row["name"]: row["sum (us)"] for _, row in frame.iterrows()}
    ours = {name: sum(times) / 1000 for name, times in kernels(trace).items()}
    assert found.keys() == ours.keys()
    for name, total in ours.items():
        assert found[name] == pytest.approx(total, abs=1e-6)


def test_temporal_breakdown_adds_up(analysis: Any) -> None:
    hta, trace = analysis
    (row,) = hta.get_temporal_breakdown(visualize=False).to_dict("records")
    busy = sum(sum(times) for times in kernels(trace).values()) / 1000
    assert row["compute_time(us)"] == pytest.approx(busy, abs=1e-6)
    assert row["idle_time(us)"] + busy == pytest.approx(row["kernel_time(us)"], abs=1e-6)


def test_every_kernel_was_launched_before_it_ran(analysis: Any) -> None:
    hta, trace = analysis
    launches = hta.get_cuda_kernel_launch_stats(visualize=False)[0]
    durations = sorted(time for times in kernels(trace).values() for time in times)
    assert sorted(round(value * 1000) for value in launches.gpu_duration) == durations
    assert (launches.launch_delay >= 0).all()


def test_idle_time_and_queues_are_analysed(analysis: Any) -> None:
    hta, trace = analysis
    idle, _ = hta.get_idle_time_breakdown(visualize=False)
    assert (idle.idle_time >= 0).all()
    assert len(hta.get_queue_length_time_series()[0]) == 2 * sum(map(len, kernels(trace).values()))
