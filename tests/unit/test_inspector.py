"""The Inspector without torch: events, times, values, symbols."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import ClockDomain, DebugValue, TensorValue, UsageError, write_ed00
from harness.inspector import (
    Inspector,
    L1Comparator,
    MSEComparator,
    NumericalComparatorBase,
    PerfData,
    SNRComparator,
    TimeScale,
    compare_results,
)
from harness.inspector.comparators import measure_outputs
from harness.inspector.event import STATISTICS, scale_between, statistics
from harness.runs.source import load_source
from tests.conftest import FIXTURES, MODELS
from tests.support.records import EDGE, graph, node, write_record
from tests.support.traces import EventSpec, RunSpec, trace_of

pytestmark = pytest.mark.filterwarnings("ignore:.*have no elements")
TICKS = {"source_time_scale": TimeScale.CYCLES, "target_time_scale": TimeScale.CYCLES}


def inspect(*runs: RunSpec, **options: Any) -> Inspector:
    return Inspector(etdump_data=write_ed00(trace_of(*runs)), **options)


def raws(inspector: Inspector) -> dict[str, list[float]]:
    return {
        event.name: event.perf_data.raw
        for block in inspector.event_blocks
        for event in block.events
        if event.perf_data
    }


def test_the_default_scales_are_nanoseconds_to_milliseconds() -> None:
    inspector = inspect(RunSpec([EventSpec("a", 1_000_000, 3_500_000), EventSpec("b", 0, 1)]))
    assert raws(inspector) == {"a": [2.5], "b": [1e-6]}
    (block,) = inspector.event_blocks
    assert (block.source_time_scale, block.target_time_scale) == (TimeScale.NS, TimeScale.MS)
    assert block.events[0].start_time == [1_000_000]
    assert block.events[0].scaled_start_time == [1.0]


@given(
    source=st.sampled_from(TimeScale),
    target=st.sampled_from(TimeScale),
    start=st.integers(0, 2**50),
    length=st.integers(0, 2**40),
)
def test_times_are_the_nearest_to_exact_ones(
    source: TimeScale, target: TimeScale, start: int, length: int
) -> None:
    run = RunSpec([EventSpec("a", start, start + length)])
    options = {"source_time_scale": source, "target_time_scale": target}
    if (source is TimeScale.CYCLES) != (target is TimeScale.CYCLES):
        with pytest.raises(RuntimeError, match="cycles"):
            inspect(run, **options)
        return
    factor = scale_between(source, target)
    (event,) = inspect(run, **options).event_blocks[0].events
    assert event.perf_data is not None
    assert event.start_time == [start]
    assert event.scaled_start_time is not None
    for found, exact in ((event.perf_data.raw[0], length), (event.scaled_start_time[0], start)):
        expected = float(Fraction(exact) / factor)
        assert found == pytest.approx(expected, rel=3e-16, abs=0)


def test_repeats_runs_and_chains_are_all_kept() -> None:
    loop = [EventSpec("a", t, t + n, 0, 1) for t, n in ((0, 10), (20, 30), (60, 100))]
    other = [EventSpec("a", 200, 207, 1, 1)]
    inspector = inspect(RunSpec([*loop, *other]), RunSpec([*loop[:2], *other]), **TICKS)
    (block,) = inspector.event_blocks
    assert block.runs == [0, 1]
    first, second = block.events
    assert first.perf_data == PerfData([10.0, 30.0, 100.0, 10.0, 30.0])
    assert first.perf_data != PerfData([1.0])
    assert (first.chain_index, second.chain_index) == (0, 1)
    assert second.perf_data == PerfData([7.0, 7.0])
    assert [inspector.trace.start[row] for row in second.rows] == [200, 200]


def test_runs_in_which_other_events_happened_are_another_block() -> None:
    a, b = EventSpec("a", 0, 1), EventSpec("b", 1, 2)
    inspector = inspect(
        RunSpec([a]),
        RunSpec([a, b]),
        RunSpec([a]),
        RunSpec([a], name="Default"),
        RunSpec([a], bundled=2),
    )
    found = [
        (block.name, block.bundled_input_index, block.runs) for block in inspector.event_blocks
    ]
    assert found == [
        ("Execute", -1, [0, 2]),
        ("Execute", -1, [1]),
        ("Default", -1, [3]),
        ("Execute", 2, [4]),
    ]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (2**32 - 1, 0, 1.0),
        (2**32 - 16, 16, 32.0),
        (10, 9, -1.0),
        (2**40, 2**40 - 3, -3.0),
        (2**40, 2**40 + 2**33, 2.0**33),
    ],
)
@pytest.mark.parametrize("delegate", [None, 7])
def test_wraps_and_steps_back_are_told_apart(
    start: int, end: int, expected: float, delegate: int | None
) -> None:
    inspector = inspect(RunSpec([EventSpec("a", start, end, delegate=delegate)]), **TICKS)
    assert [*raws(inspector).values()] == [[expected]]
    assert inspector.backward_events == (expected < 0)


def test_starts_go_on_over_a_wrap() -> None:
    events = [
        EventSpec("a", 2**32 - 50, 2**32 - 20),
        EventSpec("b", 2**32 - 10, 5),
        EventSpec("c", 10, 20),
    ]
    (block,) = inspect(RunSpec(events), **TICKS).event_blocks
    starts = [event.scaled_start_time for event in block.events]
    assert starts == [[2**32 - 50], [2**32 - 10], [2**32 + 10]]
    assert [event.start_time for event in block.events] == [[2**32 - 50], [2**32 - 10], [10]]


def test_a_converter_is_for_delegates_and_gets_their_ids() -> None:
    asked: list[Any] = []

    def double(name: int | str, time: float) -> float:
        asked.append(name)
        return 2 * time + 5

    events = [
        EventSpec("a", 0, 10),
        EventSpec("b", 2**32 - 3, 4, delegate=3),
        EventSpec(None, 1, 2, delegate="x"),
    ]
    inspector = inspect(RunSpec(events), delegate_time_scale_converter=double)
    assert raws(inspector) == {"a": [1e-5], "3": [14.0], "x": [2.0]}
    assert set(asked) == {"3", "x"}
    starts = {event.name: event.scaled_start_time for event in inspector.event_blocks[0].events}
    assert starts == {"a": [0.0], "3": [2.0 * (2**32 - 3) + 5], "x": [7.0 + 2 * 2**32]}


def test_metadata_are_given_as_they_are_or_parsed() -> None:
    events = [EventSpec(None, 0, 1, delegate="x", metadata=b"\0\xff"), EventSpec("a", 0, 1)]
    run = RunSpec(events)
    bare = inspect(run, run).event_blocks[0].events
    assert bare[0].raw_delegate_debug_metadatas == [b"\0\xff"] * 2
    assert bare[0].delegate_debug_metadatas == [b"\0\xff"] * 2
    assert bare[1].delegate_debug_metadatas == []
    parsed = inspect(run, delegate_metadata_parser=lambda found: {"bytes": len(found[0])})
    assert parsed.event_blocks[0].events[0].delegate_debug_metadatas == {"bytes": 2}


TENSOR = TensorValue(6, (2, 2), (1, 2), 64)


def valued(
    value: Any, type_: int, *, output: bool | None = None, instruction: int = 0
) -> EventSpec:
    return EventSpec(value=DebugValue(value, type_, output), instruction=instruction)


@pytest.fixture
def buffer(tmp_path: Path) -> Path:
    path = tmp_path / "debug.bin"
    path.write_bytes(bytes(64) + np.arange(4, dtype=np.float32).tobytes())
    return path


def test_values_are_numpys_where_nobody_uses_torch(buffer: Path) -> None:
    run = RunSpec(
        [
            EventSpec("a", 0, 1),
            valued(TENSOR, 5),
            valued((TENSOR, TENSOR), 6),
            valued(7, 1),
            EventSpec("OPERATOR_CALL", 0, 2),
            valued(float("inf"), 4, instruction=1),
            valued(TENSOR, 5, output=True),
            valued(True, 2, output=True),
        ]
    )
    inspector = inspect(run, debug_buffer_path=buffer, tensors="numpy")
    (block,) = inspector.event_blocks
    kernel, wrapper, alone = block.events
    tensor, pair, number = kernel.debug_data
    np.testing.assert_array_equal(tensor, [[0, 2], [1, 3]])
    assert len(pair) == 2
    assert number == 7
    assert wrapper.debug_data is kernel.debug_data
    assert (alone.name, alone.debug_data, alone.perf_data) == ("", [float("inf")], None)
    assert block.run_output is not None
    np.testing.assert_array_equal(block.run_output[0], tensor)
    assert block.run_output[1] is True


def test_tensors_without_elements_are_not_made_up() -> None:
    with pytest.warns(UserWarning, match="1 logged tensors have no elements"):
        inspector = inspect(RunSpec([EventSpec("a", 0, 1), valued(TENSOR, 5)]))
    assert inspector.event_blocks[0].events[0].debug_data == [TENSOR]


def test_values_may_differ_between_runs() -> None:
    runs = [
        RunSpec([EventSpec("a", 0, 1), valued(n, 1), valued(10 * n, 1, output=True)])
        for n in (1, 2, 3)
    ]
    (block,) = inspect(*runs).event_blocks
    assert block.events[0].debug_data == [1]
    assert block.events[0].debug_data_per_run == [[1], [2], [3]]
    assert block.run_output == [10]
    assert block.run_outputs == [[10], [20], [30]]


def test_a_values_name_replaces_the_events() -> None:
    named = EventSpec("layer", value=DebugValue(1, 1, None))
    (block,) = inspect(RunSpec([EventSpec("a", 0, 1), named])).event_blocks
    assert [event.name for event in block.events] == ["layer"]


def test_allocations_and_names_that_are_not_utf8_do_no_harm() -> None:
    run = RunSpec([EventSpec("\udcff", 0, 1), EventSpec(allocated=64)], allocators=("heap",))
    inspector = Inspector(etdump_data=write_ed00(trace_of(run)))
    assert raws(inspector) == {"\udcff": [1e-6]}
    assert len(inspector.trace) == 2


def test_device_logs_and_run_directories_are_read(tmp_path: Path) -> None:
    recorded = FIXTURES / "kws_f32_executorch.etdp"
    assert raws(Inspector(recorded)) == raws(Inspector(etdump_data=recorded.read_bytes()))
    for wrong in ({}, {"etdump_path": "a", "etdump_data": b""}):
        with pytest.raises(ValueError, match="exactly one"):
            Inspector(**wrong)
    with pytest.raises(FileNotFoundError, match="not found"):
        Inspector(recorded, debug_buffer_path=tmp_path / "nothing")
    with pytest.raises(TypeError, match="etrecord"):
        Inspector(recorded, etrecord=3)
    with pytest.raises(ValueError, match="tensors"):
        Inspector(recorded, tensors="jax")


FILES: dict[str, Any] = {
    "debug_handle_map": {"forward": {"0": 1, "1": [2, 3]}},
    "delegate_map": {"forward": {"1": {"name": "Npu", "delegate_map": {"2": [2], "12": 3}}}},
    "instruction_id_to_num_outs_map": {"forward": {"1": 2}},
    f"{EDGE}/forward": graph(
        [
            node("mul", "aten.mul.Tensor", 1, "", "layers.1"),
            node("relu", "aten.relu.default", 2, "", "layers.12"),
            node("tanh", "aten.tanh.default", 3, "", "layers.1"),
        ]
    ),
    "later": graph([node("whole", "aten.whole.default", 1)]),
}
SYMBOLIC = RunSpec(
    [
        EventSpec("native_call_mul.out", 0, 10),
        EventSpec("OPERATOR_CALL", 0, 12),
        EventSpec(None, 20, 50, 0, 1, delegate="2"),
        EventSpec(None, 50, 70, 0, 1, delegate=12),
        EventSpec(None, 50, 50, 0, 1, delegate="x2"),
        EventSpec("DELEGATE_CALL", 15, 85, 0, 1),
        EventSpec("Method::execute", 0, 90, -1, 0),
    ]
)


@pytest.fixture
def etrecord(tmp_path: Path) -> Path:
    return write_record(tmp_path / "etrecord.bin", FILES)


def test_events_know_their_operators(etrecord: Path) -> None:
    inspector = inspect(SYMBOLIC, etrecord=str(etrecord))
    events = {event.name: event for event in inspector.event_blocks[0].events}
    assert events["native_call_mul.out"].op_types == ["aten.mul.Tensor"]
    assert events["native_call_mul.out"].debug_handles == 1
    assert events["native_call_mul.out"].stack_traces == {"mul_": "File of mul"}
    assert [*events["native_call_mul.out"].module_hierarchy["mul_"]] == [
        "L__self__",
        "L__self__layers.1",
    ]
    call = events["DELEGATE_CALL"]
    assert (call.debug_handles, call.delegate_backend_name, call.num_outputs) == ([2, 3], "Npu", 2)
    assert events["2"].debug_handles == [2]
    assert events["12"].debug_handles == 3
    assert events["x2"].debug_handles is None
    assert events["x2"].delegate_backend_name == "Npu"
    assert events["Method::execute"].debug_handles is None
    assert events["Method::execute"].op_types == []


def test_modules_are_summed_once(etrecord: Path) -> None:
    inspector = inspect(SYMBOLIC, SYMBOLIC, etrecord=etrecord, **TICKS)
    assert inspector.find_total_for_module("layers.1") == 30.0
    assert inspector.find_total_for_module("layers.12") == 30.0
    assert inspector.find_total_for_module("layers") == 60.0
    assert inspector.find_total_for_module("") == 80.0
    assert inspect(SYMBOLIC).find_total_for_module("") == 0.0


def test_another_graph_or_method_can_be_meant(etrecord: Path) -> None:
    inspector = inspect(SYMBOLIC, etrecord=etrecord, reference_graph_name="later")
    assert inspector.event_blocks[0].events[0].op_types == ["aten.whole.default"]
    with pytest.raises(UsageError, match="no method"):
        inspect(SYMBOLIC, etrecord=etrecord, method="encode")


def test_references_are_those_of_the_bundled_input_or_none(etrecord: Path) -> None:
    (block,) = inspect(SYMBOLIC, etrecord=etrecord).event_blocks
    assert block.reference_output is None
    bundled = RunSpec(SYMBOLIC.events, bundled=1)
    assert inspect(bundled, etrecord=etrecord).event_blocks[0].reference_output is None
    assert inspect(SYMBOLIC).get_exported_program() is None
    with pytest.raises(ValueError, match="ETRecord"):
        inspect(SYMBOLIC).calculate_numeric_gap("MSE")


def test_statistics_of_many_events_are_those_of_each() -> None:
    generator = np.random.default_rng(3)
    values = [generator.exponential(size=size).tolist() for size in (1, 3, 3, 0, 200)]
    starts = np.cumsum([0, *map(len, values)])
    table = statistics(np.concatenate(values), starts)
    for row, raw in zip(table.tolist(), values, strict=True):
        if raw:
            assert row == [getattr(PerfData(raw), key) for key in STATISTICS]
        else:
            assert np.isnan(row).all()


@pytest.fixture
def events() -> list[RunSpec]:
    return [
        SYMBOLIC,
        RunSpec(SYMBOLIC.events),
        RunSpec([EventSpec("\udcff", 0, 3)], name="Default"),
    ]


def test_what_was_read_already_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trace.etdp"
    path.write_bytes(write_ed00(trace_of(RunSpec([EventSpec("a", 2**32 - 8, 8)]))))
    clock = ClockDomain("given", Fraction(1_000_000), 64)
    assert raws(Inspector(etdump_data=load_source(path, clock))) == {"a": [0.016]}
    narrow = ClockDomain("given", Fraction(1_000_000), 40)
    source = load_source(path, narrow)
    assert raws(Inspector(etdump_data=source)) == {"a": [(2**40 - 2**32 + 16) / 1000]}


def test_tables_have_a_row_per_event(events: list[RunSpec], etrecord: Path) -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    inspector = inspect(*events, etrecord=etrecord)
    frame = inspector.to_dataframe()
    names = [event.name for block in inspector.event_blocks for event in block.events]
    assert [*frame["event_name"]] == [name.replace("\udcff", "\\udcff") for name in names]
    assert "p50 (ms)" in frame
    assert [*frame["start_time"][:2]] == [[0, 0], [0, 0]]
    one = inspector.event_blocks[0].events[0].to_dataframe()
    assert [*one["avg"]] == [1e-5]
    assert inspector.event_blocks[0].events[0].asdict()["p10"] == 1e-5


def test_printed_tables_leave_out_wrappers(
    events: list[RunSpec], etrecord: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    inspector = inspect(*events, etrecord=etrecord)
    text, tabs = io.StringIO(), io.StringIO()
    inspector.print_data_tabular(text)
    inspector.save_data_to_tsv(tabs)
    assert "OPERATOR_CALL" not in text.getvalue() + tabs.getvalue()
    assert "\\udcff" in tabs.getvalue()
    assert len(tabs.getvalue().splitlines()) == 1 + 6 + 1
    assert len(text.getvalue().strip().splitlines()) == 1 + 6 + 1
    inspector.print_data_tabular()
    assert capsys.readouterr().out == text.getvalue()


def test_empty_dumps_make_empty_tables() -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    for runs in ([], [RunSpec([valued(1, 1, output=True)])]):
        frame = inspect(*runs).to_dataframe()
        assert len(frame) == 0
        assert {"event_block_name", "event_name", "p10 (ms)"} <= {*frame.columns}


def test_metadata_become_columns() -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    run = RunSpec([EventSpec("a", 0, 1), EventSpec(None, 0, 1, delegate="x", metadata=b"m")])
    frame = inspect(run).to_dataframe(include_delegate_debug_data=True)
    assert frame["delegate_debug_metadata"][1] == [b"m"]
    parsed = inspect(
        run, delegate_metadata_parser=lambda found: {"n": len(found), "first": found[0]}
    )
    frame = parsed.to_dataframe(include_delegate_debug_data=True)
    assert (frame["n"][1], frame["first"][1]) == (1, b"m")
    wrong = inspect(run, delegate_metadata_parser=lambda _: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="int"):
        wrong.to_dataframe(include_delegate_debug_data=True)
    plain = inspect(RunSpec([EventSpec("a", 0, 1)]))
    assert "delegate_debug_metadata" not in plain.to_dataframe(include_delegate_debug_data=True)


def test_without_pandas_a_table_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError) as caught:
        inspect(SYMBOLIC).to_dataframe()
    assert caught.value.hint == "pip install 'etdump-harness[inspector]'"


def test_neither_torch_nor_pandas_is_imported_for_events(etrecord: Path) -> None:
    code = (
        "import sys; from harness.inspector import Inspector;"
        "found = Inspector(sys.argv[1], etrecord=sys.argv[2]);"
        "assert found.event_blocks[1].events[0].op_types, found;"
        "assert not {'torch', 'pandas'} & {*sys.modules}"
    )
    files = [FIXTURES / "kws_f32_executorch.etdp", MODELS / "npu_int.etrecord"]
    subprocess.run([sys.executable, "-c", code, *map(str, files)], check=True)


@given(
    pair=st.integers(1, 8).flatmap(
        lambda n: st.tuples(*[st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n)] * 2)
    )
)
def test_distances_are_what_they_are_called(pair: tuple[list[float], list[float]]) -> None:
    a, b = (np.array(values) for values in pair)
    assert MSEComparator().element_compare(a, b) == pytest.approx(np.mean((a - b) ** 2))
    assert L1Comparator().element_compare(a, b) == pytest.approx(np.abs(a - b).sum())
    if (a != b).any() and np.mean(a**2) > 1e-100 and np.mean((a - b) ** 2) > 1e-100:
        expected = 10 * np.log10(np.mean(a**2) / np.mean((a - b) ** 2))
        assert SNRComparator().element_compare(a, b) == pytest.approx(expected)
    assert L1Comparator().element_compare(a, a) == 0.0


def test_distances_of_odd_values() -> None:
    assert L1Comparator().element_compare(3, 5.5) == 2.5
    assert L1Comparator().element_compare(float("nan"), 1.0) == 1.0
    assert SNRComparator().element_compare(1.0, 1.0) == float("inf")
    with pytest.raises(ValueError, match="neither a number nor a tensor"):
        MSEComparator().element_compare("text", 1.0)


class Custom(NumericalComparatorBase):
    """Compares what ``preprocessing`` was told to return."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def preprocessing(self, mapping: Any) -> Any:
        return self.result

    def element_compare(self, a: Any, b: Any) -> float:
        return float(b - a)


def test_a_custom_comparator_prepares_and_compares() -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    pairs = {
        ((1,), 3.0): ((1,), 5.0),
        ((2,), (1.0,)): ((2, 4), (8.0,)),
        ((3,), None): ((3,), 5.0),
        ((4,), (1.0, 2.0)): ((4,), (1.0, 2.0)),
    }
    frame = Custom(pairs).compare({}, {(1,): ["a"], (2,): ["b"]}, {(2,): ["x"], (4,): ["y"]})
    assert [*frame["gap"]] == [[2.0], [7.0]]
    assert [*frame["aot_ops"]] == [["a"], ["b"]]
    assert [*frame["runtime_ops"]] == [[], ["x", "y"]]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ([], TypeError),
        ({1: ((1,), 2)}, ValueError),
        ({((1,), 2): ((1.5,), 2)}, ValueError),
        ({((1,), (1.0,)): ((1,), 2.0)}, ValueError),
        ({((1,), (1.0,)): ((1,), (2.0, 3.0))}, ValueError),
    ],
)
def test_a_comparators_mistakes_are_named(result: Any, error: type[Exception]) -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    with pytest.raises(error):
        Custom(result).compare({}, {}, {})


def test_outputs_are_measured_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    reference, run = [np.array([3.0, 4.0]), 7], [np.array([3.0, 3.0]), 7]
    found = compare_results(reference, run)
    assert found["mse"] == [0.5, None]
    assert found["snr"][0] == pytest.approx(10 * np.log10(12.5 / 0.5))
    assert found["cosine_similarity"][0] == pytest.approx(21 / (5 * 18**0.5))
    assert "cosine_similarity" in capsys.readouterr().out
    assert [*measure_outputs(reference, run, ["mse"])] == ["mse"]
    with pytest.raises(ValueError, match="2 outputs"):
        measure_outputs(reference[:1], run)
    with pytest.raises(ValueError, match="shape"):
        measure_outputs([np.zeros(2)], [np.zeros(3)])
