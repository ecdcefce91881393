"""Builds the firmware of a board with CMake, outside the source tree, in the user's cache.

A build directory there is used by one build at a time; those that were not used for longest are
deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final, Protocol

from filelock import FileLock, Timeout

from harness.config.board import Board, Build, Capacity, RtlTarget, SerialTarget
from harness.errors import InfrastructureError, UsageError
from harness.files import absolute, data_directory, user_cache, write_atomic
from harness.plugins import TARGETS, load_extension
from harness.records.result import FirmwareSize
from harness.target.process_group import run_program, with_death_signal

PLACED_TARGET: Final = "placed_firmware"
"""CMake target of firmware with a model in its image."""

_KEPT_IMAGES: Final = 16
"""Images with a placed model in one build directory; older ones are deleted."""

ROOMS = (
    "tracer",
    "counters",
    "etdump",
    "link",
    "serial",
    "postmortem",
    "server",
    "runtime",
    "kernels",
    "delegates",
)
"""Folders of ``firmware_stub/src``, in the order of their dependencies."""


_TOOL_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model to place in the image.

    Attributes:
        name: Its file name.
        data: The ``.pte`` file.
        capacity: Sizes of the buffers of the firmware, which needs none for this model.
    """

    name: str
    data: bytes
    capacity: Capacity

    def build_id(self, sources: str) -> str:
        """Return the build id of the image, 12 hex digits; ``sources`` is that of the sources."""
        parts = (sources, self.name, self.capacity, hashlib.sha256(self.data).hexdigest())
        return hashlib.sha256(str(parts).encode()).hexdigest()[:12]

    def options(self, sources: str, file: Path) -> dict[str, str]:
        """Write the model to ``file``, and return CMake variables for an image with it.

        A copy, because the original may change or disappear, and its path may need quoting.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, self.data)
        sizes = {
            "ETD_MODEL_CAPACITY": self.capacity.model,
            "ETD_ARENA_CAPACITY": self.capacity.arena,
            "ETD_INPUT_CAPACITY": self.capacity.inputs,
        }
        return {
            "ETD_PLACED_MODEL": str(file),
            "ETD_PLACED_NAME": re.sub(r"[^A-Za-z0-9._-]", "_", self.name),
            "ETD_PLACED_BUILD_ID": self.build_id(sources),
            "ETD_PLACED_CAPACITIES": ";".join(f"{name}={size}" for name, size in sizes.items()),
        }


@dataclass(frozen=True, slots=True)
class Firmware:
    """A built image.

    Attributes:
        image: The executable.
        build_id: The build id that it reports in HELLO.
        directory: CMake's build directory.
        preset: The CMake preset it was built with.
        placed: The model in the image; None without.
        simulator: The simulator of the board's core, for boards of RTL; else None.
    """

    image: Path
    build_id: str
    directory: Path
    preset: str
    placed: PlacedModel | None = None
    simulator: Path | None = None


def source_digest(source: Path, port: str = "") -> str:
    """Return 12 hex digits that change with any source file of the firmware and of its own port.

    Simulators of RTL boards are built apart, so their sources do not count. Nor does what Python
    keeps beside a script that it has run.
    """
    digest = hashlib.sha256()
    for root in (source, Path(port)) if port else (source,):
        for path in sorted(root.rglob("*")):
            relative = path.relative_to(root).as_posix()
            counts = not relative.startswith(("build/", "models/", "rtl/"))
            if counts and path.is_file() and path.parent.name != "__pycache__":
                digest.update(relative.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def build_directory(source: Path, preset: str, port: str = "") -> Path:
    """Return the build directory of a preset of ``source`` and a port, in `build_root`.

    CMake ties a build directory to one source directory, and a machine may have several copies of
    the project, so the name ends in eight hex digits of a hash of the source path.
    """
    digest = hashlib.sha256(f"{source.resolve()}{port}".encode()).hexdigest()[:8]
    return build_root() / f"{preset}-{digest}"


class TargetExtension(Protocol):
    """An extension that some boards need; a plugin of ``etharness.targets``."""

    def needed_programs(self, board: Board) -> list[tuple[str, str | None, str]]:
        """Return name, path (None: not installed) and remedy of the programs that it needs."""

    def needed_package(self, board: Board) -> tuple[str, str | None, str]:
        """Return name, version (None: not installed) and remedy of the package that it needs."""


class Executorch(TargetExtension, Protocol):
    """What the extension ``executorch`` does: the plugin ``executorch``."""

    def linked_executorch(
        self, board: Board, build: Build, sources: str
    ) -> tuple[dict[str, str], str]:
        """Return CMake variables with the build id, and a text that changes with the libraries."""


def build_firmware(
    board: Board,
    placed: PlacedModel | None = None,
    stages: Callable[[str, int, int], None] = lambda *_: None,
) -> Firmware:
    """Build a board's firmware, and the simulator of a board of RTL, or update an earlier build.

    A complete build of the same sources with the same options is reused without starting CMake,
    which needs seconds to find that nothing has changed. An image with a model shares the objects
    of the one without.

    Args:
        board: The board type.
        placed: The model to place in the image; None for none.
        stages: Called to report progress.

    Raises:
        UsageError: The board has no build settings, a build tool is missing (the hint names the
            package), the sources do not compile (the message has the end of the output), or the
            extension for boards of RTL is missing.
        InfrastructureError: The build timed out, or waiting for another build of the board did.
    """
    if not isinstance(board.target, SerialTarget):
        require_linux_host(board)
    stages("building the firmware", 0, 0)
    if not isinstance(board.target, RtlTarget):
        return _build_image(board, placed)
    simulators = load_extension(TARGETS, "rtl", f"board {board.name}: RTL boards are", "simulators")
    firmware: Firmware = simulators.build(board, placed, _build_image, stages)
    return firmware


def require_linux(feature: str, hint: str) -> None:
    """Do nothing on Linux.

    Args:
        feature: The feature that needs it; begins the error message.
        hint: What to use instead.

    Raises:
        UsageError: This is another operating system.
    """
    system = platform.system()
    if system != "Linux":
        raise UsageError(f"{feature} needs Linux, and this is {system or 'unknown'}", hint=hint)


def require_linux_host(board: Board) -> None:
    """Check the operating system, for a board that this host runs: native, QEMU, RTL.

    Raises:
        UsageError: This is not Linux.
    """
    require_linux(
        f"board {board.name}, which runs on this host,",
        "use Linux, such as WSL or a container; real boards work on every system: "
        "`etharness boards` lists them",
    )


def _build_image(board: Board, placed: PlacedModel | None) -> Firmware:
    build = _recipe(board)
    source = data_directory("firmware_stub")
    directory = build_directory(source, build.preset, build.port)
    sources = build_id = source_digest(source, build.port)
    options = {"ETD_BUILD_ID": build_id}
    if build.port:
        options |= {"ETD_PORT_DIR": build.port, "ETD_BOARD": board.name}
    make = partial(_build, _require_tools(build.preset), source, build.preset, directory)
    wanted = str(options)
    if build.executorch:
        executorch: Executorch = load_extension(
            *(TARGETS, "executorch", f"board {board.name}: firmware with ExecuTorch is"),
            "executorch",
        )
        options, stamp = executorch.linked_executorch(board, build, sources)
        build_id = options["ETD_BUILD_ID"]
        wanted = f"{options} {sources} {stamp}"
    image, built = directory / build.image, directory / BUILT
    with alone_in(directory, repr(build.preset)):
        if placed is not None:
            image = _build_placed(make, directory, options, placed)
            return Firmware(image, placed.build_id(build_id), directory, build.preset, placed)
        if not (image.exists() and built.exists() and built.read_text() == wanted):
            built.unlink(missing_ok=True)
            make(options)
            built.write_text(wanted)
    return Firmware(image, build_id, directory, build.preset)


def _build_placed(
    make: Callable[..., None], directory: Path, options: dict[str, str], placed: PlacedModel
) -> Path:
    """Build firmware with a model; the directory keeps the newest of these images."""
    sources = options["ETD_BUILD_ID"]
    build_id = placed.build_id(sources)
    image = directory / f"{PLACED_TARGET}-{build_id}"
    if not image.exists():
        options = {**options, **placed.options(sources, directory / "placed_model.pte")}
        make(options, PLACED_TARGET)
        part = directory / f"{build_id}.part"
        shutil.copy2(directory / PLACED_TARGET, part)
        part.replace(image)
        images = directory.glob(f"{PLACED_TARGET}-*")
        for old in sorted(images, key=lambda path: path.stat().st_mtime)[:-_KEPT_IMAGES]:
            old.unlink(missing_ok=True)
    return image


def built_firmware(
    board: Board, digest: Callable[[Path, str], str] = source_digest
) -> Firmware | None:
    """Return the firmware if it is built from the current sources, else None; builds nothing.

    ``digest`` is ``source_digest``, or remembers what that returned.
    """
    build = _recipe(board)
    source = data_directory("firmware_stub")
    directory = build_directory(source, build.preset, build.port)
    image, built = directory / build.image, directory / BUILT
    if not (image.is_file() and built.is_file()):
        return None
    text = built.read_text()
    build_id = re.search(r"'ETD_BUILD_ID': '([^']+)'", text)
    if build_id is None or digest(source, build.port) not in text:
        return None
    return Firmware(image, build_id[1], directory, build.preset)


def built_image(board: Board, build_id: str) -> Path | None:
    """Return the image of a board that has this build id; None unless it is kept."""
    firmware = built_firmware(board)
    if firmware is not None and firmware.build_id == build_id:
        return firmware.image
    return placed_image(board, build_id)


def placed_image(board: Board, build_id: str) -> Path | None:
    """Return the image with a placed model that has this build id; None unless it is kept."""
    build = _recipe(board)
    directory = build_directory(data_directory("firmware_stub"), build.preset, build.port)
    images = directory.glob(f"{PLACED_TARGET}-*")
    return next((image for image in images if image.name.endswith(f"-{build_id}")), None)


def build_preset(
    source: Path, preset: str, directory: Path, options: dict[str, str], target: str = "all"
) -> None:
    """Configure and build one CMake preset of ``source`` in ``directory``.

    Raises:
        UsageError: CMake or the compiler is missing, or configuring or compiling failed.
        InfrastructureError: The build timed out, or waiting for another build there did.
    """
    cmake = _require_tools(preset)
    with alone_in(directory, repr(preset)):
        _build(cmake, source, preset, directory, options, target)


def _build(
    cmake: str,
    source: Path,
    preset: str,
    directory: Path,
    options: dict[str, str],
    target: str = "all",
) -> None:
    definitions = [f"-D{key}={value}" for key, value in options.items()]
    configure = [cmake, "--preset", preset, "-B", str(directory), *definitions]
    build = [cmake, "--build", str(directory), "--target", target]
    with building_in(directory):
        run_build_step(configure, source, repr(preset))
        run_build_step([*build, "--parallel", str(os.cpu_count() or 1)], source, repr(preset))


def find_cmake() -> str | None:
    """Return the path of CMake: from ``$PATH``, or installed by pip beside this Python."""
    beside_python = Path(sys.executable).parent / "cmake"
    return shutil.which("cmake") or (str(beside_python) if beside_python.exists() else None)


def cxx_compiler() -> str:
    """Return the C++ compiler of this host, which some extensions need."""
    return os.environ.get("CXX") or "c++"


def compiler_for(preset: str) -> tuple[str, str]:
    """Return the compiler of a preset and the Debian packages that contain it."""
    if preset in ("fuzz", "native-clang"):
        return "clang", "clang"
    if preset == "coverage":
        return "gcc", "gcc"
    if preset.startswith("native"):
        return os.environ.get("CC") or "cc", "gcc"
    if "-riscv" in preset or preset.startswith("rtl-"):
        return "riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
    return "arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi"


def _recipe(board: Board) -> Build:
    if board.runner:
        raise UsageError(
            f"board {board.name} has an image that nobody here builds",
            hint="nothing has to be built; `etharness doctor` says what to install",
        )
    if board.build is None:
        raise UsageError(
            f"board {board.name} has no build settings for its firmware",
            hint="build it with the chip vendor's tools (`etharness explain boards`), and use "
            "--image",
        )
    return board.build


def _require_tools(preset: str) -> str:
    cmake = find_cmake()
    if cmake is None:
        raise UsageError(
            "cmake is not installed", hint="pip install 'etdump-harness[build]' or install cmake"
        )
    compiler, packages = compiler_for(preset)
    if shutil.which(compiler) is None:
        raise UsageError(
            f"no compiler for preset {preset!r}: {compiler} not found",
            hint=f"install it, on Debian or Ubuntu: apt-get install {packages}",
        )
    return cmake


def firmware_sizes(firmware: Firmware) -> Iterator[FirmwareSize]:
    """Yield the size of each folder (the sum of its unlinked objects), then of the image.

    The linker drops unused functions, and adds the port, libc and libm.

    Raises:
        InfrastructureError: The toolchain's ``size`` failed.
    """
    for room, folder in [*((room, f"src/{room}") for room in ROOMS), ("executorch", "executorch")]:
        compiled = firmware.directory / "CMakeFiles/rooms.dir" / folder
        # Objects of sources that were renamed or removed since stay in the build directory.
        sources = data_directory("firmware_stub") / folder
        objects = [
            path
            for path in sorted(compiled.rglob("*.o*"))
            if path.suffix in (".o", ".obj")
            and (sources / path.relative_to(compiled).with_suffix("")).is_file()
        ]
        if objects:
            yield _measure(room, firmware.preset, objects)
    yield image_size(firmware)


def image_size(firmware: Firmware) -> FirmwareSize:
    """Return the size of the linked image; it is measured once and kept beside the image.

    Raises:
        InfrastructureError: The toolchain's ``size`` failed.
    """
    image = firmware.image
    kept = image.with_name(f".{image.name}.size")
    with suppress(OSError, ValueError):
        if kept.stat().st_mtime_ns >= image.stat().st_mtime_ns:
            text, data, bss = map(int, kept.read_text().split())
            return FirmwareSize("image", text, data, bss)
    size = _measure("image", firmware.preset, [image])
    with suppress(OSError):  # of a cache that others own
        write_atomic(kept, f"{size.text} {size.data} {size.bss}\n".encode())
    return size


def code_sizes(boards: Sequence[Board]) -> list[int | None]:
    """Return the code and constants of each board's firmware, bytes; None if it is not built."""
    digest = cache(source_digest)  # of the same sources for all boards
    return [_code_size(board, digest) for board in boards]


def _code_size(board: Board, digest: Callable[[Path, str], str]) -> int | None:
    if board.build is None:
        return None
    firmware = built_firmware(board, digest)
    if firmware is None:
        return None
    try:
        size = image_size(firmware)
    except InfrastructureError:  # no toolchain any more
        return None
    return size.text + size.data


def _measure(part: str, preset: str, files: Sequence[Path]) -> FirmwareSize:
    """Return the sums of text, data and bss, as printed by the toolchain's ``size``."""
    compiler, _ = compiler_for(preset)
    program = f"{compiler.removesuffix('gcc') if compiler.endswith('-gcc') else ''}size"
    command = [program, *map(str, files)]
    try:
        done = run_program(command, _TOOL_LIMIT_S)
    except OSError as error:
        raise InfrastructureError(f"cannot measure the firmware: {error}") from error
    if done.code != 0:
        raise InfrastructureError(f"cannot measure the firmware: {program} {done.how}")
    lines = done.stdout.decode(errors="replace").splitlines()
    rows = [[int(cell) for cell in line.split()[:3]] for line in lines[1:]]
    return FirmwareSize(part, *(sum(column) for column in zip(*rows, strict=True)))


_log = logging.getLogger(__name__)

BUILT: Final = "etharness-built"
"""File in a build directory with the options of the last complete build."""

MOST_CACHE: Final = 10 << 30
"""Size of all build directories above which the longest unused are removed, bytes."""

UNUSED_S: Final = 3600.0
"""A directory that was used so recently is kept: what was built there may be about to start."""

_UNDER_WAY: Final = "etharness-building"
"""File in a build directory while programs write there; it stays if they are killed."""

_BUILD_LIMIT_S: Final = 1800.0
"""What takes longer hangs: a build that takes a minute takes ten on a host with many others."""


def build_root() -> Path:
    """Return the root of build directories: ``$ETHARNESS_BUILD_DIR``, or in the user's cache."""
    if configured := os.environ.get("ETHARNESS_BUILD_DIR"):
        return absolute(configured)  # CMake runs in the source directory
    return user_cache("build")


@contextmanager
def alone_in(directory: Path, what: str) -> Iterator[None]:
    """Lock ``directory`` against builds of other processes; wait for one in progress.

    A directory in which a build was cut off is removed: a compiler that was killed leaves a half
    object file, which Make takes for a new one.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory.with_name(f"{directory.name}.lock"), timeout=_BUILD_LIMIT_S)
    try:
        lock.acquire()
    except Timeout as error:
        raise InfrastructureError(
            f"another process has been building {what} in {directory} for {_BUILD_LIMIT_S:.0f} s",
            hint=f"end that process, which holds {lock.lock_file}, or set ETHARNESS_BUILD_DIR",
        ) from error
    try:
        os.utime(lock.lock_file)  # by which `_trim` knows when the directory was last used
        if (directory / _UNDER_WAY).exists():
            shutil.rmtree(directory)
        yield
    finally:
        lock.release()


@contextmanager
def building_in(directory: Path) -> Iterator[None]:
    """Mark a locked directory while programs write there, for `alone_in` of the next build."""
    directory.mkdir(parents=True, exist_ok=True)
    mark = directory / _UNDER_WAY
    mark.touch()
    try:
        yield
    except UsageError:
        mark.unlink()  # the programs have ended by themselves
        raise
    mark.unlink()
    _trim(directory.parent)


def _trim(root: Path) -> None:
    """Remove the build directories that were not used for longest, until the others fit.

    A directory is kept if a process has locked it, or used it within the last hour.
    """
    directories = []
    for lock in root.glob("*.lock"):
        directory = lock.with_suffix("")
        with suppress(OSError):  # another process removes it
            if directory.is_dir():
                directories.append((lock.stat().st_mtime, directory, _size_of(directory)))
    total = sum(size for *_, size in directories)
    for used, directory, size in sorted(directories):
        if total <= MOST_CACHE or time.time() - used < UNUSED_S:
            return
        with suppress(Timeout), FileLock(f"{directory}.lock", timeout=0):
            shutil.rmtree(directory, ignore_errors=True)
            total -= size
            _log.info("removed the build directory %s, unused for longest", directory)


def _size_of(directory: Path) -> int:
    """Return the bytes of all files in a directory."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{folder}/{name}").st_size
    return total


def run_build_step(command: list[str], cwd: Path, what: str) -> None:
    """Run one program of a build in ``cwd``; ``what`` is built.

    Raises:
        UsageError: It failed, and the message has the end of its output; or it does not exist.
        InfrastructureError: It timed out, was killed, or cannot be started.
    """
    try:
        done = run_program(with_death_signal(command), _BUILD_LIMIT_S, cwd=cwd)
    except FileNotFoundError as error:
        raise UsageError(f"cannot start {command[0]}: {error.strerror}") from error
    except OSError as error:
        raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from error
    if done.code is None:
        raise InfrastructureError(
            f"building {what} timed out after {_BUILD_LIMIT_S:.0f} s{done.remains}",
            hint="try again when the machine is less busy",
        )
    if done.code < 0:
        raise InfrastructureError(
            f"building {what} failed: {command[0]} {done.how}{done.remains}",
            hint="try again; the host may have run out of memory",
        )
    if done.code != 0:
        tail = "\n".join(done.output.strip().splitlines()[-20:])
        raise UsageError(f"building {what} failed: {' '.join(command)}\n{tail}")
