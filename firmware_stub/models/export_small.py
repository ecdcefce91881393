"""Export int8 networks for boards with 16 KiB of RAM: linear layers and a softmax.

``small`` is a classifier over sixteen features, such as a micro:bit draws from its accelerometer.
``gesture`` has 60 KB of weights, which only flash has room for. They are exported as the MLPerf
Tiny networks are, by ``export.py`` beside this, with what that needs:

    cd firmware_stub/models
    python export_small.py small --models . --fixtures ../../tests/fixtures
    python export_small.py gesture --models ../../tests/fixtures --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from export import write_int8
from networks import Network
from torch import nn

WIDTHS = {"small": (16, 16, 4), "gesture": (64, 320, 112, 4)}
"""Features, then the outputs of each layer."""


class Perceptron(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        layers = [nn.Linear(before, after) for before, after in pairwise(widths)]
        self.hidden = nn.ModuleList(layers[:-1])
        self.classifier = layers[-1]

    def features(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WIDTHS)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte file goes")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz file goes")
    arguments = parser.parse_args()
    name, widths = arguments.name, WIDTHS[arguments.name]
    network = Network(
        name, partial(Perceptron, widths), (1, widths[0]), fixture_inputs=10, input_steps=0
    )
    write_int8(network, arguments)


if __name__ == "__main__":
    main()
