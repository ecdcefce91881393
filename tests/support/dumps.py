"""Dumps that ExecuTorch's own runtime and ETDumpGen make. Needs torch and executorch."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.core import BundledProgram
from executorch.devtools.bundled_program.serialize import (
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.extension.pybindings import portable_lib

from tests.support.executorch import Build
from tests.support.exported import Exported

STATIC = 200_000
"""Bytes of a static ETDumpGen; its least is 131,521."""
_DEBUG = 1 << 16


@dataclass(frozen=True)
class Dump:
    """Files of a run, as an Inspector's arguments name them."""

    etdump_path: Path
    etrecord: Path | None = None
    debug_buffer_path: Path | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        return {key: str(value) for key, value in vars(self).items() if value is not None}


def record(exported: Exported, directory: Path, runs: int, *, values: bool = True) -> Dump:
    """Execute a program ``runs`` times on ExecuTorch's runtime, traced."""
    module = portable_lib._load_for_executorch(
        str(exported.model), enable_etdump=True, debug_buffer_size=_DEBUG * runs if values else 0
    )
    for _ in range(runs):
        module.run_method("forward", exported.inputs)
    return _written(module, exported, directory, values)


def record_bundled(
    exported: Exported, directory: Path, cases: int, executed: Sequence[int]
) -> Dump:
    """Execute a program with some of its bundled inputs; the record gets reference outputs."""
    torch.manual_seed(11)
    shape = exported.inputs[0].shape
    inputs = [(torch.randn(shape),) for _ in range(cases)]
    assert exported.network is not None
    # Wrong by 1 for each case, so that the references tell the cases apart.
    expected = [
        [output + number for output in exported.network(*given)]
        for number, given in enumerate(inputs)
    ]
    suite = MethodTestSuite(
        "forward",
        [
            MethodTestCase(inputs=given, expected_outputs=outputs)
            for given, outputs in zip(inputs, expected, strict=True)
        ],
    )
    bundle = BundledProgram(exported.manager, [suite])
    bundled = portable_lib._load_bundled_program_from_buffer(
        serialize_from_bundled_program_to_flatbuffer(bundle)
    )
    module = portable_lib._load_for_executorch_from_bundled_program(
        bundled, enable_etdump=True, debug_buffer_size=_DEBUG * cases
    )
    for case in executed:
        module.run_method("forward", inputs[case])
    etrecord = exported.manager.get_etrecord()
    etrecord.update_reference_outputs(bundle)
    etrecord.update_representative_inputs(bundle)
    etrecord.save(directory / "bundled.etrecord")
    written = _written(module, exported, directory, True)
    return Dump(written.etdump_path, directory / "bundled.etrecord", written.debug_buffer_path)


def _written(module: Any, exported: Exported, directory: Path, values: bool) -> Dump:
    dump, debug = directory / "trace.etdp", directory / "debug.bin"
    if values:
        module.write_etdump_result_to_file(str(dump), str(debug))
    else:
        module.write_etdump_result_to_file(str(dump))
    return Dump(dump, exported.etrecord, debug if values else None)


class Generator:
    """ETDumpGen, told what to log."""

    def __init__(self, directory: Path) -> None:
        """Build it in ``directory``."""
        build = Build(directory)
        source = Path(__file__).parent.parent / "oracle" / "etdumpgen_script.cpp"
        objects = [build.compile(source), *build.tracer()]
        self._program = build.link(objects, "executorch_etdump")
        self._directory, self._count = directory, 0

    def make(self, script: str, *, static: bool = False) -> Path:
        """The dump of the calls in ``script``, one a line."""
        self._count += 1
        path = self._directory / f"{self._count}.etdp"
        lines = "\n".join(line.strip() for line in script.strip().splitlines())
        arguments = [str(self._program), str(STATIC if static else 0), str(path)]
        subprocess.run(arguments, input=lines, text=True, check=True)
        return path

    def tee(self, script: str) -> tuple[Path, Path, str]:
        """The dump, the log that our tracer makes of the same calls, and what was printed."""
        path = self.make("")
        log = path.with_suffix(".etlog")
        arguments = [str(self._program), "0", str(path), str(log)]
        done = subprocess.run(arguments, input=script, text=True, check=True, capture_output=True)
        return path, log, done.stdout
