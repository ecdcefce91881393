"""The reference of int8 networks: the exporter's eager operators, with CMSIS-NN's rounding.

A microcontroller runs CMSIS-NN, so its results are the right ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import avg_pool2d


class ChipReference(torch.fx.Interpreter):
    """Runs an exported module as the chip does; call it with the module's inputs."""

    def __call__(self, *inputs: torch.Tensor) -> Any:
        return self.run(*inputs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        name = str(getattr(target, "_op", target))
        if not name.startswith("cortex_m.quantized_avg_pool2d"):
            return result
        images, window = args[0], args[1:5]
        if "_nhwc" not in name:
            return result.copy_(rounded_means(images, *window))
        return result.copy_(rounded_means(images.permute(0, 3, 1, 2), *window).permute(0, 2, 3, 1))


def rounded_means(
    images: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> torch.Tensor:
    """Return averages of int8 as ``arm_avgpool_s8``: of what is in the image, ties away from zero.

    The exporter's operator rounds ties to even. ``images`` and the result are N, C, H, W.
    """

    def sums(values: torch.Tensor) -> torch.Tensor:
        # With divisor 1, and exact in float64.
        pooled = avg_pool2d(values.double(), kernel, stride, padding, ceil_mode, True, 1)
        return pooled.round().long()

    total, count = sums(images), sums(torch.ones_like(images))
    return ((2 * total.abs() + count) // (2 * count) * total.sign()).to(torch.int8)
