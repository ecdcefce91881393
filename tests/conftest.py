"""Builds what tests share: the firmware as a shared library and as boards, once per session."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from harness.resources import data_directory
from harness.target.build import build_preset, build_root

FIXTURES = Path(__file__).parent / "fixtures"
MODELS = data_directory("firmware_stub") / "models"


@pytest.fixture(scope="session")
def etstub() -> ctypes.CDLL:
    """The device's code, built for this host and loaded into this process."""
    directory = build_root() / "native"
    build_preset(data_directory("firmware_stub"), "native", directory, {})
    return ctypes.CDLL(str(directory / "libetstub.so"))
