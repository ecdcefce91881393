"""Export an int8 network for boards with 16 KiB of RAM: two linear layers and a softmax.

A classifier over sixteen features, such as a micro:bit draws from its accelerometer. It is exported
as the MLPerf Tiny networks are, by ``export.py`` beside this, with what that needs:

    cd firmware_stub/models
    python export_small.py --models . --fixtures ../../tests/fixtures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from export import export_int8, write_fixture
from networks import Network
from torch import nn

FEATURES = 16
CLASSES = 4


class Small(nn.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, FEATURES)
        self.classifier = nn.Linear(FEATURES, CLASSES)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.hidden(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="where the .pte file goes")
    parser.add_argument("--fixtures", type=Path, required=True, help="where the .npz file goes")
    arguments = parser.parse_args()
    network = Network("small", Small, (1, FEATURES), fixture_inputs=10, input_steps=0)
    program, reference = export_int8(network)
    (arguments.models / "small_int8.pte").write_bytes(program)
    write_fixture(arguments.fixtures / "small_int8.npz", network, reference)
    print(f"small_int8: {len(program)} bytes")


if __name__ == "__main__":
    main()
