"""The programs of ``firmware_stub/models/export_features.py``, one per feature of the format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import harness
from harness import read_program
from tests.conftest import FIXTURES, MODELS
from tests.support.kernels import Array

FEATURES = ("methods", "state", "unplanned", "arenas", "dynamic", "images", "functions", "scalars")


@dataclass(frozen=True)
class Case:
    """What is fed to a feature's program, and what PyTorch returns from the last execution."""

    feature: str
    name: str
    method: str
    runs: int
    inputs: list[Array]
    outputs: list[Array]

    def __str__(self) -> str:
        return f"{self.feature}-{self.name}"

    def run(self, board: str, directory: Path) -> harness.Run:
        """Run it on a board."""
        paths = [directory / f"fed{number}.npy" for number in range(len(self.inputs))]
        for path, array in zip(paths, self.inputs, strict=True):
            np.save(path, array)
        return harness.run(
            MODELS / f"{self.feature}.pte",
            board=board,
            runs=self.runs,
            output=directory / "run",
            inputs=tuple(paths),
            method=self.method,
        )

    def compare(self, directory: Path) -> None:
        """Compare what a run left with PyTorch's outputs."""
        files = sorted((directory / "run" / "outputs").glob("*.npy"))
        assert len(files) == len(self.outputs)
        for file, expected in zip(files, self.outputs, strict=True):
            found = np.load(file)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def load_cases(feature: str) -> list[Case]:
    fixture = dict(np.load(FIXTURES / f"{feature}.npz"))
    names = [key.removesuffix(".method") for key in fixture if key.endswith(".method")]

    def tensors(name: str, kind: str) -> list[Array]:
        prefix = f"{name}.{kind}"
        count = sum(key.startswith(prefix) for key in fixture)
        return [fixture[f"{prefix}{number}"] for number in range(count)]

    return [
        Case(
            feature,
            name,
            str(fixture[f"{name}.method"]),
            int(fixture[f"{name}.runs"]),
            tensors(name, "input"),
            tensors(name, "output"),
        )
        for name in names
    ]


CASES = [case for feature in FEATURES for case in load_cases(feature)]


def every_method() -> list[tuple[str, str]]:
    """Names of all models and their methods."""
    return [
        (path.stem, method.name)
        for path in sorted(MODELS.glob("*.pte"))
        for method in read_program(path.read_bytes()).methods
    ]


def saved_inputs(model: str, method: str, directory: Path) -> tuple[Path, ...]:
    """Files with inputs that a method takes, for which random ones may be invalid indexes."""
    given = [case.inputs for case in CASES if (case.feature, case.method) == (model, method)]
    paths = []
    for number, array in enumerate(given[0] if given else []):
        paths.append(directory / f"{model}-{method}-{number}.npy")
        np.save(paths[-1], array)
    return tuple(paths)
