"""Write tests/fixtures/advice: pairs of networks; the second follows the advice on the first.

pip install torch==2.13.0 executorch==1.5.1
python firmware_stub/models/export_advice.py
"""

from __future__ import annotations

import copy
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


def int8(model: nn.Module, channels: int, *, contiguous: bool = False) -> bytes:
    shape = (1, channels, SIDE, SIDE)
    target = CortexMTargetConfig(cpu=CortexM.M4)
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
    layer, norm = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)
    folded = torch.nn.utils.fusion.fuse_conv_bn_eval(layer.eval(), norm.eval())
    linear = nn.Linear(64, 32)
    image = (1, 4, SIDE, SIDE)
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
    }


if __name__ == "__main__":
    for name, (before, after) in pairs().items():
        for suffix, export in (("", before), ("_advised", after)):
            program = export()
            path = ROOT / f"tests/fixtures/advice/{name}{suffix}.pte"
            path.write_bytes(program)
            print(f"{path.name}: {len(program)} bytes", flush=True)
