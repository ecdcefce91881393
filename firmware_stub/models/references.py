"""Gathers one input and its reference outputs for every model here, into references.npz.

    python firmware_stub/models/references.py

`etharness qualify` compares boards with them. The references come from the tests' fixtures, which
the scripts beside this one export. Keys are `MODEL.inputN`, `MODEL.outputN` and, where it is not
1, `MODEL.runs`: the outputs are those of the last of so many executions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.decode.program import Tensor
from harness.decode.pte import read_program

MODELS = Path(__file__).parent
FIXTURES = MODELS.parent.parent / "tests/fixtures"
REFERENCES = MODELS / "references.npz"


def output_sizes(model: Path) -> tuple[int, ...]:
    """Return the shape of the first output of a model."""
    method = read_program(model.read_bytes()).method("forward")
    if method is None or not isinstance(tensor := method.values[method.outputs[0]], Tensor):
        raise ValueError(f"{model} has no tensor as output")
    return tensor.sizes


def first_case(model: Path, fixture: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the inputs and outputs of the first case of a fixture, by their key in the file."""
    if "inputs" in fixture:
        yield "input0", fixture["inputs"][0]
        # Some fixtures lack the dimension of the batch.
        yield "output0", fixture["outputs"][0].reshape(output_sizes(model))
        return
    case = next(iter(fixture)).partition(".")[0]
    if fixture[f"{case}.method"].item() != "forward":
        raise ValueError(f"the first case {case} is not of forward")
    for key, array in fixture.items():
        of_case, _, name = key.partition(".")
        if of_case == case and name != "method":
            yield name, array


def gathered() -> dict[str, np.ndarray]:
    """Return the arrays of the references by key, for models with a fixture."""
    found = {}
    for model in sorted(MODELS.glob("*.pte")):
        fixture = dict(np.load(FIXTURES / f"{model.stem}.npz"))
        found |= {f"{model.stem}.{name}": array for name, array in first_case(model, fixture)}
    return found


if __name__ == "__main__":
    np.savez_compressed(REFERENCES, **gathered())  # type: ignore[arg-type]
