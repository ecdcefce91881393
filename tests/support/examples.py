"""How much of a long test runs, by what runs it: examples and parameters.

The profile (tests/conftest.py) says how many examples a property test draws. Tests with the mark
``long`` are left out by `make test`; CI runs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

_OF_DEFAULT = 100
"""Examples of a test that asks for no number, in the profile by which others are scaled."""

_FEWEST = 10


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
