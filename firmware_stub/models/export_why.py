"""Write tests/fixtures/why: small programs that differ by one change of their export.

``tests/contract/test_why.py`` compares them with ``etharness compare``. Weights come from a fixed
seed. It needs ``torch``, ``executorch``, ``tosa-tools`` and ``ethos-u-vela`` (``tools/setup
oracle``):

    cd firmware_stub/models
    python export_why.py --fixtures ../../tests/fixtures/why
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.cortex_m.quantizer import quantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, naive
from executorch.exir.passes import MemoryPlanningPass
from export import lower_int8, quantize
from export_ethos_u import lower as lower_ethos_u
from npu.partitioner import NpuPartitioner
from torch import Tensor, nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

SEED = 2026
LAST, CONTIGUOUS = torch.channels_last, torch.contiguous_format

Function = Callable[..., Tensor | tuple[Tensor, ...]]


class Layers(nn.Module):
    """Layers by number, and a function of them and the inputs."""

    def __init__(self, function: Function, *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.function(*self.layers, *inputs)


def program(
    function: Function,
    *inputs: Tensor | Sequence[int],
    layers: Callable[[], Sequence[nn.Module]] = tuple,
    partitioners: Sequence[Any] = (),
    plan: MemoryPlanningPass | None = None,
    dtype: torch.dtype = torch.float32,
) -> bytes:
    """Export a function of layers without quantization; inputs are tensors or shapes."""
    torch.manual_seed(SEED)
    model = Layers(function, *layers()).eval().to(dtype)
    given = tuple(x if isinstance(x, Tensor) else torch.randn(*x).to(dtype) for x in inputs)
    edge = to_edge_transform_and_lower(
        torch.export.export(model, given),
        partitioner=[*partitioners],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    config = ExecutorchBackendConfig(memory_planning_pass=plan or MemoryPlanningPass())
    return bytes(edge.to_executorch(config).buffer)


def methods(**functions: Function) -> bytes:
    """Export several methods of one input, by their names."""
    given = (seeded_input(2, 8),)
    exported = {
        name: torch.export.export(Layers(function).eval(), given)
        for name, function in functions.items()
    }
    return bytes(to_edge_transform_and_lower(exported).to_executorch().buffer)


def cortex_m(*layers: nn.Module, per_tensor: bool = False, last: bool = True) -> bytes:
    """Quantize and export layers for a Cortex-M4, on images of 4 channels."""
    kept = quantizer.INT8_PER_CHANNEL_CONFIG
    if per_tensor:
        quantizer.INT8_PER_CHANNEL_CONFIG = quantizer.INT8_PER_TENSOR_CONFIG
    torch.manual_seed(SEED)
    model = nn.Sequential(*layers).eval()
    try:
        if last:
            quantized = quantize(model, lambda: torch.randn(1, 4, 7, 7))
        else:
            given = (torch.randn(1, 4, 7, 7),)
            prepared = torch.export.export(model, given).module(check_guards=False)
            prepared = prepare_pt2e(prepared, quantizer.CortexMQuantizer())
            prepared(*given)
            quantized = torch.export.export(convert_pt2e(prepared), given)
    finally:
        quantizer.INT8_PER_CHANNEL_CONFIG = kept
    return bytes(lower_int8(quantized, CortexMTargetConfig(cpu=CortexM.M4)).to_executorch().buffer)


def seeded(make: Callable[[], nn.Module], seed: int = SEED) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def convolution(*, kernel: int = 3, stride: int = 1, padding: int = 1, seed: int = 1) -> nn.Module:
    return seeded(lambda: nn.Conv2d(4, 4, kernel, stride=stride, padding=padding), seed)


def three(activation: nn.Module) -> list[nn.Module]:
    """Convolutions, the second one depthwise, and pooling of their results."""
    depthwise = seeded(lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), 2)
    return [convolution(), activation, depthwise, nn.ReLU(), convolution(seed=3), nn.MaxPool2d(2)]


def ethos_u(
    width: int, target: str = "ethos-u55-128", seed: int = SEED, *, last: bool = True
) -> bytes:
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 4, 1)]
    inputs = (seeded_input(1, 3, 8, 8).to(memory_format=LAST if last else CONTIGUOUS),)
    return lower_ethos_u(nn.Sequential(*layers), inputs, EthosUCompileSpec(target))


def seeded_input(*shape: int) -> Tensor:
    torch.manual_seed(SEED)
    return torch.randn(*shape)


def linears(*widths: int) -> Callable[[], Sequence[nn.Module]]:
    return lambda: [nn.Linear(a, b) for a, b in pairwise(widths)]


def delegated(width: int, *, partitioner: Any, seed: int = SEED) -> bytes:
    """A delegate executes two linear layers; the CPU computes the error function of them."""
    torch.manual_seed(seed)
    layers = linears(8, width, 8)()
    return program(
        lambda a, b, x: torch.erf(functional.relu(b(functional.relu(a(x))))),
        (2, 8),
        layers=lambda: layers,
        partitioners=[partitioner],
    )


def layout(first: torch.memory_format, second: torch.memory_format) -> bytes:
    def clones(x: Tensor) -> Tensor:
        one, other = torch.sin(x), torch.cos(x)
        return torch.sub(one.clone(memory_format=first), other.clone(memory_format=second))

    return program(clones, (1, 2, 3, 4))


def programs() -> dict[str, Callable[[], bytes]]:
    """What makes each program, by its name."""
    xnnpack = XnnpackPartitioner
    naively = MemoryPlanningPass(MemoryPlanningAlgorithmSuite([naive]))
    image = (1, 4, 8, 8)
    ascending = torch.arange(8.0)
    descending = ascending.flip(0)

    def padded(padding: int) -> bytes:
        return program(
            lambda a, b, x: torch.sub(a(x), b(x)),
            image,
            layers=lambda: [convolution(kernel=3, stride=4, padding=padding) for _ in range(2)],
        )

    def concatenated(x: Tensor) -> Tensor:
        return torch.sin(torch.cat([x, torch.cat([x, x])]))

    def beside_large(x: Tensor, large: Tensor) -> tuple[Tensor, Tensor]:
        return concatenated(x), torch.sin(large)

    def all_alive(x: Tensor) -> Tensor:
        return torch.cat([x, torch.sin(x), torch.cos(x)])

    def channels(width: int, size: int) -> bytes:
        layers = [nn.Conv2d(4, width, 3), nn.Conv2d(width, 4, 3)]
        return program(lambda a, b, x: b(a(x)), (1, 4, size, size), layers=lambda: layers)

    def forked(a: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        y = a(x)
        return torch.topk(torch.sin(y), 3).values, torch.where(y > 0, y, -y), torch.sum(y, 1)

    def embedded(dtype: torch.dtype) -> bytes:
        layers = [seeded(lambda: nn.Embedding(8, 4))]
        return program(lambda a, x: a(x), torch.arange(3), layers=lambda: layers, dtype=dtype)

    return {
        # A program of one operator, its types and its kinds.
        "sin": lambda: program(torch.sin, (2, 8)),
        "sin_half": lambda: program(torch.sin, (2, 8), dtype=torch.float16),
        "cos": lambda: program(torch.cos, (2, 8)),
        "relu": lambda: program(lambda x: torch.relu(torch.sin(torch.relu(x))), (2, 8)),
        "tanh": lambda: program(lambda x: torch.tanh(torch.sin(torch.tanh(x))), (2, 8)),
        "permuted": lambda: program(
            lambda x: torch.sin(x.permute(1, 0).contiguous()).permute(1, 0).contiguous(), (2, 8)
        ),
        "sin_exp": lambda: program(lambda x: torch.exp(torch.sin(x)), (2, 8)),
        "exp_sin": lambda: program(lambda x: torch.sin(torch.exp(x)), (2, 8)),
        "index_int32": lambda: program(lambda x, at: x[at], (8,), torch.arange(3).int()),
        "index_int64": lambda: program(lambda x, at: x[at], (8,), torch.arange(3)),
        "embedding": lambda: embedded(torch.float32),
        "embedding_half": lambda: embedded(torch.float16),
        "power_scalar": lambda: program(lambda x: torch.pow(x, 3.0), (8,)),
        "power_tensor": lambda: program(torch.pow, (8,), (8,)),
        # Methods.
        "two_methods": lambda: methods(encode=torch.sin, decode=torch.cos),
        "two_methods_exp": lambda: methods(encode=torch.sin, decode=torch.exp),
        "encode": lambda: methods(encode=torch.sin),
        "encode_cos": lambda: methods(encode=torch.cos),
        # Arguments.
        "padding_0": lambda: padded(0),
        "padding_1": lambda: padded(1),
        "clamp_min": lambda: program(lambda x: torch.clamp(x, min=0.25), (8,)),
        "clamp_both": lambda: program(lambda x: torch.clamp(x, min=0.25, max=0.5), (8,)),
        # Shapes.
        "cat_2": lambda: program(lambda x: torch.cat([torch.sin(x)] * 2), (2, 8)),
        "cat_3": lambda: program(lambda x: torch.cat([torch.sin(x)] * 3), (2, 8)),
        "narrow": lambda: channels(4, 8),
        "wide_large": lambda: channels(6, 12),
        # Weights.
        "norm_plain": lambda: program(
            lambda norm, x: norm(x),
            (2, 8),
            layers=lambda: [nn.LayerNorm(8, elementwise_affine=False)],
        ),
        "norm_affine": lambda: program(
            lambda norm, x: norm(x), (2, 8), layers=lambda: [nn.LayerNorm(8)]
        ),
        "bias": lambda: program(lambda a, x: a(x), image, layers=lambda: [convolution()]),
        "no_bias": lambda: program(
            lambda a, x: a(x),
            image,
            layers=lambda: [seeded(lambda: nn.Conv2d(4, 4, 3, padding=1, bias=False), 1)],
        ),
        "constant_1": lambda: program(lambda x: x + ascending, (2, 8)),
        "constant_2": lambda: program(lambda x: x + descending, (2, 8)),
        # Layouts that begin at an operator.
        "clones": lambda: layout(CONTIGUOUS, CONTIGUOUS),
        "clones_last": lambda: layout(LAST, LAST),
        # Memory plans.
        "plan": lambda: program(concatenated, (2, 8)),
        "plan_naive": lambda: program(concatenated, (2, 8), plan=naively),
        "plan_large": lambda: program(beside_large, (1, 8), (240, 256)),
        "plan_large_naive": lambda: program(beside_large, (1, 8), (240, 256), plan=naively),
        "alive": lambda: program(all_alive, (2, 8)),
        "alive_naive": lambda: program(all_alive, (2, 8), plan=naively),
        # Quantized for CMSIS-NN.
        "bounds_1": lambda: cortex_m(nn.MaxPool2d(2), nn.Hardtanh(-1.0, 1.0)),
        "bounds_2": lambda: cortex_m(nn.MaxPool2d(2), nn.Hardtanh(-1.0, 2.0)),
        "strided_0": lambda: cortex_m(convolution(kernel=1, stride=3, padding=0)),
        "strided_float": lambda: program(
            lambda a, x: a(x),
            (1, 4, 7, 7),
            layers=lambda: [convolution(kernel=1, stride=3, padding=0)],
        ),
        "strided_1": lambda: cortex_m(convolution(kernel=1, stride=3, padding=1)),
        "channel_scales": lambda: cortex_m(convolution(), convolution(seed=2)),
        "tensor_scales": lambda: cortex_m(convolution(), convolution(seed=2), per_tensor=True),
        "three": lambda: cortex_m(*three(nn.ReLU())),
        "three_contiguous": lambda: cortex_m(*three(nn.ReLU()), last=False),
        "three_leaky": lambda: cortex_m(*three(nn.LeakyReLU())),
        "three_gelu": lambda: cortex_m(*three(nn.GELU())),
        "pad_1": lambda: cortex_m(convolution(), nn.ZeroPad2d(1)),
        "pad_2": lambda: cortex_m(convolution(seed=2), nn.ZeroPad2d(1)),
        # Delegates: where they are called, and what they do.
        "xnnpack": lambda: delegated(8, partitioner=xnnpack()),
        "xnnpack_trained": lambda: delegated(8, seed=7, partitioner=xnnpack()),
        "xnnpack_behind": lambda: program(
            lambda a, x: a(torch.erf(x)), (2, 8), layers=linears(8, 8), partitioners=[xnnpack()]
        ),
        "xnnpack_before": lambda: program(
            lambda a, x: torch.erf(a(x)), (2, 8), layers=linears(8, 8), partitioners=[xnnpack()]
        ),
        "cpu_before": lambda: program(lambda a, x: torch.erf(a(x)), (2, 8), layers=linears(8, 8)),
        "xnnpack_both": lambda: program(
            lambda a, b, x: b(torch.erf(a(x))),
            (2, 8),
            layers=linears(8, 8, 8),
            partitioners=[xnnpack()],
        ),
        # The partitioner sorts operators on the CPU anew that do not depend on each other.
        "forked": lambda: program(forked, (2, 8), layers=linears(8, 8)),
        "forked_xnnpack": lambda: program(
            forked, (2, 8), layers=linears(8, 8), partitioners=[xnnpack()]
        ),
        # Its CPU computes a power; the delegate takes products.
        "power": lambda: program(
            lambda a, b, x: b(torch.pow(a(x), 3)),
            (2, 8),
            layers=linears(8, 8, 4),
            partitioners=[xnnpack()],
        ),
        "products": lambda: program(
            lambda a, b, x: b((y := a(x)) * y * y),
            (2, 8),
            layers=linears(8, 8, 4),
            partitioners=[xnnpack()],
        ),
        "example_npu": lambda: delegated(8, partitioner=NpuPartitioner(named=False)),
        "example_npu_wider": lambda: delegated(12, partitioner=NpuPartitioner(named=False)),
        "ethos_u": lambda: ethos_u(8),
        "ethos_u_contiguous": lambda: ethos_u(8, last=False),
        "ethos_u_wider": lambda: ethos_u(16),
        "ethos_u_trained": lambda: ethos_u(8, seed=7),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .pte files go")
    parser.add_argument("--only", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    arguments.fixtures.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for name, make in programs().items():
        if not arguments.only or name in arguments.only:
            data = make()
            (arguments.fixtures / f"{name}.pte").write_bytes(data)
            print(f"{name}: {len(data)} bytes", flush=True)


if __name__ == "__main__":
    main()
