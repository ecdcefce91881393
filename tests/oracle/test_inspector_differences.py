"""Where ExecuTorch's Inspector is wrong or loses data: its answer beside ours.

Each test is one case of ``docs/differences.md``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import torch
from executorch.devtools import Inspector as Theirs
from executorch.devtools.inspector import PerfData as TheirPerfData
from executorch.devtools.inspector import TimeScale as TheirScale

from harness import DebugValue, TensorValue, write_ed00
from harness.inspector import Inspector, PerfData, TimeScale
from tests.conftest import MODELS, CommandResult
from tests.support.dumps import Generator, record, record_bundled
from tests.support.exported import Exported, export_methods
from tests.support.traces import EventSpec, RunSpec, trace_of

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

NPU = str(MODELS / "npu_int.etrecord")
"""Of four instructions, two of them calls of the delegate with the ids 0, 1 and 0, 1, 2."""


def raw(inspector: Any) -> list[list[float]]:
    return [
        [float(value) for value in event.perf_data.raw]
        for block in inspector.event_blocks
        for event in block.events
        if event.perf_data is not None
    ]


def cycles(path: Path) -> tuple[Any, Inspector]:
    """Both Inspectors, in ticks."""
    theirs = Theirs(
        str(path), source_time_scale=TheirScale.CYCLES, target_time_scale=TheirScale.CYCLES
    )
    ours = Inspector(path, source_time_scale=TimeScale.CYCLES, target_time_scale=TimeScale.CYCLES)
    return theirs, ours


def both(path: Path, **options: Any) -> tuple[Any, Inspector]:
    return Theirs(str(path), **options), Inspector(str(path), **options)


def events(inspector: Any) -> dict[str, Any]:
    return {event.name: event for block in inspector.event_blocks for event in block.events}


# Time.


@pytest.mark.parametrize(
    ("start", "end", "wrong", "right"), [(0xFFFFFFFF, 0, 0.0, 1.0), (0xFFFFFFF0, 0x10, 31.0, 32.0)]
)
def test_a_wrap_is_one_tick_short(
    generator: Generator, start: int, end: int, wrong: float, right: float
) -> None:
    theirs, ours = cycles(generator.make(f"block Execute\nprofile a 0 0 {start} {end}"))
    assert raw(theirs) == [[wrong]]
    assert raw(ours) == [[right]]


def test_a_wrap_within_a_delegate_is_converted_before_it_is_undone(generator: Generator) -> None:
    theirs, ours = both(generator.make("block Execute\ndelegate - 3 0 0 4294967280 16 -"))
    assert raw(theirs)[0][0] > 4_294_960_000
    assert raw(ours) == [[32e-6]]


def test_a_small_step_back_is_taken_for_a_wrap(generator: Generator) -> None:
    theirs, ours = cycles(generator.make("block Execute\nprofile a 0 0 10 9"))
    assert raw(theirs) == [[4294967294.0]]
    assert raw(ours) == [[-1.0]]
    assert ours.backward_events == 1


def test_a_step_back_of_a_wide_clock_closes_the_file(generator: Generator) -> None:
    path = generator.make(f"block Execute\nprofile a 0 0 {2**40} {2**40 - 3}\nprofile b 0 1 1 3")
    with pytest.raises(ValueError, match="wrap-around"):
        Theirs(str(path))
    assert raw(Inspector(path, target_time_scale=TimeScale.NS)) == [[-3.0], [2.0]]


def test_starts_jump_back_at_a_wrap(generator: Generator) -> None:
    theirs, ours = cycles(
        generator.make("block Execute\nprofile a 0 0 4294967200 4294967290\nprofile b 0 1 5 25")
    )
    for inspector in (theirs, ours):
        starts = [event.start_time for event in events(inspector).values()]
        assert starts == [[4294967200], [5]]
    starts = [event.scaled_start_time for event in events(ours).values()]
    assert starts == [[4294967200], [2**32 + 5]]


def test_times_of_delegates_vanish_in_rounding(generator: Generator) -> None:
    start = 1_780_000_000_000_000_000
    path = generator.make(
        f"""block Execute
        delegate - 3 0 0 {start} {start + 100} -
        profile a 0 1 {start} {start + 100}"""
    )
    theirs, ours = both(path)
    assert raw(theirs) == [[0.0], [1e-4]]
    assert raw(ours) == [[1e-4], [1e-4]]


# Grouping.


def test_of_repeats_in_one_run_the_last_survives(generator: Generator) -> None:
    calls = "\n".join(f"profile a 0 0 0 {length}" for length in (10, 30, 100))
    theirs, ours = cycles(generator.make(f"block Execute\n{calls}"))
    assert raw(theirs) == [[100.0]]
    assert raw(ours) == [[10.0, 30.0, 100.0]]


def test_chains_collide(generator: Generator) -> None:
    theirs, ours = cycles(generator.make("block Execute\nprofile a 0 0 0 10\nprofile a 1 0 0 20"))
    assert raw(theirs) == [[20.0]]
    assert raw(ours) == [[10.0], [20.0]]
    assert [event.chain_index for event in ours.event_blocks[0].events] == [0, 1]


def test_which_run_was_of_which_kind_is_lost(generator: Generator) -> None:
    one, two = "block Execute\nprofile a 0 0 0 1", "block Execute\nprofile b 0 0 0 2"
    theirs, ours = cycles(generator.make("\n".join([one, two, one])))
    assert [len(block.events[0].perf_data.raw) for block in theirs.event_blocks] == [2, 1]
    assert not hasattr(theirs.event_blocks[0], "runs")
    assert [block.runs for block in ours.event_blocks] == [[0, 2], [1]]


def test_nothing_but_outputs_makes_no_table() -> None:
    outputs = RunSpec([EventSpec(value=DebugValue(1, 1, output=True))])
    for runs in ([], [outputs]):
        data = write_ed00(trace_of(*runs))
        with pytest.raises(ValueError, match="No objects to concatenate"):
            Theirs(etdump_data=data).to_dataframe()
        assert len(Inspector(etdump_data=data).to_dataframe()) == 0


@pytest.mark.parametrize("output", [False, True])
def test_values_that_differ_between_runs_close_the_file(output: bool) -> None:
    runs = [
        RunSpec([EventSpec("a", 0, 1), EventSpec(value=DebugValue(value, 1, output))])
        for value in (1, 2)
    ]
    data = write_ed00(trace_of(*runs))
    with pytest.raises(AssertionError):
        Theirs(etdump_data=data)
    (block,) = Inspector(etdump_data=data).event_blocks
    assert (block.run_outputs if output else block.events[0].debug_data_per_run) == [[1], [2]]


def test_several_bundled_inputs_close_the_file(portable_model: Exported, tmp_path: Path) -> None:
    dump = record_bundled(portable_model, tmp_path, 3, [0, 1, 2])
    with pytest.raises(AssertionError):
        Theirs(**dump.arguments)
    executed = Inspector(**dump.arguments).event_blocks[1]
    assert len(executed.run_outputs) == 3
    assert not torch.equal(executed.run_outputs[0][0], executed.run_outputs[1][0])


def test_events_outside_of_instructions_get_the_first_ones_operators(generator: Generator) -> None:
    path = generator.make("block Default\nprofile setup -1 0 0 5\ndelegate - 0 -1 0 1 2 -")
    theirs, ours = both(path, etrecord=NPU)
    assert events(theirs)["setup"].op_types == [
        "aten.linear.default",
        "aten.relu.default",
        "aten.linear.default",
    ]
    assert events(theirs)["0"].delegate_backend_name == "SimulatedNpu"
    for event in events(ours).values():
        assert (event.op_types, event.debug_handles, event.delegate_backend_name) == (
            [],
            None,
            None,
        )


# Correctness.


def test_a_run_without_a_bundled_input_is_held_against_the_last_one(
    portable_model: Exported, tmp_path: Path
) -> None:
    dump = record_bundled(portable_model, tmp_path, 3, [0])
    theirs, ours = Theirs(**dump.arguments), Inspector(**dump.arguments)
    # ETDumpGen's files say -1, whatever it was told.
    assert [block.bundled_input_index for block in theirs.event_blocks] == [-1, -1]
    offsets = [
        float((reference - output).mean())
        for reference, output in zip(
            theirs.event_blocks[1].reference_output, theirs.event_blocks[1].run_output, strict=True
        )
    ]
    assert min(offsets) > 1  # the last case's references are 2 more than its outputs
    assert ours.event_blocks[1].reference_output is None


def test_the_bundled_input_that_is_named_is_the_one_compared_with(
    portable_model: Exported, tmp_path: Path
) -> None:
    dump = record_bundled(portable_model, tmp_path, 3, [1])
    trace = Inspector(**dump.arguments).trace
    outputs = Inspector(**dump.arguments).event_blocks[1].run_output
    data = write_ed00(trace_of(RunSpec([EventSpec("a", 0, 1)], bundled=1)))
    (block,) = Inspector(etdump_data=data, etrecord=dump.arguments["etrecord"]).event_blocks
    assert len(trace.blocks) == 2
    assert block.reference_output is not None
    assert outputs is not None
    for reference, output in zip(block.reference_output, outputs, strict=True):
        torch.testing.assert_close(reference, output + 1)


def test_etdumpgen_does_not_write_the_bundled_input(generator: Generator) -> None:
    theirs, ours = both(generator.make("bundled 3\nblock Execute\nprofile a 0 0 0 1"))
    assert theirs.event_blocks[0].bundled_input_index == -1
    assert ours.event_blocks[0].bundled_input_index == -1
    named = write_ed00(trace_of(RunSpec([EventSpec("a", 0, 1)], bundled=3)))
    assert Inspector(etdump_data=named).event_blocks[0].bundled_input_index == 3


def test_all_performance_data_are_equal_to_each_other() -> None:
    assert TheirPerfData([1.0]) == TheirPerfData([99.0])
    assert PerfData([1.0]) != PerfData([99.0])
    assert PerfData([1.0]) == PerfData([1.0])


def test_a_modules_time_counts_delegates_twice_and_other_modules(generator: Generator) -> None:
    path = generator.make(
        """
        block Execute
        delegate - 0 0 0 10 40 -
        delegate - 1 0 0 40 60 -
        profile DELEGATE_CALL 0 0 0 70
        profile native_call_sigmoid.out 0 1 80 85
        """
    )
    scale = {"target_time_scale": TheirScale.NS}
    theirs = Theirs(str(path), etrecord=NPU, **scale)
    ours = Inspector(path, etrecord=NPU, target_time_scale=TimeScale.NS)
    # The gate is the second command of the call, which took 20; the hidden layer is the first.
    assert theirs.find_total_for_module("gate") == pytest.approx(70 + 20)
    assert ours.find_total_for_module("gate") == 20
    assert theirs.find_total_for_module("L__self__") == pytest.approx(30 + 20 + 70 + 5)
    assert ours.find_total_for_module("L__self__") == 70 + 5
    assert theirs.find_total_for_module("hid") == pytest.approx(30 + 70)
    assert ours.find_total_for_module("hid") == 0
    assert ours.find_total_for_module("hidden") == 0


def test_delegate_ids_are_looked_up_by_parts_of_them(generator: Generator) -> None:
    theirs, ours = both(
        generator.make("block Execute\ndelegate - 12 0 2 0 5 -\ndelegate - 2 0 2 5 7 -"),
        etrecord=NPU,
    )
    assert events(theirs)["12"].debug_handles == [7]  # those of 2
    assert events(theirs)["12"].op_types == ["aten.linear.default"]
    assert events(ours)["12"].debug_handles is None
    assert events(ours)["2"].debug_handles == [7]


def test_only_the_method_forward_has_symbols(tmp_path: Path, generator: Generator) -> None:
    etrecord = str(export_methods(tmp_path).etrecord)
    path = generator.make("block Execute\nprofile native_call_sigmoid.out 0 0 0 5")
    with pytest.raises(KeyError, match="forward"):
        Theirs(str(path), etrecord=etrecord)
    for given in ({"method": "gate"}, {}):
        ours = Inspector(path, etrecord=etrecord, **given)
        assert ours.method == "gate"
        assert events(ours)["native_call_sigmoid.out"].op_types == ["aten.sigmoid.default"]


# What closes a file.


def allocation(generator: Generator) -> bytes:
    script = "block Execute\nallocator heap\nprofile a 0 0 0 1\nallocation 1 64"
    return generator.make(script).read_bytes()


def infinite(generator: Generator) -> bytes:
    return generator.make("block Execute\nprofile a 0 0 0 1\ndouble inf").read_bytes()


def not_utf8(generator: Generator) -> bytes:
    return write_ed00(trace_of(RunSpec([EventSpec("\udcff", 0, 1)])))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (allocation, ValueError),
        (infinite, JSONDecodeError),
        (not_utf8, subprocess.CalledProcessError),
    ],
)
def test_one_event_closes_the_file(
    make: Callable[[Generator], bytes], error: type[Exception], generator: Generator
) -> None:
    data = make(generator)
    with pytest.raises(error):
        Theirs(etdump_data=data)
    ours = Inspector(etdump_data=data, target_time_scale=TimeScale.NS)
    assert raw(ours) == [[1.0]]


# Values.


def test_tensors_are_zeros_without_a_debug_buffer(portable_model: Exported, tmp_path: Path) -> None:
    arguments = record(portable_model, tmp_path, 1).arguments
    del arguments["debug_buffer_path"]
    theirs, ours = Theirs(**arguments), Inspector(**arguments)
    output = theirs.event_blocks[1].run_output[0]
    assert output.shape == (2, 8)
    assert not output.any()
    found = ours.event_blocks[1].run_output
    assert found is not None
    assert isinstance(found[0], TensorValue)
    assert found[0].sizes == (2, 8)


def values(tmp_path: Path, tensor: TensorValue, elements: bytes) -> tuple[bytes, Path]:
    path = tmp_path / "debug.bin"
    path.write_bytes(elements)
    return write_ed00(
        trace_of(RunSpec([EventSpec("a", 0, 1), EventSpec(value=DebugValue(tensor, 5))]))
    ), path


def test_the_order_of_elements_in_memory_is_ignored(tmp_path: Path) -> None:
    tensor = TensorValue(6, (2, 2), (1, 2), 0)
    data, buffer = values(tmp_path, tensor, np.arange(4, dtype=np.float32).tobytes())
    theirs = Theirs(etdump_data=data, debug_buffer_path=str(buffer))
    ours = Inspector(etdump_data=data, debug_buffer_path=buffer)
    assert events(theirs)["a"].debug_data[0].tolist() == [[0, 1], [2, 3]]
    assert events(ours)["a"].debug_data[0].tolist() == [[0, 2], [1, 3]]


def test_some_types_of_elements_close_the_file(tmp_path: Path) -> None:
    tensor = TensorValue(28, (2,), (1,), 0)  # uint32
    data, buffer = values(tmp_path, tensor, np.array([1, 2**32 - 1], np.uint32).tobytes())
    with pytest.raises(RuntimeError, match="Unsupported scalar type"):
        Theirs(etdump_data=data, debug_buffer_path=str(buffer))
    ours = Inspector(etdump_data=data, debug_buffer_path=buffer)
    assert events(ours)["a"].debug_data[0].tolist() == [1, 2**32 - 1]


# Scales.


def test_a_scale_of_cycles_alone_is_refused_either_way(generator: Generator) -> None:
    path = generator.make("block Execute\nprofile a 0 0 0 1")
    with pytest.raises(RuntimeError, match="cycles"):
        Theirs(str(path), source_time_scale=TheirScale.CYCLES)
    with pytest.raises(RuntimeError, match="cycles"):
        Inspector(path, source_time_scale=TimeScale.CYCLES)


def test_dumps_behind_the_first_are_ignored(generator: Generator) -> None:
    one = generator.make("block Execute\nprofile a 0 0 0 10").read_bytes()
    two = generator.make("block Execute\nprofile a 0 0 0 20").read_bytes()
    assert raw(Theirs(etdump_data=one + two)) == [[1e-5]]
    assert raw(Inspector(etdump_data=one + two)) == [[1e-5, 2e-5]]


# The command line.


def test_results_are_compared_with_the_case_that_is_named(
    portable_model: Exported, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    dump = record_bundled(portable_model, tmp_path, 3, [1])
    arguments = ["decode", str(dump.etdump_path), "--etrecord", str(dump.etrecord)]
    arguments += ["--debug-buffer", str(dump.debug_buffer_path), "--compare-results"]
    refused = etharness(*arguments)
    assert refused.code == 2
    assert "--bundled-input" in refused.err
    for case in (1, 2):
        result = etharness(*arguments, "--bundled-input", str(case), "--json")
        outputs = json.loads(result.out)["outputs"]
        assert [(item["run"], item["output"]) for item in outputs] == [(1, 0), (1, 1)]
        # References are more by the number of their case; those of case 2 are of another input.
        errors = [item["metrics"]["mse"] for item in outputs]
        assert (errors == pytest.approx([1.0, 1.0])) == (case == 1)
    assert "snr [dB]" in etharness(*arguments, "--bundled-input", "1").out
    last = Theirs(**dump.arguments).event_blocks[1]
    assert float((last.reference_output[0] - last.run_output[0]).mean()) == pytest.approx(
        2, abs=0.5
    )
