"""Comparisons of any numbers: nothing crashes, and every figure can be written as JSON."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness import HistoryComparison, Measured, compare_with_history
from tests.support.histories import HistoryBuilder, history_checks, operator

TIMES = st.one_of(st.sampled_from([0.0, 1.0, 1000.0, 2000.0, 1e9]), st.floats(1e-3, 1e12))


@given(
    st.integers(1, 14),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([0.0, 1000.0]),
    st.data(),
)
def test_any_numbers_can_be_compared(
    nights: int, operators: int, repeats: int, tick: float, data: st.DataObject
) -> None:
    builder = HistoryBuilder()
    commits = st.sampled_from(["a", "b", "c", "d"])
    row = st.lists(TIMES, min_size=operators, max_size=operators)
    for place in range(nights):
        values = dict(zip(map(operator, range(operators)), data.draw(row), strict=True))
        builder.earlier(f"n{place}", data.draw(commits), values)
    for place in range(repeats):
        values = dict(zip(map(operator, range(operators)), data.draw(row), strict=True))
        session = data.draw(st.sampled_from([f"n{place}", f"now {place}"]))
        builder.now(session, "new", values)
    judged = [
        Measured(msgspec.structs.replace(one.provenance, ticks={"": tick}), one.samples)
        for one in builder.judged
    ]
    comparison = compare_with_history(builder.history(), judged)
    kept = msgspec.json.decode(msgspec.json.encode(comparison), type=HistoryComparison)
    assert len(kept.numbers) == operators
    for number in kept.numbers:
        assert number.q is None or 0 <= number.q <= 1
        assert number.detectable is None or 0 < number.detectable < math.inf
    for check in history_checks(comparison):
        assert "nan" not in check.reason
    assert np.isfinite(kept.detectable_median or 0.0)
