"""The networks of ``firmware_stub/models/export_zoo.py``, exported once per process."""

from __future__ import annotations

import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import harness
from harness import Region, read_program, tensor_from_bytes, tensor_to_bytes
from harness.check.fit import refusals
from tests.conftest import MODELS
from tests.support.boards import Bench
from tests.support.kernels import Array

RELATIVE, ABSOLUTE = 1e-5, 1e-6
BEYOND = {
    "heat_map_peaks": r"aten::(adaptive_max_pool2d\.out|sort\.values)",
    "adaptive_peaks": r"aten::(adaptive_max_pool2d|exp2)\.out",
    "video_clip": r"aten::max_pool3d_with_indices\.out",
    "local_response": r"aten::avg_pool3d\.out",
    "neighbour_statistics": r"aten::scatter_reduce\.two_out",
    "bag_of_words": r"aten::_embedding_bag_forward_only\.out",
    "bit_unpacker": r"aten::__[lr]shift__\.Scalar_out",
    "channels_last_norm": "is_contiguous_dim_order",
}
"""Networks that ExecuTorch's portable kernels do not take: some need operators that have none, one
has batch normalization of images with adjacent channels."""

LARGE = ("photograph_224",)
"""Networks with an input that emulated boards take no upload of."""


@cache
def script() -> dict[str, Any]:
    """What the script defines; needs torch and executorch."""
    sys.path.insert(0, str(MODELS))
    try:
        return runpy.run_path(str(MODELS / "export_zoo.py"))
    finally:
        sys.path.remove(str(MODELS))


@cache
def exported(name: str) -> Any:
    """A network's ``Export``."""
    return script()["export"](script()["MEMBERS"][name])


def runs(name: str) -> int:
    """How often a network is executed for the outputs of its ``Export``."""
    return int(script()["MEMBERS"][name].runs)


def arrays(tensors: Any) -> list[Array]:
    return [tensor.numpy() for tensor in tensors]


def compare(name: str, found: list[Array]) -> None:
    """Compare outputs with PyTorch's: int8 flows bit for bit."""
    expected = arrays(exported(name).outputs)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if script()["MEMBERS"][name].exact or theirs.dtype.kind != "f":
            np.testing.assert_array_equal(mine, theirs)
        else:
            error = script()["MEMBERS"][name].error
            np.testing.assert_allclose(mine, theirs, rtol=error or RELATIVE, atol=error or ABSOLUTE)


def execute(bench: Bench, name: str) -> list[Array]:
    """Load a network on a started board, run it, and return its outputs."""
    session, export = bench.session, exported(name)
    [method] = read_program(export.program).methods
    assert refusals(method) == (), "the host refuses what runs"
    info = session.load_model(export.program)
    for number, array in enumerate(arrays(export.inputs)):
        session.set_input(number, tensor_to_bytes(array, info.inputs[number]))
    session.run(runs(name), timeout_s=100)
    return [
        tensor_from_bytes(session.read(Region.OUTPUT, number), session.output_info(number, output))
        for number, output in enumerate(info.outputs)
    ]


def run(board: str, name: str, directory: Path) -> harness.Run:
    """Run a network as the command does, with its outputs in the run directory."""
    directory.mkdir()
    model = directory / "model.pte"
    model.write_bytes(exported(name).program)
    paths = []
    for number, array in enumerate(arrays(exported(name).inputs)):
        paths.append(directory / f"input{number}.npy")
        np.save(paths[-1], array)
    return harness.run(
        model, board=board, runs=runs(name), output=directory / "run", inputs=tuple(paths)
    )
