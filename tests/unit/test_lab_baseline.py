"""The history that a run is held against: from a store, and from the run directory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness import (
    OPERATOR_CALL,
    BaselineRef,
    FormatError,
    History,
    HistoryLimits,
    HistoryRef,
    NotComparableError,
    Provenance,
    UsageError,
)
from harness.runs.directory import load_history, save_history
from tests.support.histories import HistoryBuilder, operator, provenance

LIMITS = HistoryLimits()


class FakeStore:
    """A store of one history, which counts what it is asked."""

    def __init__(self, history: History) -> None:
        self.kept = history
        self.asked: list[tuple[str, ...]] = []

    def __enter__(self) -> FakeStore:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def results(self, _: object) -> list[object]:
        return []

    def history(
        self, *_: str, statistics: tuple[str, ...] = (), baseline: BaselineRef, **__: object
    ) -> History:
        self.asked.append(statistics)
        if not self.kept.results:
            raise NotComparableError("nothing")
        return History(self.kept.results, self.kept.series, self.kept.baseline, str(baseline))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    builder = HistoryBuilder()
    scope = msgspec.structs.replace(operator(), name=OPERATOR_CALL)
    values = {operator(statistic="min"): 1.0, operator(statistic="p50"): 2.0, scope: 2.0}
    builder.earlier("night/1", "a", values)
    builder.earlier("night/1", "b", values)
    fake = FakeStore(builder.history())
    monkeypatch.setattr("harness.runs.history.open_store", lambda *_, **__: fake)
    return fake


def judged() -> Provenance:
    return provenance(9, "night/2", "b")


def test_it_asks_once_and_the_last_are_not_of_the_same_occasion(store: FakeStore) -> None:
    history = HistoryRef("x").fetch(judged(), LIMITS)
    assert store.asked == [("min", "p50")]
    assert [series.metric for series in history.series] == [
        operator(statistic="min"),
        operator(statistic="p50"),
    ]
    assert history.baseline == (0,)
    named = HistoryRef("x", BaselineRef("name", "v1")).fetch(judged(), LIMITS)
    assert named.baseline == (0, 1)


def test_the_first_night_has_no_last_results_but_a_name_must_be_there(store: FakeStore) -> None:
    store.kept = History()
    assert HistoryRef("x").fetch(judged(), LIMITS).description == "the last 20"
    with pytest.raises(NotComparableError):
        HistoryRef("x", BaselineRef("name", "v1")).fetch(judged(), LIMITS)


def test_a_store_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        HistoryRef(str(tmp_path / "none.sqlite"), BaselineRef("commit", "abcd")).check()


def test_a_history_is_kept_whole(tmp_path: Path, store: FakeStore) -> None:
    assert load_history(tmp_path) is None
    save_history(tmp_path, store.kept)
    assert load_history(tmp_path) == store.kept
    (tmp_path / "history.json").write_text("[]")
    with pytest.raises(FormatError, match="not a history of this version"):
        load_history(tmp_path)
