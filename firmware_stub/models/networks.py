"""The four networks of MLPerf Tiny, with random weights: what is profiled depends on none of them.

Weights come from a fixed seed. Each last layer is scaled such that the outputs differ from input to
input: comparing them proves something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

SEED = 2026
STATISTICS_INPUTS = 64
LOGIT_DEVIATION = 2.0


class DsCnn(nn.Module):
    """One full convolution, four depthwise-separable blocks, global mean, a linear layer."""

    def __init__(self, channels: int = 64, classes: int = 12) -> None:
        super().__init__()
        self.stem = _convolution(1, channels, (10, 4), stride=2, padding=(5, 1))
        self.blocks = nn.Sequential(*(_separable(channels, channels) for _ in range(4)))
        self.classifier = nn.Linear(channels, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.stem(x)).mean(dim=(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), dim=1)


class MobileNet(nn.Module):
    """MobileNetV1 at a quarter of its width, for two classes."""

    OUTPUTS = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        inputs = (8, *self.OUTPUTS)
        self.stem = _convolution(3, inputs[0], (3, 3), stride=2, padding=1)
        self.blocks = nn.Sequential(
            *(
                _separable(before, after, stride)
                for before, after, stride in zip(inputs, self.OUTPUTS, self.STRIDES, strict=False)
            )
        )
        self.classifier = nn.Linear(inputs[-1], classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.stem(x)).mean(dim=(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), dim=1)


class Residual(nn.Module):
    """Two convolutions beside a shortcut, which is a convolution where the size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, (3, 3), stride=stride, padding=1)
        self.second = nn.Sequential(
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        )
        self.shortcut = (
            nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride=stride)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.shortcut(x) + self.second(self.first(x)))


class ResNet8(nn.Module):
    """A convolution, three residual blocks, an average, a linear layer."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = _convolution(3, 16, (3, 3), padding=1)
        self.blocks = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.pool = nn.AvgPool2d(8)
        self.classifier = nn.Linear(64, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.blocks(self.stem(x))).flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), dim=1)


class Autoencoder(nn.Module):
    """Ten linear layers through a bottleneck of eight."""

    WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU())
                for before, after in zip(self.WIDTHS, self.WIDTHS[1:], strict=False)
            )
        )
        self.classifier = nn.Linear(self.WIDTHS[-1], self.WIDTHS[0])

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.hidden(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x))


@dataclass(frozen=True)
class Network:
    """What is exported, and what its fixture holds.

    Attributes:
        name: MLPerf Tiny's task: files are called ``<name>_f32`` and ``<name>_int8``.
        make: The class of the network, in PyTorch's random initial state.
        input_shape: Of one input.
        fixture_inputs: How many inputs the fixture has.
        input_steps: Per unit; what fixture inputs are rounded to, so that they compress. 0: not.
    """

    name: str
    make: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    fixture_inputs: int = 3
    input_steps: int = 16


NETWORKS = (
    Network("kws", DsCnn, (1, 1, 49, 10), fixture_inputs=10, input_steps=0),
    Network("ad", Autoencoder, (1, 640)),
    Network("ic", ResNet8, (1, 3, 32, 32)),
    Network("vww", MobileNet, (1, 3, 96, 96)),
)


def build(network: Network) -> nn.Module:
    """Random weights, with a last layer scaled to what the network finds in random inputs."""
    torch.manual_seed(SEED)
    model = network.make().eval().requires_grad_(False)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(module.running_mean, 0.0, 0.1)
            nn.init.uniform_(module.running_var, 0.05, 0.2)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, 0.0, 0.1)
    features = torch.cat(
        [model.features(torch.randn(network.input_shape)) for _ in range(STATISTICS_INPUTS)]
    )
    last = model.classifier
    last.weight.mul_(LOGIT_DEVIATION / last(features).std(dim=0)[:, None])
    last.bias.copy_(-last.weight @ features.mean(dim=0))
    return model


def _separable(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        _convolution(inputs, inputs, (3, 3), stride=stride, padding=1, groups=inputs),
        _convolution(inputs, outputs, (1, 1)),
    )


def _convolution(
    inputs: int, outputs: int, kernel: tuple[int, int], **options: object
) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, bias=False, **options),  # type: ignore[arg-type]
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
