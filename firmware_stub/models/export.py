"""Export the MLPerf Tiny networks through ExecuTorch's own flows, float32 and int8.

Besides the ``.pte`` files this writes, per file, a few random inputs with the outputs that PyTorch
computes for them: eager PyTorch for float32, the eager ``cortex_m`` reference of the very operators
in the file for int8.

    pip install torch==2.13.0 executorch==1.5.1 tosa-tools
    cd firmware_stub/models
    python export.py --models . --fixtures ../../tests/fixtures
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
from networks import NETWORKS, SEED, Network, build
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

CALIBRATION_INPUTS = 32

Reference = Callable[[torch.Tensor], torch.Tensor]


def export_float32(network: Network) -> tuple[bytes, Reference]:
    model = build(network)
    sample = torch.randn(network.input_shape)
    program = to_edge(torch.export.export(model, (sample,))).to_executorch()
    return bytes(program.buffer), model


def export_int8(network: Network, cpu: CortexM = CortexM.M3) -> tuple[bytes, Reference]:
    model = build(network).to(memory_format=torch.channels_last)
    sample = _channels_last(torch.randn(network.input_shape))
    prepared = prepare_pt2e(
        torch.export.export(model, (sample,)).module(check_guards=False), CortexMQuantizer()
    )
    for _ in range(CALIBRATION_INPUTS):
        prepared(_channels_last(torch.randn(network.input_shape)))
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


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def write_fixture(path: Path, network: Network, reference: Reference) -> None:
    torch.manual_seed(SEED + 1)
    inputs = [torch.randn(network.input_shape) for _ in range(network.fixture_inputs)]
    if network.input_steps:
        inputs = [(x * network.input_steps).round() / network.input_steps for x in inputs]
    np.savez_compressed(
        path,
        inputs=np.stack([x.numpy() for x in inputs]),
        outputs=np.stack([reference(_channels_last(x)).numpy()[0] for x in inputs]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte files go")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz files go")
    arguments = parser.parse_args()
    for network in NETWORKS:
        for kind, export in (("f32", export_float32), ("int8", export_int8)):
            name = f"{network.name}_{kind}"
            program, reference = export(network)
            (arguments.models / f"{name}.pte").write_bytes(program)
            write_fixture(arguments.fixtures / f"{name}.npz", network, reference)
            print(f"{name}: {len(program)} bytes")


if __name__ == "__main__":
    main()
