"""Write the samples of the MLPerf Tiny networks for ``--dataset``: random inputs, named by PyTorch.

The networks have random weights, so no real recording or image has a meaning for them. Labels are
what the float32 network says of the same input in PyTorch: a class, or of ``ad`` whether the error
of the reconstruction is above its median. So the accuracy of ``NAME_f32`` is 1 by construction, and
that of ``NAME_int8`` is how often quantization changes nothing.

    pip install torch==2.13.0 executorch==1.5.1 tosa-tools
    cd firmware_stub/models
    python export_samples.py samples      # samples/NAME.npz
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from networks import NETWORKS, SEED, Network, build

SAMPLES = {"kws": 48, "ad": 40, "ic": 40, "vww": 24}

CELLS = {"ic": 8, "vww": 12}
"""Images are squares of one color, so that they compress: their number in a row."""

SCALE = 1 / 32
"""Of the stored int8, so that inputs are from -4 to 4 as those of calibration."""


def draw(network: Network) -> torch.Tensor:
    """An input as it is stored: int8."""
    shape = network.input_shape
    if cells := CELLS.get(network.name):
        small = torch.randn(*shape[:2], cells, cells) * torch.rand(()) * 2
        x = small.repeat_interleave(shape[2] // cells, 2).repeat_interleave(shape[3] // cells, 3)
    else:
        x = torch.randn(shape) * (0.25 + 1.5 * torch.rand(()))
    return (x / SCALE).round().clamp(-128, 127).to(torch.int8)


def labelled(network: Network) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield inputs and labels; no class has more than its share while others come as often."""
    model, count = build(network), SAMPLES[network.name]
    torch.manual_seed(SEED + 3)
    if network.name == "ad":
        stored = [draw(network) for _ in range(count)]
        errors = [float(((model(x * SCALE) - x * SCALE) ** 2).mean()) for x in stored]
        for x, error in zip(stored, errors, strict=True):
            yield x, int(error > np.median(errors))
        return
    classes = model(draw(network) * SCALE).shape[1]
    seen: Counter[int] = Counter()
    for attempt in range(10 * count):
        x = draw(network)
        label = int(model(x * SCALE).argmax())
        if seen[label] < count // classes or attempt >= 8 * count:
            seen[label] += 1
            yield x, label
        if seen.total() == count:
            return


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for network in NETWORKS:
        samples = list(labelled(network))
        path = folder / f"{network.name}.npz"
        np.savez_compressed(
            path,
            inputs=np.stack([x.numpy()[0] for x, _ in samples]),
            inputs_scale=np.float32(SCALE),
            labels=np.array([label for _, label in samples], np.int8),
        )
        print(f"{path}: {path.stat().st_size} bytes, labels {Counter(n for _, n in samples)}")


if __name__ == "__main__":
    main()
