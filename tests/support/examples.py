"""How much of a long test runs, by what runs it: examples and parameters.

The profile (tests/conftest.py) says how many examples a property test draws. Tests with the mark
``long`` are left out by `make test`. Of each four of them CI runs one, always the same, and
`.ci/nightly` all: ``ETHARNESS_LONG`` is the part to run.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings

_OF_DEFAULT = 100
"""Examples of a test that asks for no number, in the profile by which others are scaled."""

_FEWEST = 10


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests with the mark ``long``, but for the part of them that is to run."""
    part = Fraction(os.environ.get("ETHARNESS_LONG", "1"))
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if _runs(item, part) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _runs(item: pytest.Item, part: Fraction) -> bool:
    if item.get_closest_marker("long") is None:
        return True
    return zlib.crc32(item.nodeid.encode()) % part.denominator < part.numerator


def examples(count: int) -> int:
    """The number for the profile in use, where ``count`` is for one with 100 examples.

    Tests that ask for few do so because each example is expensive: they are not scaled down.
    """
    return max(min(count, _FEWEST), count * settings().max_examples // _OF_DEFAULT)


def sampled(parameters: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of a test; those that are not ``kept`` have the mark ``long``."""
    return [
        parameter if parameter in kept else pytest.param(parameter, marks=pytest.mark.long)
        for parameter in parameters
    ]
