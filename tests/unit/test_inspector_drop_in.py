"""What scripts written for ExecuTorch's Inspector use of it, without ExecuTorch."""

from __future__ import annotations

import base64
import gc
import json
import sys
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from harness import FormatError, HarnessError, UsageError, write_ed00
from harness.inspector import (
    Event,
    EventBlock,
    Inspector,
    PerfData,
    TimeScale,
    compare_results,
    parse_vgf_neural_statistics_metadata,
)
from tests.support.traces import EventSpec, RunSpec, trace_of

TICKS = {"source_time_scale": TimeScale.CYCLES, "target_time_scale": TimeScale.CYCLES}
RUN = RunSpec([EventSpec("a", 2_000_000, 5_000_000), EventSpec("b", 6_000_000, 6_500_000)])
DATA = write_ed00(trace_of(RUN))


class OtherScale(Enum):
    """An enumeration with ExecuTorch's values."""

    US = "us"
    S = "s"
    FORTNIGHT = "fortnight"


def test_time_scales_are_taken_by_value() -> None:
    scales: dict[str, Any] = {
        "source_time_scale": OtherScale.US,
        "target_time_scale": OtherScale.S,
    }
    (block,) = Inspector(etdump_data=DATA, **scales).event_blocks
    assert block.events[0].perf_data == PerfData([3.0])
    assert (block.source_time_scale, block.target_time_scale) == (OtherScale.US, OtherScale.S)
    with pytest.raises(ValueError, match="use ns, us, ms, s, cycles"):
        Inspector(etdump_data=DATA, source_time_scale=OtherScale.FORTNIGHT)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_data_may_be_any_bytes(kind: Any) -> None:
    inspector = Inspector(etdump_data=kind(DATA))
    assert [event.start_time for event in inspector.event_blocks[0].events] == [
        [2_000_000],
        [6_000_000],
    ]


@pytest.mark.parametrize("argument", ["etdump_path", "debug_buffer_path", "etrecord"])
def test_a_missing_file_is_not_found(argument: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.etdp"
    path.write_bytes(DATA)
    arguments = {"etdump_path": str(path), argument: str(tmp_path / "missing")}
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        Inspector(**arguments)
    assert isinstance(caught.value, UsageError)


def test_cycles_are_not_mixed_with_times() -> None:
    with pytest.raises(RuntimeError, match="cycles") as caught:
        Inspector(etdump_data=DATA, source_time_scale=TimeScale.CYCLES)
    assert not isinstance(caught.value, HarnessError)


def test_events_are_a_list_to_those_who_use_them_as_one() -> None:
    (block,) = Inspector(etdump_data=DATA).event_blocks
    events: Any = block.events
    first, second = events
    assert events[0] is first
    assert events[-1] is second
    assert events[:1] == [first]
    assert events == [first, second]
    assert events != [second, first]
    alone = [first]
    assert events + alone == [first, second, first]
    assert alone + events == [first, first, second]
    assert repr(events) == repr([first, second])
    with pytest.raises(IndexError):
        events[2]
    events.sort(key=lambda event: event.perf_data.avg)
    assert [event.name for event in events] == ["b", "a"]
    events.append(Event("c"))
    del events[0]
    assert [event.name for event in events] == ["a", "c"]
    events[0] = second
    assert events[0] is second


def test_a_table_shows_what_was_changed() -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    (block,) = Inspector(etdump_data=DATA).event_blocks
    block.events[1].name = "renamed"
    block.events[1].perf_data = None
    frame = block.to_dataframe()
    assert [*frame["event_name"]] == ["a", "renamed"]
    assert [*frame["avg"]] == [3.0, None]
    block.events = [block.events[1]]
    assert [*block.to_dataframe()["event_name"]] == ["renamed"]


def test_blocks_and_events_can_be_made_by_hand() -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    event = Event(name="op", perf_data=PerfData([1.0, 3.0]), op_types=["aten.add"])
    block = EventBlock("Execute", [event], reference_output=[7], run_output=[8])
    assert (block.reference_output, block.run_output) == ([7], [8])
    assert EventBlock("Execute", [event]).reference_output is None
    frame = block.to_dataframe(include_units=True, include_delegate_debug_data=True)
    assert frame["avg (ms)"][0] == 2.0
    assert frame["start_time"][0] is None
    assert event.scaled_start_time is None


def vgf_record(**changes: Any) -> bytes:
    blob = {"available": True, "encoding": "base64", "data": base64.b64encode(b"\1\2").decode()}
    segment = {"statistics_info": blob, "debug_database": {"available": False}, "id": 3}
    record = {"schema": "executorch.vgf.neural_statistics", "schema_version": 1}
    return json.dumps(
        {**record, "segments": [segment | changes.pop("segment", {})], **changes}
    ).encode()


def test_neural_statistics_are_found_among_metadata() -> None:
    run = RunSpec(
        [
            EventSpec(None, 0, 1, delegate="vgf", metadata=vgf_record()),
            EventSpec(None, 1, 2, delegate="other", metadata=b"\xff cycles"),
            EventSpec(None, 2, 3, delegate="json", metadata=b"[1]"),
        ]
    )
    (record,) = Inspector(etdump_data=write_ed00(trace_of(run))).get_vgf_neural_statistics()
    (segment,) = record["segments"]
    assert segment["statistics_info"]["raw_data"] == b"\1\2"
    assert segment["debug_database"]["raw_data"] == b""
    assert segment["id"] == 3
    assert Inspector(etdump_data=DATA).get_vgf_neural_statistics() == []


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (vgf_record(schema_version=2), "schema version: 2"),
        (vgf_record()[:-3], "Malformed VGF"),
        (
            vgf_record(segment={"statistics_info": {"available": True, "encoding": "hex"}}),
            "Unsupported encoding 'hex' of VGF neural statistics blob statistics_info",
        ),
        (
            vgf_record(
                segment={"statistics_info": {"available": True, "encoding": "base64", "data": "?"}}
            ),
            "Malformed base64 data in VGF neural statistics blob statistics_info",
        ),
    ],
)
def test_damaged_neural_statistics_are_an_error(metadata: bytes, message: str) -> None:
    run = RunSpec([EventSpec(None, 0, 1, delegate="vgf", metadata=metadata)])
    with pytest.raises(ValueError, match=message):
        Inspector(etdump_data=write_ed00(trace_of(run))).get_vgf_neural_statistics()


def test_metadata_of_something_else_are_no_neural_statistics() -> None:
    with pytest.raises(ValueError, match="not a record"):
        parse_vgf_neural_statistics_metadata('{"schema": "other"}')
    with pytest.raises(TypeError, match="int"):
        parse_vgf_neural_statistics_metadata(3)  # type: ignore[arg-type]


def test_plots_are_drawn_instead_of_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The oracle tests draw with matplotlib itself.
    figure, axes, pyplot = MagicMock(), MagicMock(), MagicMock()
    pyplot.subplots.return_value = figure, axes
    monkeypatch.setitem(sys.modules, "matplotlib", pyplot)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    reference, run = [np.array([3.0, 4.0]), 7], [np.array([3.0, 4.0]), 7]
    found = compare_results(reference, run, ["snr", "cosine_similarity"], plot=True)
    assert found == {"snr": [float("inf"), None], "cosine_similarity": [1.0, None]}
    files = [call.args[0] for call in figure.savefig.call_args_list]
    assert files == ["snr_output_plot.png", "cosine_similarity_output_plot.png"]
    assert [call.args for call in axes.bar.call_args_list] == [([], []), ([0], [1.0])]
    assert capsys.readouterr().out == ""


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(UsageError) as caught:
        compare_results([np.zeros(1)], [np.zeros(1)], plot=True)
    assert caught.value.hint == "pip install 'etdump-harness[plot]'"


def test_notebooks_show_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    inspector = Inspector(etdump_data=DATA)
    assert "<table" in inspector._repr_html_()
    shown: list[Any] = []
    notebook: Any = ModuleType("IPython")
    notebook.get_ipython = lambda: "a shell"
    notebook.display = SimpleNamespace(display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    inspector.print_data_tabular()
    (frame,) = shown
    assert [*frame["event_name"]] == ["a", "b"]
    assert capsys.readouterr().out == ""
    notebook.get_ipython = lambda: None
    inspector.print_data_tabular()
    assert "avg (ms)" in capsys.readouterr().out


def test_the_width_of_the_counter_can_be_given() -> None:
    events = [EventSpec("a", 2**24 - 10, 22), EventSpec("x", 2**24 - 1, 4, delegate=1)]
    data = write_ed00(trace_of(RunSpec(events)))
    own, delegated = Inspector(etdump_data=data, clock_bits=24, **TICKS).event_blocks[0].events
    assert (own.perf_data, delegated.perf_data) == (PerfData([32.0]), PerfData([5.0]))
    assert own.start_time == [2**24 - 10]
    with pytest.raises(UsageError, match="beyond 2\\*\\*23"):
        Inspector(etdump_data=data, clock_bits=23, **TICKS)


def test_a_delegates_counter_may_be_wider_than_the_given_width() -> None:
    events = [EventSpec("a", 2**24 - 10, 22), EventSpec("x", 2**24 - 1, 2**24 + 4, delegate=1)]
    data = write_ed00(trace_of(RunSpec(events)))
    own, delegated = Inspector(etdump_data=data, clock_bits=24, **TICKS).event_blocks[0].events
    assert (own.perf_data, delegated.perf_data) == (PerfData([32.0]), PerfData([5.0]))


def test_damaged_files_can_be_salvaged() -> None:
    runs = [RunSpec([EventSpec(f"op{n}", n, n + 1) for n in range(40)])]
    data = write_ed00(trace_of(*runs))[:-8]
    with pytest.raises(FormatError, match="truncated"):
        Inspector(etdump_data=data)
    inspector = Inspector(etdump_data=data, salvage=True)
    assert "truncated" in inspector.damage[0].reason
    assert 0 < len(inspector.event_blocks[0].events) <= 40
    assert Inspector(etdump_data=DATA).damage == ()


def test_a_converter_need_not_be_linear() -> None:
    events = [EventSpec(None, start, start + 10, delegate=1) for start in (0, 100)]
    inspector = Inspector(
        etdump_data=write_ed00(trace_of(RunSpec(events))),
        delegate_time_scale_converter=lambda _, time: time**2,
    )
    (event,) = inspector.event_blocks[0].events
    assert event.perf_data == PerfData([100.0, 110.0**2 - 100.0**2])
    assert event.scaled_start_time == [0.0, 10_000.0]
    assert event.start_time == [0, 100]


@pytest.mark.slow
def test_an_event_is_made_when_it_is_first_read() -> None:
    count = 500
    run = RunSpec([EventSpec(f"op{n}", n, n + 1, 0, n) for n in range(count)])
    before = sum(isinstance(item, Event) for item in gc.get_objects())
    inspector = Inspector(etdump_data=write_ed00(trace_of(run, run)))
    made = [sum(isinstance(item, Event) for item in gc.get_objects()) - before]
    events = inspector.event_blocks[0].events
    assert events[count - 1].perf_data == PerfData([1e-6, 1e-6])
    made.append(sum(isinstance(item, Event) for item in gc.get_objects()) - before)
    assert len([*events]) == count
    made.append(sum(isinstance(item, Event) for item in gc.get_objects()) - before)
    assert made == [0, 1, count]
