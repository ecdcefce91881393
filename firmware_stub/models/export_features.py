"""Export one small program per feature of ExecuTorch's file format that networks may need.

Besides the ``.pte`` files this writes, per file, cases: inputs, the method and the number of
executions after a load, and what eager PyTorch returns from the last of them.

    cd firmware_stub/models
    python export_features.py --models . --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from networks import SEED
from torch import nn

Modules = dict[str, nn.Module]


@dataclass(frozen=True)
class Case:
    """What is fed to a program that has just been loaded."""

    name: str
    inputs: tuple[torch.Tensor, ...]
    method: str = "forward"
    runs: int = 1


@dataclass(frozen=True)
class Feature:
    """A program and what it is tried with.

    Attributes:
        name: Of the ``.pte`` file and of the fixture.
        make: Its methods, in their initial state.
        export: The file.
        cases: See `Case`.
    """

    name: str
    make: Callable[[], Modules]
    export: Callable[[Modules], bytes]
    cases: tuple[Case, ...]


def sample(*shape: int) -> torch.Tensor:
    """Numbers that depend on the shape alone."""
    generator = torch.Generator().manual_seed(SEED + sum(shape))
    return torch.randn(shape, generator=generator)


class Encoder(nn.Module):
    """Eight numbers to three."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


class Autoencoder(nn.Module):
    """An encoder, and back."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = nn.Linear(3, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.decoder(self.encoder(x)))


def make_methods() -> Modules:
    torch.manual_seed(SEED)
    encoder = Encoder()
    return {"forward": Autoencoder(encoder), "encode": encoder}


def export_methods(modules: Modules) -> bytes:
    programs = {name: torch.export.export(m, (sample(1, 8),)) for name, m in modules.items()}
    return bytes(to_edge(programs).to_executorch().buffer)


class State(nn.Module):
    """Buffers that executions change: two with an initial state, one that begins as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((1,), 3))
        self.register_buffer("total", torch.tensor([10.0, 20.0, 30.0]))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.count.add_(1)
        self.total.add_(x[0])
        self.cache.copy_(torch.cat([self.cache[1:], x * self.count]))
        return self.cache.sum(0), self.total * 2.0, self.count * 1


def make_state() -> Modules:
    return {"forward": State()}


def export_state(modules: Modules) -> bytes:
    initialized = InitializedMutableBufferPass(["count", "total"])
    return export_forward(modules, sample(1, 3), ExecutorchBackendConfig(passes=[initialized]))


class Branches(nn.Module):
    """Two outputs of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.relu(self.layer(x)), x + x


def make_branches() -> Modules:
    torch.manual_seed(SEED)
    return {"forward": Branches()}


def export_unplanned(modules: Modules) -> bytes:
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    config = ExecutorchBackendConfig(memory_planning_pass=planning)
    return export_forward(modules, sample(2, 4), config)


class TwoArenas(MemoryPlanningPass):
    """Puts what matrix products return into an arena of its own, as for a faster memory."""

    def run(self, graph_module: torch.fx.GraphModule, *arguments: object) -> object:
        for node in graph_module.graph.nodes:
            if "addmm" in str(node.target):
                node.meta["spec"].mem_id = 2
        return super().run(graph_module, *arguments)


def export_arenas(modules: Modules) -> bytes:
    config = ExecutorchBackendConfig(memory_planning_pass=TwoArenas())
    return export_forward(modules, sample(2, 4), config)


class Dynamic(nn.Module):
    """Up to eight rows; what stands in a row, and how often, depends on how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.layer = nn.Linear(6, 3)
        self.embedding = nn.Embedding(4, 3)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = x.shape[0]
        y = self.layer(self.norm(x))
        z = y.reshape(-1)[:rows] + x.mean(1)
        weights = torch.softmax(y, 1) * rows
        product = torch.matmul(weights, y.permute(1, 0))
        both = torch.cat([y, self.embedding(index)], 1).reshape(rows * 2, 3)
        return z, both, product.unsqueeze(0), torch.relu(y).sum(0, keepdim=True).expand(rows, 3)


def make_dynamic() -> Modules:
    torch.manual_seed(SEED)
    return {"forward": Dynamic()}


def dynamic_inputs(rows: int) -> tuple[torch.Tensor, ...]:
    return sample(rows, 6), torch.arange(rows) % 4


def export_dynamic(modules: Modules) -> bytes:
    rows = torch.export.Dim("rows", min=2, max=8)
    shapes = ({0: rows}, {0: rows})
    program = torch.export.export(modules["forward"], dynamic_inputs(4), dynamic_shapes=shapes)
    return bytes(to_edge(program).to_executorch().buffer)


class Images(nn.Module):
    """Convolutions and pooling of an image of any height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.separate = nn.Conv2d(4, 4, 3, padding=1, groups=4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(self.separate(torch.relu(self.first(x))))
        largest = nn.functional.max_pool2d(y, 2)
        return largest, nn.functional.avg_pool2d(y, (3, 2), stride=1), y.mean((2, 3))


def make_images() -> Modules:
    torch.manual_seed(SEED)
    return {"forward": Images()}


def export_images(modules: Modules) -> bytes:
    height, width = (torch.export.Dim(name, min=8, max=16) for name in ("height", "width"))
    shapes = ({2: height, 3: width},)
    program = torch.export.export(modules["forward"], (sample(1, 2, 9, 10),), dynamic_shapes=shapes)
    return bytes(to_edge(program).to_executorch().buffer)


class Functions(nn.Module):
    """Functions of elements, numbers beside tensors, comparisons and choices."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = torch.abs(x) + 0.25
        roots = torch.sqrt(size) * torch.rsqrt(size) + torch.log(size) / 2
        waves = 1 - torch.sin(x) * torch.cos(y) + torch.reciprocal(size)
        powers = torch.pow(size, 1.5) + torch.exp(-x) - size**y
        whole = torch.floor(x) + torch.ceil(y) + torch.round(x * 3)
        signs = torch.where(x > 0, powers, y)
        order = torch.where(x <= y, torch.minimum(x, y), torch.maximum(x, waves))
        same = torch.logical_or(torch.logical_not(x == y), x != 0.5)
        inside = torch.logical_or(torch.logical_and(x < 1, y >= -1), size.lt(0.5))
        return roots, waves, whole, signs, order, torch.logical_and(same, inside)


def make_functions() -> Modules:
    return {"forward": Functions()}


def function_inputs() -> tuple[torch.Tensor, ...]:
    """Of two shapes that are broadcast; some elements are the same."""
    x = sample(3, 4)
    return x, x[:1].clone() + torch.tensor([0.0, 1, -1, 0])


def export_functions(modules: Modules) -> bytes:
    program = to_edge(torch.export.export(modules["forward"], function_inputs()))
    return bytes(program.to_executorch().buffer)


class Scalars(nn.Module):
    """Tensors without dimensions, in and out."""

    def forward(self, x: torch.Tensor, gain: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * gain).sum(), x.mean(), gain * 2.0


def make_scalars() -> Modules:
    return {"forward": Scalars()}


def scalar_inputs() -> tuple[torch.Tensor, ...]:
    return sample(2, 3), sample()


def export_scalars(modules: Modules) -> bytes:
    program = to_edge(torch.export.export(modules["forward"], scalar_inputs()))
    return bytes(program.to_executorch().buffer)


def export_forward(modules: Modules, x: torch.Tensor, config: ExecutorchBackendConfig) -> bytes:
    program = to_edge(torch.export.export(modules["forward"], (x,)))
    return bytes(program.to_executorch(config).buffer)


FEATURES = (
    Feature(
        "methods",
        make_methods,
        export_methods,
        (Case("whole", (sample(1, 8),)), Case("encoder", (sample(1, 8),), method="encode")),
    ),
    Feature(
        "state",
        make_state,
        export_state,
        (Case("first", (sample(1, 3),)), Case("later", (sample(1, 3),), runs=6)),
    ),
    Feature(
        "unplanned", make_branches, export_unplanned, (Case("whole", (sample(2, 4),), runs=2),)
    ),
    Feature("arenas", make_branches, export_arenas, (Case("whole", (sample(2, 4),)),)),
    Feature(
        "dynamic",
        make_dynamic,
        export_dynamic,
        tuple(Case(f"rows{rows}", dynamic_inputs(rows), runs=2) for rows in (2, 5, 8)),
    ),
    Feature(
        "images",
        make_images,
        export_images,
        tuple(
            Case(f"{height}x{width}", (sample(1, 2, height, width),))
            for height, width in ((16, 16), (8, 13), (11, 9))
        ),
    ),
    Feature("functions", make_functions, export_functions, (Case("whole", function_inputs()),)),
    Feature("scalars", make_scalars, export_scalars, (Case("whole", scalar_inputs()),)),
)


def reference(feature: Feature, case: Case) -> tuple[torch.Tensor, ...]:
    """What eager PyTorch returns from the last execution of a case."""
    module = feature.make()[case.method].eval()
    with torch.no_grad():
        for _ in range(case.runs):
            outputs = module(*case.inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def fixture(feature: Feature) -> dict[str, np.ndarray]:
    """All cases of a feature, as the fixture holds them."""
    arrays: dict[str, np.ndarray] = {}
    for case in feature.cases:
        arrays[f"{case.name}.method"] = np.array(case.method)
        arrays[f"{case.name}.runs"] = np.array(case.runs)
        for kind, tensors in (("input", case.inputs), ("output", reference(feature, case))):
            for number, tensor in enumerate(tensors):
                arrays[f"{case.name}.{kind}{number}"] = tensor.numpy().copy()
    return arrays


def export(feature: Feature) -> bytes:
    return feature.export({name: m.eval() for name, m in feature.make().items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte files go")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz files go")
    parser.add_argument("--only", help="export this feature alone")
    arguments = parser.parse_args()
    for feature in FEATURES:
        if arguments.only in (None, feature.name):
            program = export(feature)
            (arguments.models / f"{feature.name}.pte").write_bytes(program)
            np.savez_compressed(arguments.fixtures / f"{feature.name}.npz", **fixture(feature))
            print(f"{feature.name}: {len(program)} bytes")


if __name__ == "__main__":
    main()
