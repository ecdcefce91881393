"""Wrong weights and a wrong requantise shift are located, by another run and by an ETRecord."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import torch
from executorch.exir._serialize._program import deserialize_pte_binary

import harness
from harness import Tensor, packaged_models, read_program
from harness.inspector.gap import InspectorRecord, compare_with_record
from harness.inspector.values import LoggedTrace, ValueComparison, compare_values
from harness.runs.source import load_metadata, load_source
from tests.conftest import MODELS
from tests.support.bundled import bundle
from tests.support.exported import Exported, export_methods

pytestmark = pytest.mark.oracle
MODEL = packaged_models()["ic_int8"]
INSTRUCTION = 6
"""A convolution in the middle of the network."""


def logged(model: Path, directory: Path) -> LoggedTrace:
    harness.run(model, board="native", runs=1, values="intermediate", output=directory)
    source = load_source(directory)
    return LoggedTrace(source.trace, source.debug_buffer or b"")


def constant_of(argument: int, model: Path = MODEL, number: int = INSTRUCTION) -> tuple[int, int]:
    """Offset and length in the file of a constant argument of the instruction."""
    data = model.read_bytes()
    method = read_program(data).methods[0]
    instruction = method.chains[0][number]
    assert "conv2d" in instruction.name
    tensor = method.values[instruction.args[argument]]
    assert isinstance(tensor, Tensor)
    theirs: Any = deserialize_pte_binary(data).program
    content = bytes(theirs.constant_buffer[tensor.data].storage)
    assert data.count(content) == 1
    return data.find(content), len(content)


def compared_with(damaged: bytes, tmp_path: Path) -> ValueComparison:
    (tmp_path / "damaged.pte").write_bytes(damaged)
    sound = logged(MODEL, tmp_path / "sound")
    return compare_values(sound, logged(tmp_path / "damaged.pte", tmp_path / "damaged"))


def assert_located(found: ValueComparison) -> None:
    assert found.unmatched == found.lost == 0
    first = found.first_diverging
    assert first is not None
    assert (first.chain, first.instruction) == (0, INSTRUCTION)
    assert first.operator == "native_call_quantized_conv2d.out"
    assert first.types == ("int8", "int8")
    for gap in found.gaps:
        if gap.chain >= 0 and gap.instruction < INSTRUCTION:
            assert gap.max_abs == 0
            assert gap.snr_db == np.inf


def test_one_wrong_weight_is_located(tmp_path: Path) -> None:
    at, length = constant_of(1)
    data = bytearray(MODEL.read_bytes())
    data[at + length // 2] ^= 0x40
    assert_located(compared_with(bytes(data), tmp_path))


def test_one_wrong_shift_is_located(tmp_path: Path) -> None:
    at, length = constant_of(9)
    data = bytearray(MODEL.read_bytes())
    shifts = np.frombuffer(data, "<i4", length // 4, at)
    assert (np.abs(shifts) < 32).all()  # these are shifts, not multipliers
    data[at : at + 4] = np.int32(shifts[0] + 1).tobytes()
    assert_located(compared_with(bytes(data), tmp_path))


def test_another_runtime_has_the_same_values(tmp_path: Path) -> None:
    """The float network on ExecuTorch's runtime and kernels, and on ours."""
    runs = []
    for board in ("native", "native-executorch"):
        directory = tmp_path / board
        harness.run("kws_f32", board=board, runs=1, values="intermediate", output=directory)
        source = load_source(directory)
        runs.append(LoggedTrace(source.trace, source.debug_buffer or b""))
    found = compare_values(*runs)
    assert found.first_diverging is None
    assert len(found.gaps) > 10
    assert any(gap.max_abs > 0 for gap in found.gaps)  # their kernels add in another order


def reference_comparison(exported: Exported, directory: Path) -> ValueComparison:
    """Compare a run with the values that the program of its ETRecord computes."""
    source = load_source(directory)
    assert source.result is not None
    assert source.result.model is not None
    symbols = load_metadata(source, etrecord=exported.etrecord).symbols
    inputs = [np.load(directory / tensor.file) for tensor in source.result.model.inputs]
    found = LoggedTrace(source.trace, source.debug_buffer or b"", symbols)
    record = InspectorRecord(exported.etrecord)
    return compare_with_record(found, record, source.result.model.method, inputs)


@pytest.mark.parametrize("board", ["native", "native-executorch"])
def test_a_sound_run_has_the_values_of_its_etrecord(
    portable_model: Exported, board: str, tmp_path: Path
) -> None:
    harness.run(portable_model.model, board=board, runs=2, values="intermediate", output=tmp_path)
    found = reference_comparison(portable_model, tmp_path)
    assert found.first_diverging is None
    operators = {gap.operator for gap in found.gaps}
    assert {"native_call_addmm.out", "native_call_relu.out", ""} <= operators
    assert all(gap.executions == 2 and gap.types[0] == "float32" for gap in found.gaps)
    assert sum(gap.chain < 0 for gap in found.gaps) == 2


def test_a_wrong_weight_is_located_by_the_etrecord(
    portable_model: Exported, tmp_path: Path
) -> None:
    assert portable_model.network is not None
    layers: Any = portable_model.network.get_submodule("layers")
    weights = layers[1].weight.detach().numpy()
    data = portable_model.model.read_bytes()
    other = weights.copy()
    other[3, 4] += 1.0
    assert data.count(weights.tobytes()) == 1
    (tmp_path / "m.pte").write_bytes(data.replace(weights.tobytes(), other.tobytes()))
    run = tmp_path / "run"
    harness.run(tmp_path / "m.pte", board="native", values="intermediate", output=run)
    found = reference_comparison(portable_model, run)
    first = found.first_diverging
    assert first is not None
    assert first.operator == "native_call_addmm.out"
    before = [gap for gap in found.gaps if gap.operator == "native_call_addmm.out"]
    assert [gap.diverges for gap in before] == [False, False, True]


def test_the_command_takes_an_etrecord_as_the_reference(
    portable_model: Exported, tmp_path: Path
) -> None:
    run, page = tmp_path / "run", tmp_path / "page.html"
    harness.run(portable_model.model, board="native", values="intermediate", output=run)
    words = ["compare", run, "--values", "--etrecord", portable_model.etrecord, "--report", page]
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "tensors within their tolerance" in done.stdout
    assert "portable.etrecord, method forward" in page.read_text()


class Picture(torch.nn.Module):
    """Convolutions with an activation, a pooling and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.classifier = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        x = torch.nn.functional.avg_pool2d(x, 8)
        return self.classifier(torch.flatten(x, 1))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def int8_model(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """``Picture`` in int8, fused for a Cortex-M, with the ETRecord from before that."""
    sys.path.insert(0, str(MODELS))
    try:
        script = runpy.run_path(str(MODELS / "export.py"))
    finally:
        sys.path.remove(str(MODELS))
    torch.manual_seed(3)
    quantized = script["quantize"](Picture().eval(), lambda: torch.randn(1, 3, 8, 8))
    config = script["cortex_m_edge_compile_config"]()
    edge = script["to_edge"](quantized, compile_config=config, generate_etrecord=True)
    target = script["CortexMTargetConfig"](cpu=script["CortexM"].M3)
    passes = script["CortexMPassManager"](edge.exported_program(), target_config=target)
    edge._edge_programs["forward"] = passes.transform()
    manager = edge.to_executorch()
    folder = tmp_path_factory.mktemp("int8")
    made = Exported(folder / "int8.pte", folder / "int8.etrecord", (), manager)
    made.model.write_bytes(manager.buffer)
    manager.get_etrecord().save(made.etrecord)
    return made


def test_fused_int8_operators_are_at_most_a_quantum_from_pytorch(
    int8_model: Exported, tmp_path: Path
) -> None:
    harness.run(int8_model.model, board="native", values="intermediate", output=tmp_path)
    found = reference_comparison(int8_model, tmp_path)
    assert found.first_diverging is None
    assert found.unmatched <= 2  # layouts that a pass changed
    int8 = [gap for gap in found.gaps if gap.types[0] == "int8"]
    assert sum("quantized_conv2d" in gap.operator for gap in int8) == 2
    assert all(gap.types == ("int8", "int8") and gap.tolerance == 1 for gap in int8)


def test_a_wrong_shift_is_the_only_difference_from_the_etrecord(
    int8_model: Exported, tmp_path: Path
) -> None:
    """Later operators are computed from what the run logged, so they do not differ."""
    chain = read_program(int8_model.model.read_bytes()).methods[0].chains[0]
    number = [i for i, step in enumerate(chain) if "conv2d" in step.name][1]
    at, length = constant_of(9, int8_model.model, number)
    data = bytearray(int8_model.model.read_bytes())
    shifts = np.frombuffer(data, "<i4", length // 4, at)
    data[at : at + 4] = np.int32(shifts[0] + 1).tobytes()
    (tmp_path / "m.pte").write_bytes(data)
    run = tmp_path / "run"
    harness.run(tmp_path / "m.pte", board="native", values="intermediate", output=run)
    found = reference_comparison(int8_model, run)
    assert [gap.instruction for gap in found.gaps if gap.diverges] == [number]


def test_outputs_are_compared_with_those_stored_for_the_test_set(tmp_path: Path) -> None:
    """The ETRecord has other outputs for one test set than its program computes."""
    exported = export_methods(tmp_path)
    x = [torch.randn(2, 4) for _ in range(2)]
    expected = [[torch.relu(each) + each] for each in x]
    cases = [([given], wanted) for given, wanted in zip(x, expected, strict=True)]
    (tmp_path / "m.bpte").write_bytes(bundle(exported.manager, {"double": cases}))
    record = exported.manager.get_etrecord()
    record.update_reference_outputs({"double": [expected[0], [expected[1][0] + 1]]})
    record.save(tmp_path / "m.etrecord")
    run = tmp_path / "run"
    harness.run(tmp_path / "m.bpte", board="native", values="intermediate", output=run)
    gaps = []
    for index in range(2):
        source = load_source(run / "test_sets" / f"double-{index}")
        symbols = load_metadata(source, etrecord=tmp_path / "m.etrecord").symbols
        trace = LoggedTrace(source.trace, source.debug_buffer or b"", symbols)
        given = [x[index].numpy()]
        gaps.append(
            compare_with_record(
                trace, InspectorRecord(tmp_path / "m.etrecord"), "double", given, index
            )
        )
    assert gaps[0].first_diverging is None
    first = gaps[1].first_diverging
    assert first is not None
    assert first.chain == -1
