"""Export the MLPerf Tiny keyword-spotting network (DS-CNN) through ExecuTorch, float32 and int8.

The weights are random with a fixed seed: what is profiled does not depend on them. Besides the two
``.pte`` files this writes, per file, ten random inputs with the outputs that PyTorch computes for
them: eager PyTorch for float32, the eager ``cortex_m`` reference of the very operators in the file
for int8.

    pip install torch==2.13.0 executorch==1.5.1 tosa-tools
    cd firmware_stub/models
    python export_kws.py --models . --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import to_edge
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

CHANNELS = 64
CLASSES = 12
INPUT_SHAPE = (1, 1, 49, 10)
SEED = 2026
FIXTURE_INPUTS = 10
CALIBRATION_INPUTS = 32
LOGIT_DEVIATION = 2.0

Reference = Callable[[torch.Tensor], torch.Tensor]


class DsCnn(nn.Module):
    """One full convolution, four depthwise-separable blocks, global mean, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _convolution(1, CHANNELS, (10, 4), stride=2, padding=(5, 1))
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    _convolution(CHANNELS, CHANNELS, (3, 3), padding=1, groups=CHANNELS),
                    _convolution(CHANNELS, CHANNELS, (1, 1)),
                )
                for _ in range(4)
            )
        )
        self.classifier = nn.Linear(CHANNELS, CLASSES)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.stem(x)).mean(dim=(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), dim=1)


def _convolution(
    inputs: int, outputs: int, kernel: tuple[int, int], **options: object
) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, bias=False, **options),  # type: ignore[arg-type]
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def build_network() -> DsCnn:
    """Random weights, with a head scaled so that outputs differ between classes and inputs."""
    torch.manual_seed(SEED)
    network = DsCnn().eval().requires_grad_(False)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, 0.0, 0.1)
            nn.init.uniform_(module.running_var, 0.05, 0.2)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, 0.0, 0.1)
    features = torch.cat([network.features(torch.randn(INPUT_SHAPE)) for _ in range(64)])
    network.classifier.weight.mul_(
        LOGIT_DEVIATION / network.classifier(features).std(dim=0)[:, None]
    )
    network.classifier.bias.copy_(-network.classifier.weight @ features.mean(dim=0))
    return network


def export_float32(network: nn.Module) -> tuple[bytes, Reference]:
    sample = torch.randn(INPUT_SHAPE)
    program = to_edge(torch.export.export(network, (sample,))).to_executorch()
    return bytes(program.buffer), network


def export_int8(network: nn.Module, cpu: CortexM) -> tuple[bytes, Reference]:
    network = network.to(memory_format=torch.channels_last)
    sample = _random_input()
    prepared = prepare_pt2e(
        torch.export.export(network, (sample,)).module(check_guards=False), CortexMQuantizer()
    )
    for _ in range(CALIBRATION_INPUTS):
        prepared(_random_input())
    edge = to_edge(
        torch.export.export(convert_pt2e(prepared), (sample,)),
        compile_config=cortex_m_edge_compile_config(),
    )
    passes = CortexMPassManager(
        edge.exported_program(),
        CortexMPassManager.pass_list,
        target_config=CortexMTargetConfig(cpu=cpu),
    )
    edge._edge_programs["forward"] = passes.transform()
    reference = edge.exported_program().module(check_guards=False)
    return bytes(edge.to_executorch().buffer), reference


def _random_input() -> torch.Tensor:
    return torch.randn(INPUT_SHAPE).to(memory_format=torch.channels_last)


def write_fixture(path: Path, reference: Reference) -> None:
    torch.manual_seed(SEED + 1)
    inputs = [torch.randn(INPUT_SHAPE) for _ in range(FIXTURE_INPUTS)]
    channels_last = [x.to(memory_format=torch.channels_last) for x in inputs]
    np.savez_compressed(
        path,
        inputs=np.stack([x.numpy() for x in inputs]),
        outputs=np.stack([reference(x).numpy()[0] for x in channels_last]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte files go")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz files go")
    arguments = parser.parse_args()
    for name, (program, reference) in {
        "kws_f32": export_float32(build_network()),
        "kws_int8": export_int8(build_network(), CortexM.M3),
    }.items():
        (arguments.models / f"{name}.pte").write_bytes(program)
        write_fixture(arguments.fixtures / f"{name}.npz", reference)
        print(f"{name}: {len(program)} bytes")


if __name__ == "__main__":
    main()
