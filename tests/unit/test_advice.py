"""Advice from a program alone: only where the coefficients of a core show that it helps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ROOT, CommandResult

Etharness = Callable[..., CommandResult]

PAIRS = ROOT / "tests/fixtures/advice"
FIRST = sorted(path for path in PAIRS.glob("*.pte") if not path.stem.endswith("_advised"))


def advised(etharness: Etharness, name: str) -> list[dict[str, Any]]:
    """What inspect advises for a network."""
    [method] = json.loads(etharness("inspect", PAIRS / f"{name}.pte", "--json").out)["methods"]
    return list(method.get("sections", {}).get("advice", {}).get("operators", []))


@pytest.mark.parametrize("path", FIRST, ids=lambda path: path.stem)
def test_each_network_has_one_advice_and_none_when_it_is_followed(
    path: Any, etharness: Etharness
) -> None:
    [found] = advised(etharness, path.stem)
    assert found["measured"] is None
    for worth in found["cores"].values():
        assert worth["saved"] > 0
        assert worth["of_all"] >= 0.01
    [attempt] = {worth["attempt"] for worth in found["cores"].values()}
    assert attempt in etharness("inspect", path).out
    after = advised(etharness, f"{path.stem}_advised")
    assert attempt not in str(after)


def test_a_division_is_as_cheap_as_a_product_where_there_is_an_fpu(etharness: Etharness) -> None:
    [found] = advised(etharness, "division")
    assert set(found["cores"]) <= {"cortex-m0", "cortex-m3", "rv32imac"}


def test_operators_without_advice_are_not_mentioned(etharness: Etharness) -> None:
    [method] = json.loads(etharness("inspect", "small_int8", "--json").out)["methods"]
    assert "sections" not in method
