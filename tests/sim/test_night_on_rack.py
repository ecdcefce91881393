"""A small night on a rack of simulated boards: every failure once, killed and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rack import Fault
from tests.support.rack.whole import Disturbance, Setting, whole_night

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

SEED = 11
FAULTS = (
    *("u02:1:old-firmware", "u02:2:unflashable"),
    *("u03:1:unplugged", "u03:3:gone"),
    *("u04:1:full-disk", "u04:3:crashes"),
    *("u05:1:hang", "u05:2:dead"),
    *("u06:1:crash", "u06:2:garbage"),
    "u07:2:other-board",
)
"""Those that last come last on each unit; u01 is somebody else's all night. Of faults that pass,
which test_rack.py makes one by one, there is none here.
"""
DISTURBANCES = (
    (0.1, Disturbance.CLOCK_FORWARD),
    (0.2, Disturbance.KILLED),
    (0.4, Disturbance.CLOCK_BACK),
    (0.6, Disturbance.STORE_BUSY),
)


@pytest.mark.long
def test_nothing_is_lost_told_twice_held_or_blamed_on_others(tmp_path: Path) -> None:
    """One test, since workers that share tests out would each have a night for theirs."""
    setting = Setting(
        seed=SEED,
        units=7,
        repeats=2,
        models=("small_int8",),
        faults=[Fault.parse(text) for text in FAULTS],
        disturbances=DISTURBANCES,
        long=1,
        retries=1,
        patience=2,
    )
    told = whole_night(tmp_path / "rack", setting)
    assert {row.kind for row in told.rows} == {fault.kind for fault in setting.faults}, told.said
    assert {row.kind: row.elsewhere for row in told.rows if row.elsewhere} == {}, told.said
    assert told.wrong == [], told.said
    assert told.codes[0] == -9
    assert told.codes[-1] > 0, "the exit code is that of the worst failure"
    assert all(told.disturbed[kind] for _, kind in DISTURBANCES)
    assert told.not_leased == ["u01"]
    assert told.counts["host"] >= 2
