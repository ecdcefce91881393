"""Arm's provider for Model Explorer reads the dump of a run directory, and finds its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")
pytest.importorskip("etdump_data_provider_model_explorer", reason="needs Arm's provider")

from etdump_data_provider_model_explorer.provider import ETDumpProfilingOverlayProvider
from etrecord_adapter_model_explorer.main import ETRecordAdapter

import harness
from tests.conftest import MODELS

pytestmark = pytest.mark.oracle


def test_times_of_a_run_are_on_the_nodes_of_its_etrecord(tmp_path: Path) -> None:
    run = tmp_path / "run"
    measured = harness.run(MODELS / "npu_int.pte", board="native", runs=5, output=run)
    record = str(MODELS / "npu_int.etrecord")
    (collection,) = ETRecordAdapter().convert(record, {})["graphCollections"]
    (graph,) = collection.graphs
    dump = {"etdump_path": str(run / "trace.etdp")}
    found = ETDumpProfilingOverlayProvider().run("", record, graph.id, dump, graph)
    assert not found.error
    medians = next(item for item in found.result if item.name == "Runtime Total P50 (ms)").results
    operators = {node.id for node in graph.nodes if node.id not in ("GraphInputs", "GraphOutputs")}
    assert medians.keys() == operators
    # The board's tick is a nanosecond, as the provider assumes.
    for name, node in (
        ("sigmoid", "aten_sigmoid_default_"),
        ("_softmax", "aten__softmax_default_"),
    ):
        median = float(measured.operator(f"native_call_{name}.out").p50)
        assert medians[node].value == pytest.approx(median / 1e6)
