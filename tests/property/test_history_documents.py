"""A comparison in JSON says what was found, also where nothing is known of a bound."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harness import Interval

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite | st.just(-math.inf), finite | st.just(math.inf))
def test_an_interval_is_read_back(value: float, low: float, high: float) -> None:
    interval = Interval(value, low, high)
    assert (interval.low, interval.high) == (low, high)
    document = msgspec.json.encode(interval)
    assert msgspec.json.decode(document, type=Interval) == interval
    plain = msgspec.json.decode(document)
    assert plain == {
        "value": value,
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
    }
