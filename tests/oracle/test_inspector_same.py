"""Our Inspector beside ExecuTorch's, over dumps of its own runtime: equal where it is right.

What differs throughout: times of delegates are not subtracted as floats, so theirs are compared
within the error of that.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import pandas
import torch
from executorch.devtools import Inspector as Theirs
from executorch.devtools.inspector import TimeScale as TheirScale
from executorch.devtools.inspector import compare_results as their_compare_results
from executorch.devtools.inspector.numerical_comparator import (
    NumericalComparatorBase as TheirComparator,
)

from harness.inspector import Inspector, NumericalComparatorBase, TimeScale, compare_results
from tests.support.dumps import Dump, Generator, record, record_bundled
from tests.support.exported import Exported

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
RUNS = 3
SCRIPT = """
    block Default
    profile Method::init -1 0 100 900
    profile Program::load_method -1 0 50 950
    block Execute
    delegate - 3 0 1 1000 1005 first
    delegate layer -1 0 1 1005 1020 -
    profile DELEGATE_CALL 0 1 990 1030
    profile native_call_add.out 0 2 1040 1050
    value 0 2 7
    profile OPERATOR_CALL 0 2 1035 1060
    value 0 3 9
    profile Method::execute -1 0 980 1070
    block Execute
    delegate - 3 0 1 2000 2007 second
    delegate layer -1 0 1 2007 2020 -
    profile DELEGATE_CALL 0 1 1990 2030
    profile native_call_add.out 0 2 2040 2051
    value 0 2 7
    profile OPERATOR_CALL 0 2 2035 2060
    value 0 3 9
    profile Method::execute -1 0 1980 2070
    block Branch
    profile native_call_add.out 0 2 3000 3001
"""


@pytest.fixture(
    scope="module", params=["portable", "xnnpack", "no values", "bundled", "dynamic", "static"]
)
def dump(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    portable_model: Exported,
    xnnpack_model: Exported,
    generator: Generator,
) -> Dump:
    directory = tmp_path_factory.mktemp("dump")
    match request.param:
        case "portable":
            return record(portable_model, directory, RUNS)
        case "no values":
            return record(portable_model, directory, RUNS, values=False)
        case "xnnpack":
            return record(xnnpack_model, directory, RUNS)
        case "bundled":
            return record_bundled(portable_model, directory, 1, [0])
        case kind:
            return Dump(generator.make(SCRIPT, static=kind == "static"))


def both(dump: Dump, scale: str = "NS", **options: Any) -> tuple[Any, Inspector]:
    theirs = Theirs(**dump.arguments, target_time_scale=TheirScale[scale], **options)
    return theirs, Inspector(**dump.arguments, target_time_scale=TimeScale[scale], **options)


def same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return (
            isinstance(ours, torch.Tensor)
            and theirs.dtype == ours.dtype
            and torch.equal(theirs, ours)
        )
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(theirs) == len(ours) and all(map(same, theirs, ours))
    return type(theirs) is type(ours) and bool(theirs == ours)


def test_dataframes_are_equal_cell_by_cell(dump: Dump) -> None:
    theirs, ours = (item.to_dataframe(include_units=False) for item in both(dump))
    assert [*ours.columns] == [*theirs.columns]
    assert [*ours.dtypes] == [*theirs.dtypes]
    assert len(ours) == len(theirs) > 4
    for column in theirs:
        for row, (expected, found) in enumerate(zip(theirs[column], ours[column], strict=True)):
            assert same(expected, found), (column, row, expected, found)


@pytest.mark.parametrize("scale", ["US", "MS", "S"])
def test_times_are_equal_in_every_scale(dump: Dump, scale: str) -> None:
    theirs, ours = (item.to_dataframe() for item in both(dump, scale))
    assert [*ours.columns] == [*theirs.columns]
    delegated = theirs["is_delegated_op"]
    pandas.testing.assert_frame_equal(
        theirs[~delegated].drop(columns="debug_data"),
        ours[~delegated].drop(columns="debug_data"),
        check_exact=True,
    )
    for expected, found in zip(theirs[delegated]["raw"], ours[delegated]["raw"], strict=True):
        largest = max(max(starts) for starts in theirs["start_time"] if starts)
        np.testing.assert_allclose(found, expected, rtol=0, atol=4e-16 * largest)


def test_blocks_and_events_have_the_same_attributes(dump: Dump) -> None:
    theirs, ours = both(dump)
    assert len(ours.event_blocks) == len(theirs.event_blocks)
    for expected, found in zip(theirs.event_blocks, ours.event_blocks, strict=True):
        assert found.name == expected.name
        assert found.bundled_input_index == expected.bundled_input_index
        assert found.source_time_scale.value == expected.source_time_scale.value
        assert same(expected.run_output, found.run_output)
        for event, mine in zip(expected.events, found.events, strict=True):
            assert mine._instruction_id == event._instruction_id
            assert mine.num_outputs == event.num_outputs
            assert mine.start_time == event.start_time
            assert mine.raw_delegate_debug_metadatas == [
                item or b"" for item in event.raw_delegate_debug_metadatas
            ]
            if mine.chain_index >= 0:
                assert mine.debug_handles == event.debug_handles
            for key in ("p10", "p50", "p90", "avg", "min", "max"):
                assert (mine.perf_data is None) == (event.perf_data is None)
                if mine.perf_data is not None:
                    assert getattr(mine.perf_data, key) == getattr(event.perf_data, key)


def test_tsv_files_are_equal_byte_by_byte(dump: Dump, tmp_path: Path) -> None:
    written = []
    for number, inspector in enumerate(both(dump)):
        with (tmp_path / str(number)).open("w") as file:
            inspector.save_data_to_tsv(file, include_units=False)
        written.append((tmp_path / str(number)).read_bytes())
    assert written[1] == written[0]
    assert written[0].count(b"\n") > 2


def test_printed_tables_have_the_same_cells(dump: Dump) -> None:
    texts = []
    for inspector in both(dump):
        file = io.StringIO()
        inspector.print_data_tabular(file, include_units=False)
        texts.append(file.getvalue())
    theirs = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in texts[0].splitlines()
        if line.startswith("│")
    ]
    ours = [re.split(r"  +", line.strip()) for line in texts[1].splitlines() if line]
    assert [cell for cell in ours[0] if cell] == theirs[0][1:]
    for expected, found in zip(theirs[1:], ours[1:], strict=True):
        # What there is none of is shown as None there or not at all.
        shown = [[cell for cell in row if cell not in ("", "None")] for row in (found, expected)]
        assert shown[0] == shown[1]


def test_metadata_parsers_are_called_alike(generator: Generator) -> None:
    dump = Dump(generator.make(SCRIPT))

    def parse(found: list[bytes]) -> dict[str, Any]:
        return {"count": len(found), "longest": max(map(len, found), default=0)}

    theirs, ours = both(dump, delegate_metadata_parser=parse)
    expected, found = (
        item.to_dataframe(include_units=False, include_delegate_debug_data=True)
        for item in (theirs, ours)
    )
    assert [*found.columns] == [*expected.columns]
    for column in ("count", "longest"):
        np.testing.assert_array_equal(found[column], expected[column])


def test_converters_are_applied_alike(generator: Generator) -> None:
    dump = Dump(generator.make(SCRIPT))

    asked: set[object] = set()

    def convert(name: int | str, time: float) -> float:
        asked.add(name)
        return time * 4 + (2 if name == "3" else 1)

    theirs, ours = both(dump, delegate_time_scale_converter=convert)
    for expected, found in zip(
        theirs.to_dataframe()["raw"], ours.to_dataframe()["raw"], strict=True
    ):
        assert expected == found
    assert "3" in asked
    assert all(isinstance(name, str) for name in asked)


class Halved(NumericalComparatorBase):
    """Compares halves of what was logged."""

    def preprocessing(self, mapping: Any) -> Any:
        return {
            key: (handle, value)
            for key, (handle, value) in mapping.items()
            if isinstance(key[1], torch.Tensor)
        }

    def element_compare(self, a: Any, b: Any) -> float:
        return float((a - b / 2).abs().max())


class TheirHalved(TheirComparator):
    preprocessing = Halved.preprocessing
    element_compare = Halved.element_compare


@pytest.fixture(scope="module", params=["portable", "xnnpack"])
def representative(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    portable_model: Exported,
    xnnpack_model: Exported,
) -> tuple[Any, Inspector]:
    """Both Inspectors of a run with the ETRecord's representative inputs."""
    model = xnnpack_model if request.param == "xnnpack" else portable_model
    return both(record_bundled(model, tmp_path_factory.mktemp("representative"), 1, [0]))


@pytest.mark.parametrize(
    ("distance", "graph"),
    [
        ("MSE", None),
        ("MSE", "exported_program"),
        ("L1", "edge_dialect_exported_program"),
        ("snr", "edge_dialect_exported_program"),
        ("custom", None),
    ],
)
def test_numeric_gaps_are_equal(
    representative: tuple[Any, Inspector], distance: str, graph: str | None
) -> None:
    theirs, ours = representative
    measures = (TheirHalved(), Halved()) if distance == "custom" else (distance, distance)
    expected = theirs.calculate_numeric_gap(measures[0], reference_graph=graph)
    found = ours.calculate_numeric_gap(measures[1], reference_graph=graph)
    assert [*found.columns] == [*expected.columns]
    assert len(found) == len(expected) > 0
    for column in (
        "aot_debug_handle",
        "aot_ops",
        "runtime_ops",
        "runtime_debug_handle",
        "stacktraces",
    ):
        assert [*found[column]] == [*expected[column]], column
    for column in ("aot_intermediate_output", "runtime_intermediate_output"):
        assert all(map(same, expected[column], found[column])), column
    for theirs_gap, our_gap in zip(expected["gap"], found["gap"], strict=True):
        np.testing.assert_allclose(our_gap, theirs_gap, rtol=1e-12)


def test_exported_programs_are_the_same(representative: tuple[Any, Inspector]) -> None:
    theirs, ours = representative
    for graph in (None, "nothing"):
        expected, found = theirs.get_exported_program(graph), ours.get_exported_program(graph)
        assert (found is None) == (expected is None)
        if expected is not None:
            assert [node.name for node in found.graph.nodes] == [
                node.name for node in expected.graph.nodes
            ]


def test_an_etrecord_object_is_as_good_as_its_file(xnnpack_model: Exported, tmp_path: Path) -> None:
    dump = record(xnnpack_model, tmp_path, 1)
    by_path = Inspector(**dump.arguments).to_dataframe()
    arguments = {**dump.arguments, "etrecord": xnnpack_model.manager.get_etrecord()}
    by_object = Inspector(**arguments).to_dataframe()
    for column in ("op_types", "delegate_backend_name", "stack_traces"):
        assert [*by_object[column]] == [*by_path[column]]
    modules = [[*stacks] for stacks in by_path["module_hierarchy"]]
    assert [[*stacks] for stacks in by_object["module_hierarchy"]] == modules
    assert sum(map(len, by_path["op_types"])) > 4


def test_compared_results_are_equal_but_for_rounding(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(3)
    reference, run = [torch.randn(3, 4), torch.randn(5)], [torch.randn(3, 4), torch.randn(5)]
    theirs = their_compare_results(reference, run)
    ours = compare_results(reference, run)
    assert [*ours] == [*theirs]
    for metric, values in theirs.items():
        # They are rounded to two digits there.
        np.testing.assert_allclose(ours[metric], values, rtol=0, atol=0.006)
    capsys.readouterr()
