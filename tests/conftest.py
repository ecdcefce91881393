"""Builds what tests share: the firmware as a shared library, and a way to call the command line."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from harness.cli import main
from harness.target.build import build_directory, build_preset
from tests.support.counting import pytest_runtest_protocol
from tests.support.examples import pytest_collection_modifyitems
from tests.support.mirrors import load_library
from tests.support.steady_clock import build_steady_clock, preloaded
from tests.support.stores import empty_url, postgresql, store_url, templates

# Hooks, and fixtures with one server for all.
__all__ = [
    "empty_url",
    "postgresql",
    "pytest_collection_modifyitems",
    "pytest_runtest_protocol",
    "store_url",
    "templates",
]

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests/fixtures"
MODELS = ROOT / "firmware_stub/models"
BOARDS = sorted(path.stem for path in (ROOT / "boards").glob("*.toml"))
# A busy machine makes no test fail: an example may take as long as the test, which pytest limits.
# CI draws the same examples in every run, so that its failures can be repeated. New ones are found
# by `make test` and by `make nightly-tests`, which draws ten times as many as CI. `test-fast` draws
# few.
settings.register_profile("fast", deadline=None, derandomize=False, max_examples=10)
settings.register_profile("dev", deadline=None, derandomize=False, max_examples=50)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "nightly", deadline=None, derandomize=False, max_examples=1000, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
# A shell that runs the tests in the background has them, and what they start, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
NATIVE_PRESET = os.environ.get("ETHARNESS_NATIVE_PRESET", "native")
"""How the device's code is built for this host; ``coverage`` counts the lines it executes."""


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder of this session that all workers of pytest-xdist share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session", autouse=True)
def kept_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs keep their models in a folder of this session, and not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETHARNESS_BASELINE_DIR", str(tmp_path_factory.mktemp("models")))
        yield


@pytest.fixture(scope="session")
def native_build() -> Path:
    """The folder in which the device's code is built for this host."""
    source = ROOT / "firmware_stub"
    directory = build_directory(source, NATIVE_PRESET)
    build_preset(source, NATIVE_PRESET, directory, {})
    return directory


@pytest.fixture(scope="session")
def etstub(native_build: Path) -> ctypes.CDLL:
    """The device's code, built for this host and loaded into this process."""
    return load_library(native_build / "libetstub.so")


@pytest.fixture(scope="session")
def steady_library(shared: Path) -> Path:
    """A library with a clock for the native board that the host's load does not change."""
    return build_steady_clock(shared)


@pytest.fixture
def steady_clock(steady_library: Path) -> Iterator[pytest.MonkeyPatch]:
    """Native boards of a test have that clock; sets environment variables until its end."""
    with preloaded(steady_library) as patch:
        yield patch


@pytest.fixture(scope="module")
def steady_clocks(steady_library: Path) -> Iterator[None]:
    """Native boards of a module have that clock, also those of its own fixtures."""
    with preloaded(steady_library):
        yield


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def etharness(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Call the command line in this process: ``etharness("run", "--board", "native")``."""

    def call(*arguments: str | os.PathLike[str]) -> CommandResult:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([os.fspath(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return CommandResult(int(exit_.value.code or 0), out, err)

    return call
