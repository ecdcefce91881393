"""Export two networks that run on the simulated NPU and the CPU in turns, each with its ETRecord.

``npu_int`` numbers the NPU's commands, ``npu_str`` names them. Both call the NPU twice. Besides the
``.pte`` files this writes inputs with the outputs that PyTorch computes for them.

    pip install torch==2.13.0 executorch==1.5.1
    cd firmware_stub/models
    python -m npu.export --models . --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from executorch.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from torch import nn

from .partitioner import NpuPartitioner

SEED = 2026
FIXTURE_INPUTS = 5


class Gated(nn.Module):
    """A layer whose outputs are weighed by a gate; the sigmoid and the softmax are the CPU's."""

    def __init__(self, inputs: int = 32, width: int = 48, classes: int = 6) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, width)
        self.gate = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.hidden(x))
        gate = torch.sigmoid(self.gate(hidden))
        return torch.softmax(self.classifier(hidden * gate + hidden), dim=1)


class Residual(nn.Module):
    """Four rows through a bottleneck beside a shortcut; the tanh and the mean are the CPU's."""

    def __init__(self, width: int = 24, bottleneck: int = 8) -> None:
        super().__init__()
        self.narrow = nn.Linear(width, bottleneck)
        self.widen = nn.Linear(bottleneck, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        branch = self.widen(torch.tanh(self.narrow(x)))
        return torch.relu(x + branch).mean(dim=1, keepdim=True)


class Example(NamedTuple):
    name: str
    network: type[nn.Module]
    input_shape: tuple[int, ...]
    named: bool


EXAMPLES = (
    Example("npu_int", Gated, (1, 32), named=False),
    Example("npu_str", Residual, (4, 24), named=True),
)


def build(example: Example) -> nn.Module:
    torch.manual_seed(SEED)
    return example.network().eval().requires_grad_(False)


def export(example: Example) -> ExecutorchProgramManager:
    program = torch.export.export(build(example), (torch.randn(example.input_shape),))
    return to_edge_transform_and_lower(
        program, partitioner=[NpuPartitioner(named=example.named)], generate_etrecord=True
    ).to_executorch()


def write_fixture(path: Path, example: Example) -> None:
    network = build(example)
    torch.manual_seed(SEED + 1)
    inputs = [torch.randn(example.input_shape) for _ in range(FIXTURE_INPUTS)]
    np.savez_compressed(
        path,
        inputs=np.stack([x.numpy() for x in inputs]),
        outputs=np.stack([network(x).numpy() for x in inputs]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where .pte and ETRecord go")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz files go")
    arguments = parser.parse_args()
    for example in EXAMPLES:
        program = export(example)
        (arguments.models / f"{example.name}.pte").write_bytes(program.buffer)
        program.get_etrecord().save(str(arguments.models / f"{example.name}.etrecord"))
        write_fixture(arguments.fixtures / f"{example.name}.npz", example)
        print(f"{example.name}: {len(program.buffer)} bytes")


if __name__ == "__main__":
    main()
