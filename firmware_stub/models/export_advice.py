"""Write tests/fixtures/advice: pairs of networks; the second follows the advice on the first.

pip install torch==2.13.0 executorch==1.5.1
python firmware_stub/models/export_advice.py [PAIR...]
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import EdgeCompileConfig, to_edge
from export import lower_int8, quantize
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

ROOT = Path(__file__).parents[2]

SIDE = 12


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Scaled(nn.Module):
    """A tensor divided by a constant one, or multiplied by its reciprocal."""

    def __init__(self, *, reciprocal: bool) -> None:
        super().__init__()
        self.reciprocal = reciprocal
        scale = torch.tensor([3.0])
        self.register_buffer("scale", 1 / scale if reciprocal else scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale if self.reciprocal else x / self.scale


def int8(
    model: nn.Module, channels: int, *, contiguous: bool = False, cpu: CortexM = CortexM.M4
) -> bytes:
    shape = (1, channels, SIDE, SIDE)
    target = CortexMTargetConfig(cpu=cpu)
    if not contiguous:
        quantized = quantize(model.eval(), lambda: torch.randn(shape))
    else:
        from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

        sample = (torch.randn(shape),)
        prepared = prepare_pt2e(
            torch.export.export(model.eval(), sample).module(check_guards=False), CortexMQuantizer()
        )
        prepared(*sample)
        quantized = torch.export.export(convert_pt2e(prepared), sample)
    return bytes(lower_int8(quantized, target).to_executorch().buffer)


def float32(model: nn.Module, *shape: int, preserve: bool = False) -> bytes:
    kept = [torch.ops.aten.linear.default] if preserve else []
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=kept)
    program = torch.export.export(model.eval(), (torch.randn(shape),))
    return bytes(to_edge(program, compile_config=config).to_executorch().buffer)


def without_groups(layer: nn.Conv2d) -> nn.Conv2d:
    """Return the layer with zeros between the groups."""
    dense = nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, padding=1)
    size, of = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    with torch.no_grad():
        dense.weight.zero_()
        for group in range(layer.groups):
            rows, columns = (
                slice(group * of, (group + 1) * of),
                slice(group * size, (group + 1) * size),
            )
            dense.weight[rows, columns] = layer.weight[rows]
        dense.bias.copy_(layer.bias)
    return dense


def pairs() -> dict[str, tuple[Callable[[], bytes], Callable[[], bytes]]]:
    torch.manual_seed(1)
    grouped = nn.Conv2d(16, 16, 3, padding=1, groups=2)
    plain = nn.Conv2d(8, 16, 3, padding=1)
    layer, norm = nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8)
    for numbers in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(numbers, 0.5, 1.5)
    folded = torch.nn.utils.fusion.fuse_conv_bn_eval(layer.eval(), norm.eval())
    linear = nn.Linear(64, 32)
    narrow, point = (
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Conv2d(4, 8, 1),
    )
    edges, zeros = (
        nn.Conv2d(8, 8, 3, padding=1, groups=8, padding_mode=mode) for mode in ("reflect", "zeros")
    )
    zeros.load_state_dict(edges.state_dict())
    image = (1, 4, SIDE, SIDE)
    mirrored, mirrored_zeros = (
        nn.Conv2d(6, 12, 3, padding=1, padding_mode=mode) for mode in ("reflect", "zeros")
    )
    mirrored_zeros.load_state_dict(mirrored.state_dict())
    behind = nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    chain = nn.Sequential(
        *(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8)),
        *(nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Hardtanh(0, 6)),
    )
    return {
        "groups": (lambda: int8(grouped, 16), lambda: int8(without_groups(grouped), 16)),
        "depthwise": (
            lambda: int8(nn.Conv2d(15, 15, 3, padding=1, groups=15), 15),
            lambda: int8(nn.Conv2d(16, 16, 3, padding=1, groups=16), 16),
        ),
        "layout": (
            lambda: int8(copy.deepcopy(plain), 8, contiguous=True),
            lambda: int8(plain, 8),
        ),
        "norm": (
            lambda: float32(nn.Sequential(layer, norm), *image),
            lambda: float32(folded, *image),
        ),
        "linear": (lambda: float32(linear, 1, 64), lambda: float32(linear, 1, 64, preserve=True)),
        "square": (
            lambda: float32(Applied(lambda x: x**2), 1, 400),
            lambda: float32(Applied(lambda x: x * x), 1, 400),
        ),
        "division": (
            lambda: float32(Scaled(reciprocal=False), 1, 400),
            lambda: float32(Scaled(reciprocal=True), 1, 400),
        ),
        "activation": (
            lambda: int8(nn.Sequential(copy.deepcopy(plain), nn.ELU()), 8),
            lambda: int8(nn.Sequential(copy.deepcopy(plain), nn.SiLU()), 8),
        ),
        "bound": (
            lambda: int8(nn.Sequential(narrow, Applied(lambda x: torch.clamp_min(x, 0))), 8),
            lambda: int8(nn.Sequential(copy.deepcopy(narrow), nn.ReLU()), 8),
        ),
        "reshaping": (
            lambda: int8(nn.Sequential(narrow, nn.Flatten(), nn.ReLU()), 8),
            lambda: int8(nn.Sequential(copy.deepcopy(narrow), nn.ReLU(), nn.Flatten()), 8),
        ),
        "pool": (
            lambda: float32(nn.Sequential(point, nn.Tanh(), nn.MaxPool2d(2)), *image),
            lambda: float32(nn.Sequential(point, nn.MaxPool2d(2), nn.Tanh()), *image),
        ),
        "edges": (lambda: int8(edges, 8), lambda: int8(zeros, 8)),
        "scratch": (
            lambda: int8(nn.Sequential(mirrored, *behind), 6, cpu=CortexM.M3),
            lambda: int8(nn.Sequential(mirrored_zeros, *behind), 6, cpu=CortexM.M3),
        ),
        "chain": (
            lambda: int8(copy.deepcopy(chain), 4, contiguous=True),
            lambda: int8(copy.deepcopy(chain), 4),
        ),
    }


if __name__ == "__main__":
    for name, (before, after) in pairs().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        for suffix, export in (("", before), ("_advised", after)):
            program = export()
            path = ROOT / f"tests/fixtures/advice/{name}{suffix}.pte"
            path.write_bytes(program)
            print(f"{path.name}: {len(program)} bytes", flush=True)
