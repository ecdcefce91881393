"""docs/operators.md lists what is registered, with the types that the kernels take today."""

from __future__ import annotations

import ctypes as ct

from benchmarks.operators import PAGE, page, read_networks
from tests.firmware.test_registry import names


def test_the_page_is_current(etstub: ct.CDLL) -> None:
    """Apart from what the networks call, which tests with torch compare."""
    text = PAGE.read_text()
    assert page(etstub, read_networks(text)) == text


def test_every_operator_that_a_network_calls_is_registered(etstub: ct.CDLL) -> None:
    networks = read_networks(PAGE.read_text())
    assert len(networks) >= 70
    called = {operator for operators in networks.values() for operator in operators}
    assert called <= set(names(etstub))
