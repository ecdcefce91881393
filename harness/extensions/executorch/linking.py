"""The ExecuTorch that a firmware links: the Python package, or one installed for its core.

The plugin ``executorch`` of ``etharness.targets``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from harness.config.board import Board, Build
from harness.errors import HarnessError, InfrastructureError, UsageError
from harness.files import absolute
from harness.target.build import cxx_compiler
from harness.target.process_group import run_program

ROOT_VARIABLE: Final = "EXECUTORCH_ROOT"
"""Environment variable with the install prefix of an ExecuTorch built for the board's core."""

KERNELS_VARIABLE: Final = "EXECUTORCH_KERNELS"
"""Environment variable with kernel libraries to link instead of those in the board file."""

PACKAGE_REMEDY: Final = "pip install 'etdump-harness[build,oracle]'"
"""How to install the executorch package in the tested version."""

INSTALLATION_REMEDY: Final = (
    f"build and install ExecuTorch for this core (`etharness explain executorch`), and set "
    f"{ROOT_VARIABLE} to "
    "its install prefix"
)

CROSS_COMPILER: Final = "arm-none-eabi-g++"
CROSS_COMPILER_PACKAGE: Final = "libstdc++-arm-none-eabi-newlib"

_TRACER_DEFINITION: Final = "ET_EVENT_TRACER_ENABLED"
_TRACED_NAME: Final = b"OPERATOR_CALL"
"""Name of the scope around every kernel; the compiler drops it if the tracer is disabled."""

_CORE_LIBRARY: Final = "libexecutorch_core.a"

_CMSIS_NN: Final = "libcmsis-nn.a"

_VERSION_FILE: Final = "version.txt"
"""File of ExecuTorch's checkout, beside or above the install prefix; the package exports none."""

_TOOL_LIMIT_S: Final = 30.0

_ARCHITECTURES: Final = (
    "v6S-M",
    "v7",
    "v7E-M",
    "v8-M.baseline",
    "v8-M.mainline",
    "v8.1-M.mainline",
)
"""Architectures as readelf names them; a core executes code for earlier ones."""

_CORES: Final = {
    "cortex-m0": ("v6S-M", False),
    "cortex-m3": ("v7", False),
    "cortex-m4": ("v7E-M", True),
    "cortex-m7": ("v7E-M", True),
    "cortex-m33": ("v8-M.mainline", True),
    "cortex-m55": ("v8.1-M.mainline", True),
}
"""Architecture of each core, and whether its firmware passes numbers in FPU registers."""


_VECTORS: Final = ("cortex-m55", "cortex-m85")
"""Cores with MVE."""


def find_executorch() -> Path | None:
    """Return the directory of the installed executorch package, or None; some boards link it."""
    spec = importlib.util.find_spec("executorch")
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


def has_cross_library() -> bool:
    """Return whether the C++ compiler for Cortex-M is installed with its standard library."""
    if shutil.which(CROSS_COMPILER) is None:
        return False
    done = run_program([CROSS_COMPILER, "-print-file-name=libstdc++.a"], _TOOL_LIMIT_S)
    return Path(done.stdout.decode(errors="replace").strip()).is_absolute()


def kernel_libraries(build: Build) -> tuple[str, ...]:
    """Return the kernel libraries to link: from the environment, else from the board file."""
    named = os.environ.get(KERNELS_VARIABLE)
    return build.kernels if named is None else tuple(re.findall(r"[^\s,;]+", named))


def needed_programs(board: Board) -> list[tuple[str, str | None, str]]:
    """Return name, path (None: not installed) and remedy of the compiler that ``board`` needs."""
    if board.links_installed_executorch:
        cxx = shutil.which(CROSS_COMPILER) if has_cross_library() else None
        return [(CROSS_COMPILER, cxx, f"apt-get install {CROSS_COMPILER_PACKAGE}")]
    return [(cxx_compiler(), shutil.which(cxx_compiler()), "apt-get install g++")]


def needed_package(board: Board) -> tuple[str, str | None, str]:
    """Return name, version (None: not installed) and remedy of the ExecuTorch of a board."""
    if board.links_installed_executorch:
        name, root = f"ExecuTorch for {board.cpu}", os.environ.get(ROOT_VARIABLE)
        if root and board.build is not None:
            try:
                _find_installed(board, board.build, root)
            except HarnessError as error:
                return name, None, f"{error.message}; {error.hint}"
        return name, f"in {root}" if root else None, INSTALLATION_REMEDY
    return "executorch", version("executorch") if find_executorch() else None, PACKAGE_REMEDY


def linked_executorch(board: Board, build: Build, sources: str) -> tuple[dict[str, str], str]:
    """Find the ExecuTorch for a board's firmware, and check that the firmware can use it.

    Args:
        board: The board.
        build: How its firmware is built.
        sources: The build id of the sources.

    Returns:
        CMake variables with the build id of the firmware, and a text that changes when the
        libraries do. The build id is that of the sources with the executorch package, whose version
        the firmware reports.

    Raises:
        UsageError: It or its compiler is not installed, it is built for another core or without
            the event tracer, or lacks a kernel library; the hint says how to get it.
    """
    if board.links_installed_executorch:
        return _installed(board, build, sources)
    package = find_executorch()
    if package is None:
        raise UsageError(
            f"board {board.name} needs the executorch package in this Python environment",
            hint=PACKAGE_REMEDY,
        )
    if shutil.which(cxx_compiler()) is None:
        raise UsageError(
            f"board {board.name} needs a C++ compiler: {cxx_compiler()} not found",
            hint="install it, on Debian or Ubuntu: apt-get install g++",
        )
    options = {"ETD_BUILD_ID": sources, "executorch_DIR": str(package / "share" / "cmake")}
    return options, str(package.stat().st_mtime_ns)


def _installed(board: Board, build: Build, sources: str) -> tuple[dict[str, str], str]:
    if not has_cross_library():
        raise UsageError(
            f"board {board.name} needs {CROSS_COMPILER} with the C++ standard library",
            hint=f"install it, on Debian or Ubuntu: apt-get install {CROSS_COMPILER_PACKAGE}",
        )
    named = os.environ.get(ROOT_VARIABLE)
    if not named:
        raise UsageError(
            f"board {board.name} links an ExecuTorch built for {board.cpu}: "
            f"{ROOT_VARIABLE} is not set",
            hint=INSTALLATION_REMEDY,
        )
    config, kernels = _find_installed(board, build, named)
    contents = hashlib.sha256()
    for archive in sorted(config.parents[2].glob("*.a")):
        contents.update(archive.name.encode() + b"\0" + archive.read_bytes())
    parts = (sources, contents.hexdigest(), ";".join(kernels))
    options = {
        "ETD_BUILD_ID": hashlib.sha256(str(parts).encode()).hexdigest()[:12],
        "executorch_DIR": str(config.parent),
        "ETD_KERNEL_LIBRARIES": ";".join(kernels),
        "ETD_EXECUTORCH_VERSION": _version(absolute(named)),
    }
    return options, contents.hexdigest()


def _find_installed(board: Board, build: Build, named: str) -> tuple[Path, tuple[str, ...]]:
    """Return the package file of an install prefix, and the kernel libraries to link.

    Raises:
        UsageError: It is incomplete, or the board's firmware cannot use it.
    """
    root = absolute(named)
    config = _find_config(root)
    libraries = config.parents[2]
    core = libraries / _CORE_LIBRARY
    if not core.is_file():
        raise UsageError(
            f"{ROOT_VARIABLE}={root} has no {_CORE_LIBRARY} in {libraries}: not an ExecuTorch "
            "built for bare metal, or its build has not finished",
            hint=INSTALLATION_REMEDY,
        )
    _check_core(core, board)
    _check_tracer(config.parent, core)
    kernels = kernel_libraries(build)
    _check_kernels(libraries, kernels)
    _check_vectors(libraries / _CMSIS_NN, board)
    return config, kernels


def _version(root: Path) -> str:
    """Return the version of the checkout that a prefix is in; "" if it is elsewhere."""
    for folder in (root, *root.parents[:2]):
        with suppress(OSError, UnicodeDecodeError):
            text = (folder / _VERSION_FILE).read_text().strip()
            if re.fullmatch(r"\d+(\.\d+)+\w*", text):
                return text
    return ""


def _find_config(root: Path) -> Path:
    """Return the file of the CMake package below an install prefix."""
    for config in sorted(root.glob("lib*/cmake/*/executorch-config.cmake")):
        return config
    raise UsageError(
        f"{ROOT_VARIABLE}={root} has no lib/cmake/ExecuTorch/executorch-config.cmake: "
        f"{'ExecuTorch is not installed there' if root.is_dir() else 'no such directory'}",
        hint="set it to the install prefix, after `cmake --build ... --target install`",
    )


def _check_core(library: Path, board: Board) -> None:
    """Refuse a library for a later architecture or with another calling convention."""
    text = _attributes(library)
    found = re.search(r"Tag_CPU_arch: (\S+)", text)
    known = _CORES.get(board.cpu)
    if known is None:
        return
    architecture, hard_float = known
    cpu = re.search(r'Tag_CPU_name: "([^"]+)"', text)
    built_for = cpu[1] if cpu else found[1] if found else "another processor"
    if (
        found is None
        or found[1] not in _ARCHITECTURES
        or _ARCHITECTURES.index(found[1]) > _ARCHITECTURES.index(architecture)
    ):
        problem = f"is built for {built_for}"
    elif ("Tag_ABI_VFP_args: VFP registers" in text) != hard_float:
        wanted, instead = ("hard", "soft") if hard_float else ("soft", "hard")
        problem = f"is built for {built_for} with -mfloat-abi={instead}, not {wanted}"
    else:
        return
    raise UsageError(
        f"{library} {problem}, and cannot be linked for board {board.name} ({board.cpu})",
        hint=INSTALLATION_REMEDY,
    )


def _check_vectors(library: Path, board: Board) -> None:
    """Refuse a CMSIS-NN without MVE for a core with it: models are exported for the core."""
    if board.cpu not in _VECTORS or not library.is_file() or "Tag_MVE_arch" in _attributes(library):
        return
    raise UsageError(
        f"{library} is built without MVE: models that are exported for {board.cpu} fail with it",
        hint=f"build ExecuTorch again with -DTARGET_CPU={board.cpu}, without `+nomve` "
        "(`etharness explain executorch`)",
    )


def _attributes(library: Path) -> str:
    """Return the build attributes of a library's objects."""
    try:
        done = run_program(["arm-none-eabi-readelf", "-A", str(library)], _TOOL_LIMIT_S)
    except OSError as error:
        raise InfrastructureError(
            f"cannot read {library}: {error}",
            hint="install arm-none-eabi-readelf, on Debian or Ubuntu: apt-get install "
            "binutils-arm-none-eabi",
        ) from error
    return done.stdout.decode(errors="replace")


def _check_tracer(package: Path, core: Path) -> None:
    """Refuse an ExecuTorch that calls no event tracer: runs would succeed, with an empty trace."""
    exported = (path.read_text(errors="replace") for path in package.glob("*.cmake"))
    if any(_TRACER_DEFINITION in text for text in exported) or _TRACED_NAME in core.read_bytes():
        return
    raise UsageError(
        f"{core} is built without the event tracer: {_TRACER_DEFINITION} is neither in the "
        f"definitions that {package} exports, nor does the library name its scopes",
        hint="build ExecuTorch again with -DEXECUTORCH_ENABLE_EVENT_TRACER=ON, or with its preset "
        "arm-baremetal with -DEXECUTORCH_BUILD_ARM_ETDUMP=ON (`etharness explain executorch`)",
    )


def _check_kernels(libraries: Path, names: Iterable[str]) -> None:
    """Refuse kernel libraries that are not installed."""
    for name in names:
        if not (libraries / f"lib{name}.a").is_file():
            there = sorted(path.stem[3:] for path in libraries.glob("lib*_lib.a"))
            raise UsageError(
                f"kernel library {name} not found: no lib{name}.a in {libraries}",
                hint=f"set {KERNELS_VARIABLE} to those to link, of {', '.join(there) or 'none'}; "
                "or build ExecuTorch with it (`etharness explain executorch`)",
            )
