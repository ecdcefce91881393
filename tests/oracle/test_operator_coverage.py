"""ExecuTorch's operators against ours: a new release shows here what it brings."""

from __future__ import annotations

import ctypes as ct
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import executorch
import yaml

from benchmarks.operators import ABSENT, BEYOND, EXECUTORCH
from tests.firmware.test_registry import names

pytestmark = pytest.mark.oracle
PACKAGE = Path(next(iter(executorch.__path__)))
LISTS = [
    "kernels/portable/functions.yaml",
    "kernels/portable/custom_ops.yaml",
    "kernels/portable/et_copy_ops.yaml",
    "kernels/quantized/quantized.yaml",
    "backends/cortex_m/ops/operators.yaml",
]


def listed(path: Path) -> Iterator[str]:
    """Operators of one of ExecuTorch's lists of kernels."""
    for entry in yaml.safe_load(path.read_text()):
        name = entry.get("op") or re.split(r"[(]", entry["func"])[0]
        yield name if "::" in name else f"aten::{name}"


@pytest.fixture(scope="module")
def available() -> set[str]:
    """Operators of ExecuTorch's lists and of its runtime, which alone knows the primitive ones."""
    from executorch.extension.pybindings import portable_lib

    lists = {name for path in LISTS for name in listed(PACKAGE / path)}
    return lists | set(portable_lib._get_operator_names())


def test_the_release_is_the_stated_one() -> None:
    assert version("executorch") == EXECUTORCH


def test_absent_operators_are_the_stated_ones(etstub: ct.CDLL, available: set[str]) -> None:
    stated = {name for group in ABSENT.values() for name in group}
    assert available - set(names(etstub)) == stated


def test_operators_beyond_executorch_are_the_stated_ones(
    etstub: ct.CDLL, available: set[str]
) -> None:
    assert set(names(etstub)) - available == set(BEYOND)
