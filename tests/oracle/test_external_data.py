"""External data beside ExecuTorch's runtime: linked programs compute what separate files do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, schema, to_edge, to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.exir.tensor_layout import TensorLayout
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from executorch.runtime import Runtime

import harness
from harness import UsageError, link_program

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")]
Where = Callable[[torch.fx.Node], str | None]


class Exported(NamedTuple):
    """A program with its ``.ptd`` files, by name."""

    program: Path
    files: Mapping[str, Path]
    inputs: tuple[torch.Tensor, ...]

    def theirs(self, file: Path) -> torch.Tensor:
        """Return what ExecuTorch's runtime computes with a ``.ptd`` file."""
        method = Runtime.get().load_program(self.program, data_path=file).load_method("forward")
        output: torch.Tensor = method.execute([*self.inputs])[0].clone()
        return output


class Mixed(torch.nn.Module):
    """Constants of several types and orders of dimensions, and one that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.linear, self.again = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.again.weight = self.linear.weight
        self.register_buffer("order", torch.tensor([2, 0, 3, 1]))
        self.register_buffer("keep", torch.tensor([True, False, True, True]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv(x)).mean((2, 3))
        x = self.again(torch.relu(self.linear(x)))[:, self.order]
        return torch.where(self.keep, x, -x)


def save(program: object, folder: Path, inputs: tuple[torch.Tensor, ...]) -> Exported:
    folder.mkdir()
    (folder / "model.pte").write_bytes(program.buffer)  # type: ignore[attr-defined]
    program.write_tensor_data_to_file(str(folder))  # type: ignore[attr-defined]
    files = {path.stem: path for path in folder.glob("*.ptd")}
    return Exported(folder / "model.pte", files, inputs)


def export(folder: Path, where: bool | Where) -> Exported:
    torch.manual_seed(3)
    inputs = (torch.randn(1, 3, 7, 7).to(memory_format=torch.channels_last),)
    network = Mixed().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    edge = to_edge(torch.export.export(network, inputs))
    config = ExecutorchBackendConfig(external_constants=where)
    return save(edge.to_executorch(config), folder, inputs)


def export_delegate(folder: Path) -> Exported:
    torch.manual_seed(4)
    inputs = (torch.randn(1, 6),)
    module = torch.export.export(torch.nn.Linear(6, 5).eval(), inputs).module()
    delegate_external_constants_pass_unlifted(module, lambda node: "weights")
    exported = torch.export.export(module, inputs)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    return save(edge.to_executorch(), folder, inputs)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exported]:
    folder = tmp_path_factory.mktemp("external")
    weights: Where = lambda node: "weights" if "weight" in str(node.name) else None  # noqa: E731
    with torch.no_grad():
        return {
            "every constant": export(folder / "every", True),
            "weights": export(folder / "weights", weights),
            "delegate": export_delegate(folder / "delegate"),
        }


@pytest.mark.parametrize("name", ["every constant", "weights", "delegate"])
def test_a_linked_program_computes_the_same_to_the_bit(
    name: str, programs: dict[str, Exported], tmp_path: Path
) -> None:
    exported = programs[name]
    [file] = exported.files.values()
    linked = tmp_path / "linked.pte"
    linked.write_bytes(link_program(exported.program.read_bytes(), [file]))
    method = Runtime.get().load_program(linked).load_method("forward")
    assert torch.equal(method.execute([*exported.inputs])[0], exported.theirs(file))


@pytest.mark.parametrize("name", ["every constant", "weights"])
def test_the_bundled_runtime_computes_the_same(
    name: str, programs: dict[str, Exported], tmp_path: Path
) -> None:
    exported = programs[name]
    [file] = exported.files.values()
    np.save(tmp_path / "x.npy", exported.inputs[0].contiguous().numpy())
    run = harness.run(
        exported.program,
        board="native",
        data=[file],
        inputs=[tmp_path / "x.npy"],
        output=tmp_path / "run",
    )
    output = np.load(tmp_path / "run/outputs/0.npy")
    np.testing.assert_allclose(output, exported.theirs(file).numpy(), rtol=1e-5, atol=1e-6)
    assert not [check for check in run.verdict.checks if check.failed and check.code != "I05"]


class Counting(torch.nn.Module):
    """Two buffers that change from execution to execution."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.arange(4.0) + 1)
        self.register_buffer("second", torch.arange(3.0) - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.mul_(2.0)
        self.second.add_(1.0)
        return torch.cat([x + self.first, self.second * 1.0])


@pytest.mark.parametrize("initialized", [("first",), ("first", "second")], ids=len)
def test_the_first_state_of_a_mutable_buffer_may_be_external(
    initialized: tuple[str, ...], tmp_path: Path
) -> None:
    """The exporter moves weights that a training step changes; here it is a buffer's state."""
    inputs = (torch.ones(4),)
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass([*initialized])])
    edge = to_edge(torch.export.export(Counting(), inputs)).to_executorch(config)
    file = deserialize_pte_binary(edge.buffer)
    [tensor] = [
        value.val
        for value in file.program.execution_plan[0].values
        if isinstance(value.val, schema.Tensor)
        and value.val.allocation_info is not None
        and value.val.data_buffer_idx == 1
    ]
    external = schema.TensorDataLocation.EXTERNAL
    tensor.extra_tensor_info = schema.ExtraTensorInfo(0, "first", external)
    tensor.data_buffer_idx = 0
    if len(initialized) == 1:
        file.mutable_data = None
    layout = TensorLayout(tensor.scalar_type, tensor.sizes, [*tensor.dim_order])
    payload = DataPayload([np.arange(2, 6, dtype="<f4").tobytes()], {})
    payload.named_data["first"] = DataEntry(0, 16, layout)
    (tmp_path / "model.pte").write_bytes(bytes(serialize_pte_binary(file)))
    (tmp_path / "state.ptd").write_bytes(bytes(FlatTensorSerializer().serialize(payload)))
    exported = Exported(tmp_path / "model.pte", {"state": tmp_path / "state.ptd"}, inputs)
    linked = tmp_path / "linked.pte"
    linked.write_bytes(link_program(exported.program.read_bytes(), [tmp_path / "state.ptd"]))
    method = Runtime.get().load_program(linked).load_method("forward")
    for _ in range(2):
        output = method.execute([*inputs])[0].clone()
    once = exported.theirs(tmp_path / "state.ptd")
    assert once[:4].tolist() == [5, 7, 9, 11]
    assert output[:4].tolist() == [9, 13, 17, 21]
    if len(initialized) == 2:
        assert output[4:].tolist() == [1, 2, 3]


def rewritten(file: Path, change: Callable[[object], None], target: Path) -> Path:
    """Write a ``.ptd`` file again by ExecuTorch's own serializer, with a change."""
    serializer = FlatTensorSerializer()
    payload = serializer.deserialize(file.read_bytes())  # type: ignore[arg-type]
    change(payload)
    target.write_bytes(bytes(serializer.serialize(payload)))
    return target


def renamed(payload: object) -> None:
    named = payload.named_data  # type: ignore[attr-defined]
    named["conv.wait"] = named.pop("conv.weight")


def other_type(payload: object) -> None:
    layout = payload.named_data["order"].tensor_layout  # type: ignore[attr-defined]
    layout.scalar_type = type(layout.scalar_type).INT


def other_sizes(payload: object) -> None:
    payload.named_data["conv.bias"].tensor_layout.sizes[0] = 5  # type: ignore[attr-defined]


def other_rank(payload: object) -> None:
    layout = payload.named_data["conv.bias"].tensor_layout  # type: ignore[attr-defined]
    layout.sizes, layout.dim_order = [1, 4], [0, 1]


def other_order(payload: object) -> None:
    layout = payload.named_data["conv.weight"].tensor_layout  # type: ignore[attr-defined]
    layout.dim_order = [*reversed(layout.dim_order)]


def more(payload: object) -> None:
    named = payload.named_data  # type: ignore[attr-defined]
    named["unused"] = named["conv.bias"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renamed, "no data named 'conv.weight'"),
        (other_type, "'order' is int32 4, method 'forward' of .* needs int64 4"),
        (other_sizes, "'conv.bias' is float32 5, method 'forward' of .* needs float32 4"),
        (other_rank, "'conv.bias' is float32 1x4, method 'forward' of .* needs float32 4"),
        (other_order, "'conv.weight' is in another dim order"),
        (more, ""),
    ],
)
def test_what_executorch_refuses_is_refused(
    change: Callable[[object], None],
    message: str,
    programs: dict[str, Exported],
    tmp_path: Path,
) -> None:
    exported = programs["every constant"]
    [file] = exported.files.values()
    file = rewritten(file, change, tmp_path / "changed.ptd")
    if not message:
        exported.theirs(file)
        link_program(exported.program.read_bytes(), [file])
        return
    with pytest.raises(RuntimeError):
        exported.theirs(file)
    with pytest.raises(UsageError, match=message):
        link_program(exported.program.read_bytes(), [file])


def test_an_image_of_224_pixels_runs_on_this_host(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "fixtures/cases/image_224.pte"
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    np.save(tmp_path / "x.npy", x.numpy())
    harness.run(program, board="native", inputs=[tmp_path / "x.npy"], output=tmp_path / "run")
    theirs = Runtime.get().load_program(program).load_method("forward").execute([x])[0]
    ours = np.load(tmp_path / "run/outputs/0.npy")
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)
