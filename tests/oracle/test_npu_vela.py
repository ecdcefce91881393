"""What is read in blobs of EthosUBackend, against the tables of Vela, which wrote them.

``make measure`` compares a hundred networks (docs/npu.md); these are the first ten of them.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.npu import CONFIGURATIONS, Agreement, compare, lower

NETWORKS = 10


@pytest.fixture(scope="module")
def total() -> Agreement:
    """The agreement of all networks together."""
    found = Agreement()
    for seed in range(NETWORKS):
        found.add(compare(lower(seed)))
    return found


def test_networks_are_for_all_products() -> None:
    targets = {target[:9] for target, _, _ in CONFIGURATIONS[:NETWORKS]}
    assert targets == {"ethos-u55", "ethos-u65", "ethos-u85"}


def test_each_operation_belongs_to_one_row(total: Agreement) -> None:
    assert total.operations > 50
    assert total.without_row == 0


def test_multiply_accumulates_are_equal(total: Agreement) -> None:
    assert total.rows > 50
    assert not total.unequal
    assert total.macs + total.transposes == total.rows
    assert total.transposes < total.rows / 4


def test_weights_are_equal(total: Agreement) -> None:
    assert total.weights == total.delegates


def test_traffic_and_cycles_are_within_the_stated_factors(total: Agreement) -> None:
    """Vela counts whole bursts, many times the data of a narrow feature map, and few tables."""
    for factors in total.traffic.values():
        assert 1 / 8 < min(factors) <= max(factors) < 5
    assert 1 / 2 < statistics.median(total.traffic["SRAM"]) <= 1
    assert total.cycles
    assert 1 / 3 < min(total.cycles) <= max(total.cycles) < 3
