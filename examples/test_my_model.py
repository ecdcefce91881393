"""Tests: a model on a board, and code of your own against traces that nobody has thought of.

Run it with `pytest examples/test_my_model.py`; needs `pip install 'etdump-harness[testing]'`.
"""

import pytest
from hypothesis import given, settings

from harness import operator_statistics
from harness.pytest_plugin import ms
from harness.strategies import executions


@pytest.mark.etharness(board="native", model="kws_int8", runs=3)
def test_kws_is_fast_enough(etharness_run):
    assert etharness_run.check()
    assert etharness_run.slowest("native_call_*conv*").p50 < 900 * ms
    assert etharness_run.allocator("planned_1").peak_bytes <= 16_000


@settings(max_examples=20, deadline=None)
@given(executions(runs=2))
def test_statistics_count_every_repeat(execution):
    for operator in operator_statistics(execution.trace):
        assert operator.times is None or operator.times.count <= len(operator.rows)
