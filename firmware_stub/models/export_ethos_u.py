"""Export small int8 networks for Ethos-U: ExecuTorch's EthosUPartitioner and Vela compile them.

``ethos_u55``, ``ethos_u65`` and ``ethos_u85`` are one network, a convolution, a depthwise one, a
linear layer and a softmax, for an NPU each. ``ethos_u55_split`` has an operator between two
convolutions that the partitioner leaves to the CPU: two delegates, and CPU work between them.
Weights come from a fixed seed. It needs ``torch``, ``executorch``, ``tosa-tools`` and
``ethos-u-vela`` (``tools/setup oracle``):

    cd firmware_stub/models
    python export_ethos_u.py --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

SEED = 2026
NETWORKS = {
    "ethos_u55": "ethos-u55-128",
    "ethos_u65": "ethos-u65-256",
    "ethos_u85": "ethos-u85-256",
    "ethos_u55_split": "ethos-u55-128",
}
"""Accelerators by the name of the network."""


class Split(nn.Module):
    """Two convolutions with the largest channels taken between them, which the NPU cannot do."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(3, 8, 3, padding=1)
        self.after = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(torch.topk(torch.relu(self.before(x)), 4, dim=1).values)


def small() -> nn.Module:
    """A network whose operators are on the NPU, all of them."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU()),
        *(nn.Conv2d(8, 16, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(nn.Linear(16, 10), nn.Softmax(-1)),
    )


def lower(model: nn.Module, inputs: tuple[torch.Tensor, ...], spec: EthosUCompileSpec) -> bytes:
    """Return a program whose operators are compiled for an accelerator where Vela can do so."""
    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_quantization_config())
    exported = torch.export.export(model.eval(), inputs).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    prepared(*inputs)
    edge = to_edge_transform_and_lower(
        torch.export.export(convert_pt2e(prepared), inputs),
        partitioner=[EthosUPartitioner(spec)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return bytes(edge.to_executorch().buffer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .pte files go")
    fixtures = parser.parse_args().fixtures
    for name, target in NETWORKS.items():
        torch.manual_seed(SEED)
        model = Split() if name.endswith("split") else small()
        size = 8 if name.endswith("split") else 32
        inputs = (torch.randn(1, 3, size, size).to(memory_format=torch.channels_last),)
        (fixtures / f"{name}.pte").write_bytes(lower(model, inputs, EthosUCompileSpec(target)))


if __name__ == "__main__":
    main()
