"""Models exported for the real runtime, each with its ETRecord. Needs torch and executorch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn


class Layers(nn.Module):
    """Linear layers of one class, an operator with several outputs, and what XNNPACK leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        left, _ = torch.split(x, 4, dim=1)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return torch.softmax(x, 1) * 2, nn.functional.layer_norm(left, (4,))


class Doubled(nn.Module):
    """One method of a program with several."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + x


class Gate(nn.Module):
    """Another one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * x


@dataclass(frozen=True)
class Exported:
    """Paths of a program and its record, inputs for it, and what they were made from."""

    model: Path
    etrecord: Path
    inputs: tuple[torch.Tensor, ...]
    manager: Any
    network: nn.Module | None = None


def export(directory: Path, name: str, *, delegated: bool = False) -> Exported:
    """Export ``Layers``, to XNNPACK when ``delegated``."""
    torch.manual_seed(7)
    network, inputs = Layers().eval().requires_grad_(False), (torch.randn(2, 8),)
    made = _lower(directory, name, torch.export.export(network, inputs), inputs, delegated)
    return replace(made, network=network)


def export_methods(directory: Path) -> Exported:
    """Export a program of the methods ``double`` and ``gate``."""
    inputs = (torch.randn(2, 4),)
    methods = {
        "double": torch.export.export(Doubled(), inputs),
        "gate": torch.export.export(Gate(), inputs),
    }
    return _lower(directory, "methods", methods, inputs, False)


def _lower(
    directory: Path, name: str, exported: Any, inputs: tuple[torch.Tensor, ...], delegated: bool
) -> Exported:
    manager = to_edge_transform_and_lower(
        exported,
        partitioner=[XnnpackPartitioner()] if delegated else [],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
        generate_etrecord=True,
    ).to_executorch()
    made = Exported(directory / f"{name}.pte", directory / f"{name}.etrecord", inputs, manager)
    made.model.write_bytes(manager.buffer)
    manager.get_etrecord().save(made.etrecord)
    return made
