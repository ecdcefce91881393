"""A clock of the native board that the host's load does not change.

The native board is a process of this host, which other processes interrupt. Where a test's subject
is not the time, but a verdict that rests on it, as that of a comparison with earlier results, its
runs use this clock: between two readings passes the same time, give or take a few percent.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")
STEP_VARIABLE = "STEADY_CLOCK_NS"
"""Environment variable: time between two readings, ns."""


def build_steady_clock(folder: Path) -> Path:
    """Compile the library that is preloaded into the native firmware."""
    library = folder / f"steady_clock.{os.getpid()}.so"
    compiler = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-Wl,-z,now"]
    subprocess.run([*compiler, SOURCE, "-o", library, "-ldl"], check=True)
    return library


@contextmanager
def preloaded(library: Path, step_ns: int = 1000) -> Iterator[pytest.MonkeyPatch]:
    """Have native boards that are started within use the clock; other programs ignore it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv(STEP_VARIABLE, str(step_ns))
        yield patch
