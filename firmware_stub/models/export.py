"""Export the MLPerf Tiny networks through ExecuTorch's own flows, float32 and int8.

An int8 file is for one core: ``kws_int8`` for Cortex-M3, ``kws_int8_m4`` and ``kws_int8_m55`` for
others, as far as they differ.

Besides the ``.pte`` files this writes, per file, a few random inputs with the outputs that PyTorch
computes for them: eager PyTorch for float32, the eager ``cortex_m`` reference of the very operators
in the file for int8, with CMSIS-NN's rounding (``chip_reference.py``).

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
from chip_reference import ChipReference
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import EdgeProgramManager, to_edge
from networks import NETWORKS, SEED, Network, build
from torch import nn
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

CALIBRATION_INPUTS = 32

CORES = {"": CortexM.M3, "_m4": CortexM.M4, "_m55": CortexM.M55}
"""Cores that int8 networks are exported for, by the end of the file's name."""

Reference = Callable[[torch.Tensor], torch.Tensor]


def export_float32(network: Network) -> tuple[bytes, Reference]:
    model = build(network)
    sample = torch.randn(network.input_shape)
    program = to_edge(torch.export.export(model, (sample,))).to_executorch()
    return bytes(program.buffer), model


def export_int8(network: Network, cpu: CortexM = CortexM.M3) -> tuple[bytes, Reference]:
    quantized = quantize(build(network), lambda: torch.randn(network.input_shape))
    edge = lower_int8(quantized, CortexMTargetConfig(cpu=cpu))
    reference = ChipReference(edge.exported_program().module(check_guards=False))
    return bytes(edge.to_executorch().buffer), reference


def quantize(
    model: nn.Module, draw: Callable[[], torch.Tensor], *, explicit_layout: bool = False
) -> ExportedProgram:
    """Quantize a network, which is the same for every core.

    ``draw`` gives inputs, of which the first is the sample and the others calibrate. Operators on
    images take them channels last; with ``explicit_layout`` they name the dimensions in that order.
    """
    if not explicit_layout:
        model, draw = model.to(memory_format=torch.channels_last), _in_channels_last(draw)
    sample = draw()
    prepared = prepare_pt2e(
        torch.export.export(model, (sample,)).module(check_guards=False),
        CortexMQuantizer(use_explicit_layout=explicit_layout),
    )
    for _ in range(CALIBRATION_INPUTS):
        prepared(draw())
    return torch.export.export(convert_pt2e(prepared), (sample,))


def lower_int8(
    quantized: ExportedProgram, target: CortexMTargetConfig, *, explicit_layout: bool = False
) -> EdgeProgramManager:
    """Lower for a core: operators' arguments differ from one to the other."""
    edge = to_edge(quantized, compile_config=cortex_m_edge_compile_config())
    passes = CortexMPassManager(
        edge.exported_program(), target_config=target, use_explicit_layout=explicit_layout
    )
    edge._edge_programs["forward"] = passes.transform()
    return edge


def _in_channels_last(draw: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    return lambda: channels_last(draw())


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def write_fixture(path: Path, network: Network, reference: Reference) -> None:
    torch.manual_seed(SEED + 1)
    inputs = [torch.randn(network.input_shape) for _ in range(network.fixture_inputs)]
    if network.input_steps:
        inputs = [(x * network.input_steps).round() / network.input_steps for x in inputs]
    np.savez_compressed(
        path,
        inputs=np.stack([x.numpy() for x in inputs]),
        outputs=np.stack([reference(channels_last(x)).numpy()[0] for x in inputs]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte files go")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz files go")
    parser.add_argument("--network", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    for network in NETWORKS:
        if arguments.network and network.name not in arguments.network:
            continue
        write(f"{network.name}_f32", *export_float32(network), network, arguments)
        write_int8(network, arguments)


def write_int8(network: Network, arguments: argparse.Namespace) -> None:
    """Write the exports of a network for all cores, and what differs only."""
    written: set[bytes] = set()
    for suffix, cpu in CORES.items():
        program, reference = export_int8(network, cpu)
        if program not in written:
            write(f"{network.name}_int8{suffix}", program, reference, network, arguments)
        written.add(program)


def write(
    name: str, program: bytes, reference: Reference, network: Network, arguments: argparse.Namespace
) -> None:
    (arguments.models / f"{name}.pte").write_bytes(program)
    write_fixture(arguments.fixtures / f"{name}.npz", network, reference)
    print(f"{name}: {len(program)} bytes")


if __name__ == "__main__":
    main()
