"""Whose lines are counted: those of tests that try something once.

Counting makes Python take half as long again. Where a test takes the same lines a thousand times,
or starts fifty processes, it costs minutes and tells of few lines that others do not execute.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
UNCOUNTED_ROOMS = frozenset({"firmware", "property"})
FOR_CHILDREN = "COVERAGE_PROCESS_CONFIG"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test that is not counted, and what it starts, without counting."""
    # Where nothing has imported it nothing is counted, and it may not be there.
    coverage = sys.modules.get("coverage")
    counting = coverage.Coverage.current() if coverage else None
    room = item.path.relative_to(TESTS).parts[0]
    if counting is None or not (room in UNCOUNTED_ROOMS or item.get_closest_marker("uncounted")):
        return (yield)
    counting.stop()
    config = os.environ.pop(FOR_CHILDREN, None)
    try:
        return (yield)
    finally:
        if config is not None:
            os.environ[FOR_CHILDREN] = config
        counting.start()
