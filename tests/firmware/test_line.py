"""Host and device on a line in virtual time: how full they keep it, and what damage costs.

Damage is drawn from one seed; from four with ``ETHARNESS_EVERY_SEED=1``, as `make measure` does.
"""

from __future__ import annotations

import ctypes as ct
import os

import pytest

from tests.support.examples import sampled
from tests.support.line import Wire
from tests.support.transfers import BAUDS, transfer

SEEDS = 4 if "ETHARNESS_EVERY_SEED" in os.environ else 1


@pytest.mark.parametrize("latency_s", [0.001, 0.016])
@pytest.mark.parametrize("baud", sampled(BAUDS, 921_600))
def test_both_directions_keep_the_line_full(etstub: ct.CDLL, baud: int, latency_s: float) -> None:
    done = transfer(etstub, Wire(baud, latency_s))
    assert 0.97 * done.up <= done.allowed_up <= done.up
    assert 0.97 * done.down <= done.allowed_down <= done.down
    assert done.device.overrun == 0
    assert done.session.statistics.loss == 0


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("baud", sampled(BAUDS, 921_600))
def test_damage_to_one_frame_in_a_hundred_costs_at_most_five_percent(
    etstub: ct.CDLL, baud: int, seed: int
) -> None:
    clean = transfer(etstub, Wire(baud, 0.016))
    done = transfer(etstub, Wire(baud, 0.016, damaged=0.01, seed=seed))
    assert done.device.damaged > 10
    assert done.up <= 1.05 * clean.up
    assert done.down / len(done.trace) <= 1.05 * clean.down / len(clean.trace)


@pytest.mark.parametrize("ring", [32, 64])
@pytest.mark.long
def test_a_ring_for_one_request_is_enough(etstub: ct.CDLL, ring: int) -> None:
    """Its answer takes the time of 19 bytes, and a part of a download that of a thousand."""
    done = transfer(etstub, Wire(921_600, 0.001, ring=ring))
    assert done.up <= 2 * done.allowed_up
    assert done.down <= 2 * done.allowed_down
    assert done.device.overrun == 0
