"""How many examples a property test draws, by the profile that runs it (tests/conftest.py)."""

from __future__ import annotations

from hypothesis import settings

_OF_DEFAULT = 100
"""Examples of a test that asks for no number, in the profile by which others are scaled."""

_FEWEST = 10


def examples(count: int) -> int:
    """The number for the profile in use, where ``count`` is for one with 100 examples.

    Tests that ask for few do so because each example is expensive: they are not scaled down.
    """
    return max(min(count, _FEWEST), count * settings().max_examples // _OF_DEFAULT)
