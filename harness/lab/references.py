"""What outputs should be: kept in the run directory, so that a check of it can compare again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.check.subject import Output
from harness.errors import UsageError
from harness.lab.directory import RunDirectory
from harness.lab.tensors import read_npy
from harness.result import Reference, Result

if TYPE_CHECKING:
    import numpy as np


def read_references(paths: Sequence[Path]) -> list[np.ndarray]:
    """Read the references, before anything runs for them.

    Raises:
        UsageError: A file is missing, or is no array.
    """
    return [read_npy(path) for path in paths]


def keep_references(
    directory: RunDirectory,
    references: Sequence[np.ndarray],
    outputs: int,
    rtol: float | None,
    atol: float | None,
) -> Reference | None:
    """Write the references into a run directory, and say what a result records of them.

    Args:
        directory: Where to.
        references: One per output, or none at all.
        outputs: How many the model has.
        rtol: Relative tolerance, None for what the type allows.
        atol: Absolute tolerance, likewise.

    Raises:
        UsageError: There are more or fewer than outputs.
    """
    if not references:
        return None
    if len(references) != outputs:
        raise UsageError(
            f"the model has {outputs} outputs, but {len(references)} references were given",
            hint="give --reference once per output, in their order",
        )
    files = tuple(
        directory.write_tensor(f"reference/{index}.npy", array)
        for index, array in enumerate(references)
    )
    return Reference(files, rtol, atol)


def compared_outputs(result: Result, directory: Path | None) -> tuple[Output, ...]:
    """Outputs of a run beside their references; none where there are no references.

    Raises:
        UsageError: A file that the result names is missing, or is no array.
    """
    reference, model = result.reference, result.model
    if reference is None or model is None or directory is None or not model.outputs:
        return ()
    return tuple(
        Output(
            output.file,
            read_npy(directory / output.file),
            read_npy(directory / file),
            reference.rtol,
            reference.atol,
        )
        for output, file in zip(model.outputs, reference.files, strict=True)
    )
