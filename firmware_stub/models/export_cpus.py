"""Export small int8 networks for several Cortex-M cores: kernels get other arguments on each.

Cores with MVE (M55, M85) get a linear layer's bias folded into sums over its weights, and all
differ in their scratch buffers. Networks and targets are those of ``NETWORKS`` and ``TARGETS``; the
tests beside ExecuTorch export all of them, and this writes the few that the others run.

    cd firmware_stub/models
    python export_cpus.py --models . --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from chip_reference import ChipReference
from executorch.backends.cortex_m.library import cmsis_nn
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import EdgeProgramManager
from export import channels_last, lower_int8, quantize
from networks import SEED
from torch import nn
from torch.export import ExportedProgram

FIXTURE_INPUTS = 4


class Rows(nn.Module):
    """Linear layers on rows in two dimensions, with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 7)
        self.second = nn.Linear(7, 12, bias=False)
        self.last = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


class One(nn.Module):
    """A single output, so that all per-channel arguments have one element."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 9, bias=False)
        self.last = nn.Linear(9, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(x)))


class Picture(nn.Module):
    """Each kind of convolution and of pooling, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 8, 3, groups=4, bias=False)
        self.back = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.hidden = nn.Linear(16, 6)
        self.classifier = nn.Linear(6, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(torch.relu(self.first(x)))
        y = self.back(nn.functional.max_pool2d(y, 2))
        y = nn.functional.avg_pool2d(torch.sigmoid(y), 2)
        y = torch.relu(self.hidden((y + y).flatten(1)))
        return torch.softmax(self.classifier(y), dim=1)


class Pictures(nn.Module):
    """Groups of channels, in several images, without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(4, 6, (3, 2), stride=(2, 1), groups=2, bias=False)
        self.depthwise = nn.Conv2d(6, 6, 2, groups=6)
        self.classifier = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.relu(self.depthwise(self.grouped(x))).flatten(1))


class Products(nn.Module):
    """A batch of matrices times constants, and a linear layer on what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.randn(2, 8, 5))
        self.layer = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.bmm(x, self.weights))


class Image(nn.Module):
    """What the explicit layout takes: convolutions, pooling, and nothing that is flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        return nn.functional.avg_pool2d(self.depthwise(y), 2)


@dataclass(frozen=True)
class Network:
    """A network, and the shape of its input."""

    make: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    explicit_layout: bool = False


NETWORKS = {
    "rows": Network(Rows, (3, 2, 10)),
    "one": Network(One, (1, 6)),
    "picture": Network(Picture, (1, 3, 6, 6)),
    "pictures": Network(Pictures, (2, 4, 6, 4)),
    "products": Network(Products, (2, 3, 8)),
    "image": Network(Image, (1, 3, 8, 8), explicit_layout=True),
}
TARGETS = {
    "m0": CortexMTargetConfig(cpu=CortexM.M0),
    "m3": CortexMTargetConfig(cpu=CortexM.M3),
    "m4": CortexMTargetConfig(cpu=CortexM.M4),
    "m55": CortexMTargetConfig(cpu=CortexM.M55),
    "m55_without_mve": CortexMTargetConfig(cpu=CortexM.M55, isa=cmsis_nn.Backend.DSP),
}
WRITTEN = (("one", "m0"), ("rows", "m55"), ("picture", "m4"), ("picture", "m55"))


@cache
def quantized(network: str) -> ExportedProgram:
    """With weights and scales that are the same for every target."""
    torch.manual_seed(SEED)
    made = NETWORKS[network]
    model = made.make().eval().requires_grad_(False)
    return quantize(
        model, lambda: torch.randn(made.input_shape), explicit_layout=made.explicit_layout
    )


def lower(network: str, target: str) -> EdgeProgramManager:
    """The network for a target."""
    explicit = NETWORKS[network].explicit_layout
    return lower_int8(quantized(network), TARGETS[target], explicit_layout=explicit)


def inputs(network: str, count: int = FIXTURE_INPUTS) -> list[torch.Tensor]:
    """Inputs to compare outputs for."""
    generator, made = torch.Generator().manual_seed(SEED), NETWORKS[network]
    drawn = [torch.randn(made.input_shape, generator=generator) for _ in range(count)]
    return drawn if made.explicit_layout else [channels_last(x) for x in drawn]


def references(network: str, edge: EdgeProgramManager) -> list[torch.Tensor]:
    """What the exporter's own operators compute for these, with CMSIS-NN's rounding."""
    reference = ChipReference(edge.exported_program().module(check_guards=False))
    return [reference(x) for x in inputs(network)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte files go")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz files go")
    arguments = parser.parse_args()
    for network, target in WRITTEN:
        name, edge = f"{network}_{target}", lower(network, target)
        np.savez_compressed(
            arguments.fixtures / f"{name}.npz",
            inputs=np.stack([x.numpy() for x in inputs(network)]),
            outputs=np.stack([y.numpy() for y in references(network, edge)]),
        )
        program = bytes(edge.to_executorch().buffer)
        (arguments.models / f"{name}.pte").write_bytes(program)
        print(f"{name}: {len(program)} bytes")


if __name__ == "__main__":
    main()
