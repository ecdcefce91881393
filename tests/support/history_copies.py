"""Everything that a history says, to compare it with its copy."""

from __future__ import annotations

from typing import Any

from harness.analyze.statistics import EXECUTIONS
from harness.check.history.measure import TIME_STATISTICS
from harness.history.store import Store


class Interruption(Exception):
    """Raised in the middle of a copy."""


def everything(store: Store) -> dict[str, Any]:
    """Results, baselines with members, decisions, and all series of what was tested."""
    tested = store.tested()
    return {
        "results": store.results(),
        "baselines": store.baselines(),
        "members": {item.name: store.baseline_results(item.name) for item in store.baselines()},
        "decisions": store.decisions(),
        "histories": [
            store.history(
                *item,
                statistics=TIME_STATISTICS,
                executions=executions,
                baseline=None,
                window=10_000,
                unsound=True,
            )
            for item in tested
            for executions in EXECUTIONS
        ],
    }
