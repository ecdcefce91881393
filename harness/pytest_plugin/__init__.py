"""The pytest plugin: tests that run models on boards and assert on the results (docs/pytest.md).

Every pytest of its environment loads it, so it imports only pytest and the standard library; the
first test that requests a fixture imports the rest.

Example:
    >>> import pytest
    >>> from harness.pytest_plugin import us
    >>> @pytest.mark.etharness(board="qemu-mps2-an385", model="kws_int8.pte", runs=5)
    ... def test_kws(etharness_run):
    ...     etharness_run.check(budget="budget.toml")
    ...     assert etharness_run.slowest("native_call_*conv*").p50 < 9_000 * us
"""

from harness.durations import Duration, ms, ns, s, us
from harness.pytest_plugin.fixtures import (
    _etharness_case,
    _etharness_runs,
    etharness_board,
    etharness_profile,
    etharness_run,
    etharness_session,
    etharness_trace,
    etharness_unit,
)
from harness.pytest_plugin.hooks import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_generate_tests,
    pytest_report_header,
    pytest_runtest_makereport,
)

__all__ = [
    "Duration",
    "_etharness_case",
    "_etharness_runs",
    "etharness_board",
    "etharness_profile",
    "etharness_run",
    "etharness_session",
    "etharness_trace",
    "etharness_unit",
    "ms",
    "ns",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "s",
    "us",
]
