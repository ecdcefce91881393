"""A history copied to PostgreSQL and back, with interruptions, says what the first one says."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Decision, MeasurementSettings, Selection, open_store
from harness.extensions.history.copying import copy_history
from harness.history.store import Store
from tests.property.test_history_store import BOARDS, IDS, SETTINGS, decisions, subjects
from tests.support.history_copies import Interruption, everything
from tests.support.postgresql import Server
from tests.support.results import Made

EXAMPLES = int(os.environ.get("ETHARNESS_COPY_EXAMPLES", "3"))
"""Every example makes a database, which takes its time."""


def copy_interrupted(source: Store, target: Store, share: float) -> None:
    """Copy again after a copy that ended when this share of the rows was done."""

    def interrupted(_stage: str, done: int, total: int) -> None:
        if done >= share * total:
            raise Interruption

    with pytest.raises(Interruption):
        copy_history(source, target, interrupted)
    assert target.results() == []
    assert copy_history(source, target).results == len(source.results())


def test_a_copy_there_and_back_is_equal(postgresql: Server, templates: dict[str, str]) -> None:
    empty = templates.setdefault("postgresql", postgresql.new_database())
    open_store(empty).close()

    @given(
        items=st.lists(subjects(), max_size=8),
        named=st.dictionaries(st.sampled_from(["v1", "\0\udcff"]), st.sets(IDS, min_size=1)),
        removed=st.none() | IDS,
        decided=st.lists(st.tuples(decisions(), BOARDS, SETTINGS), max_size=4),
        shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    )
    @settings(max_examples=EXAMPLES)
    def check(
        items: list[Made],
        named: dict[str, set[str]],
        removed: str | None,
        decided: list[tuple[Decision, str, MeasurementSettings | None]],
        shares: tuple[float, float],
    ) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            open_store(str(Path(folder) / "first.sqlite")) as first,
            open_store(postgresql.new_database(empty)) as server,
            open_store(str(Path(folder) / "last.sqlite")) as last,
        ):
            for item in items:
                first.add(item.result, item.subject)
            there = {item.result.id for item in items}
            for name, ids in named.items():
                if ids & there:
                    first.set_baseline(name, sorted(ids & there))
            if removed is not None:  # may leave a baseline without results
                first.remove(Selection(ids=[removed]), also_named=True)
            for decision, board, used in decided:
                first.record_decisions(
                    board, "kws", "forward", used.key if used else "", [decision]
                )
            copy_interrupted(first, server, shares[0])
            copy_interrupted(server, last, shares[1])
            expected = everything(first)
            assert everything(server) == expected
            assert everything(last) == expected

    check()
