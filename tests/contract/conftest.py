"""Fixtures of the contract suite; skips contracts of an extension whose folder has been deleted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.contract.native_device import build_native


@pytest.fixture(scope="session")
def native_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of the native firmware."""
    return build_native(tmp_path_factory.mktemp("native"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of an extension that is not there (tests/packaging/test_extensions.py)."""
    for mark in item.iter_markers("extension"):
        if find_spec(f"harness.extensions.{mark.args[0]}") is None:
            pytest.skip(f"the extension {mark.args[0]} has been deleted")
