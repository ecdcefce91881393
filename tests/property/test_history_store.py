"""A history on SQLite, one on PostgreSQL and a dictionary, which are told and asked the same."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from harness import (
    BaselineRef,
    Check,
    ClockDomain,
    Decision,
    FormatError,
    History,
    MeasurementSettings,
    Metric,
    NotComparableError,
    Selection,
    Series,
    UsageError,
    VerdictRecord,
    entry_of,
    measure,
    open_store,
)
from harness.check.history.samples import decode_history, encode_history
from harness.history.entries import provenance_of
from harness.history.store import Store
from harness.records.measurement import settings_key
from harness.records.result import microseconds
from tests.support.examples import examples
from tests.support.postgresql import Server
from tests.support.results import Made, made, unmet
from tests.support.traces import EventSpec, RunSpec, trace_of

EXECUTIONS = ("all", "cold", "warm")
TIME_STATISTICS = ("total", "avg", "p10", "p50", "p90", "min", "max")
UNRECORDED = ""

NAMES = st.one_of(st.sampled_from(["a", "b"]), st.text(st.characters(), max_size=5))
IDS = st.sampled_from([f"r{number}" for number in range(8)])
BOARDS = st.sampled_from(["native", "native", "native", "\x00\udcff"])
MODELS = st.sampled_from(["kws", "kws", "kws", "small"])
COMMITS = st.sampled_from(["abc1", "abc1-dirty", "abd2", ""])
TIMES = st.sampled_from(
    [f"2026-11-{day}T00:00:00+{zone}:00" for day in (20, 21) for zone in (0, 10)]
)
TIMES = TIMES.map(lambda text: text.replace("+0:", "+00:"))
REFS = st.one_of(
    st.sampled_from([BaselineRef("commit", "abc1"), BaselineRef("commit", "ab")]),
    st.sampled_from([BaselineRef("commit", "abc1-dirty"), BaselineRef("name", "v1")]),
    st.integers(1, 4).map(lambda count: BaselineRef("last", str(count))),
    st.none(),
)
SETTINGS = st.sampled_from(
    [None, None, MeasurementSettings(), MeasurementSettings("outputs", build="\0\u00e9")]
)
CHECKS = st.sampled_from([(), (), (unmet(),), (unmet("I11"),)])
CLOCKS = st.sampled_from([ClockDomain("c", None, 64), ClockDomain("c", 10**9, 64)])  # type: ignore[arg-type]


@st.composite
def subjects(draw: Any) -> Made:
    """A result by any id, with operators by any names, some of them the same."""
    names = draw(st.lists(NAMES, max_size=3))
    runs = [
        RunSpec(
            [
                EventSpec(
                    name, 0, draw(st.integers(0, 2**63)), instruction=index % 2, delegate=delegate
                )
                for index, name in enumerate(names)
                for delegate in draw(st.sampled_from([(None,), (3, "x")]))
            ]
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return made(
        draw(IDS),
        trace_of(*runs, clock=draw(CLOCKS)),
        board=draw(BOARDS),
        model=draw(MODELS),
        unit=draw(NAMES),
        commit=draw(COMMITS),
        started_utc=draw(TIMES),
        checks=draw(CHECKS),
        settings=draw(SETTINGS),
    )


DECIDED = (Selection(), Selection(board="native", settings=UNRECORDED))
METRICS = st.builds(
    Metric,
    *(st.sampled_from(["operator", "allocator"]), NAMES, st.just(""), st.just("ns"), NAMES),
    delegate_str=st.none() | NAMES,
)


@st.composite
def decisions(draw: Any) -> Decision:
    """A decision by anybody, for any reason."""
    return Decision(
        kind=draw(st.sampled_from(["accepted", "ignored", "reopened"])),
        unit=draw(NAMES),
        metric=draw(METRICS),
        since_utc=draw(TIMES),
        at_utc=draw(TIMES),
        reason=draw(NAMES),
        who=draw(NAMES),
        made_utc=draw(TIMES),
        until=draw(st.sampled_from([None, "2027-01-01"])),
    )


class HistoryMachine(RuleBasedStateMachine):
    """The model is what was added, by id, and the ids of the one name."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__()
        self.urls = urls
        self.stores: list[Store] = []
        self.model: dict[str, Made] = {}
        self.named: set[str] | None = None
        self.decided: list[tuple[str, str, Decision]] = []
        self.decided_before = [0, 0]

    @initialize(items=st.lists(subjects(), min_size=3, max_size=8))
    def begin(self, items: list[Made]) -> None:
        self.stores = [open_store(url) for url in self.urls]
        for store in self.stores:
            store.remove(Selection(), also_named=True)
            store.remove_baseline("v1")
        # Decisions stay; there may be some of the example before.
        self.decided_before = [len(self.stores[0].decisions(chosen)) for chosen in DECIDED]
        for item in items:
            self.add_one(item)

    def teardown(self) -> None:
        for store in self.stores:
            store.close()

    @rule(item=subjects())
    def add(self, item: Made) -> None:
        self.add_one(item)

    def add_one(self, item: Made) -> None:
        new = item.result.id not in self.model
        assert [store.add(item.result, item.subject) for store in self.stores] == [new] * 2
        if new:
            self.model[item.result.id] = item

    @rule(ids=st.sets(IDS, max_size=3), also_named=st.booleans())
    def remove(self, ids: set[str], also_named: bool) -> None:
        going = (ids & set(self.model)) - (set() if also_named else self.named or set())
        for store in self.stores:
            assert store.remove(Selection(ids=[*ids]), also_named=also_named) == len(going)
        self.forget(going)

    @rule(keep=st.integers(0, 2), board=st.none() | BOARDS, dry=st.booleans())
    def prune(self, keep: int, board: str | None, dry: bool) -> None:
        groups = defaultdict(list)
        for item in self.ordered():
            if board in (None, item.result.board):
                groups[item.result.board, item.result.unit, item.subject.model].append(item)
        old = {item.result.id for same in groups.values() for item in same[: len(same) - keep]}
        old -= self.named or set()
        selection = Selection(board=board)
        for store in self.stores:
            assert store.prune(keep, selection, dry_run=dry) == len(old)
        if not dry:
            self.forget(old)

    def forget(self, ids: set[str]) -> None:
        self.model = {key: item for key, item in self.model.items() if key not in ids}
        if self.named is not None:
            self.named -= ids

    @rule(own_id=IDS, checks=st.sampled_from([(), (unmet(),), (unmet("H01"), unmet())]))
    def give_verdict(self, own_id: str, checks: tuple[Check, ...]) -> None:
        item = self.model.get(own_id)
        if item is not None and not complete(item):
            return
        verdict = VerdictRecord(not checks, "b.toml", checks)
        changes = item is not None and item.result.verdict != verdict
        assert [store.record_verdict(own_id, verdict) for store in self.stores] == [changes] * 2
        if item is not None:
            self.model[own_id] = Made(replace(item.result, verdict=verdict), item.subject)

    @rule(decision=decisions(), board=BOARDS, settings=SETTINGS)
    def decide(self, decision: Decision, board: str, settings: MeasurementSettings | None) -> None:
        key = settings_key(settings)
        for store in self.stores:
            store.record_decisions(board, "kws", "forward", key, [decision])
        self.decided.append((board, key, decision))

    @rule(ids=st.sets(IDS, max_size=3))
    def name(self, ids: set[str]) -> None:
        possible = ids and ids <= set(self.model)
        for store in self.stores:
            try:
                store.set_baseline("v1", [*ids])
            except UsageError:
                assert not possible
            else:
                assert possible
        self.named = ids if possible else self.named

    @rule()
    def forget_name(self) -> None:
        for store in self.stores:
            assert store.remove_baseline("v1") == (self.named is not None)
        self.named = None

    @rule()
    def reopen(self) -> None:
        self.teardown()
        self.stores = [open_store(url) for url in self.urls]

    @rule(
        board=BOARDS,
        model=MODELS,
        statistics=st.lists(st.sampled_from(TIME_STATISTICS), min_size=1, max_size=3, unique=True),
        executions=st.sampled_from(EXECUTIONS),
        ref=REFS,
        unsound=st.booleans(),
        window=st.integers(0, 3),
        without=st.sets(IDS, max_size=1),
        settings=st.none() | SETTINGS.map(settings_key),
    )
    def ask(self, board: str, model: str, **asked: Any) -> None:
        statistics, executions = asked["statistics"], asked["executions"]
        scope = [
            item
            for item in self.ordered()
            if (item.result.board, item.subject.model) == (board, model)
            and item.result.id not in asked["without"]
            and asked["settings"] in (None, settings_key(item.result.settings))
        ]
        held = None if asked["ref"] is None else self.held(asked["ref"], scope, asked["unsound"])
        asked["baseline"] = asked.pop("ref")
        found = [self.asked(store, held, board, model, asked) for store in self.stores]
        if held in ([], "several"):
            return
        shown = [item for item in scope if asked["unsound"] or complete(item)]
        shown = shown[len(shown) - min(asked["window"], len(shown)) :]
        ids = {item.result.id for item in (*shown, *(held or ()))}
        results = [item for item in scope if item.result.id in ids]
        expected: dict[Any, list[Any]] = defaultdict(list)
        for place, item in enumerate(results):
            measured = {}
            for statistic in statistics:
                measured |= measure(item.subject, statistic, executions)
            for metric, sample in measured.items():
                expected[metric].append((place, sample))
        one, other = found
        assert one == other
        assert [origin.id for origin in one.results] == [item.result.id for item in results]
        there = {
            series.metric: [*zip(series.results, series.samples, strict=True)]
            for series in one.series
        }
        assert there == expected
        assert len(one.series) == len(there)
        assert [*one.failed] == [at for at, item in enumerate(results) if not sound(item)]
        baseline = [item.result.id for item in held or ()]
        assert [one.results[place].id for place in one.baseline] == baseline

    def asked(self, store: Store, held: Any, board: str, model: str, asked: Any) -> Any:
        """What a store says; None where it must refuse to."""
        if held not in ([], "several"):
            return store.history(board, model, "forward", **asked)
        with pytest.raises(NotComparableError if held == [] else UsageError):
            store.history(board, model, "forward", **asked)
        return None

    def held(self, ref: BaselineRef, scope: list[Made], unsound: bool) -> Any:
        """What a baseline means; ``several`` for several commits."""
        if ref.how == "name":
            return [item for item in scope if item.result.id in (self.named or ())]
        if ref.how == "last":
            return [item for item in scope if unsound or sound(item)][-int(ref.what) :]
        scope = [item for item in scope if unsound or complete(item)]
        dirty = ref.what.endswith("-dirty")
        of_commit = [
            item
            for item in scope
            if item.result.commit.startswith(ref.what.removesuffix("-dirty"))
            and item.result.commit.endswith("-dirty") == dirty
        ]
        several = len({item.result.commit for item in of_commit}) > 1
        return "several" if several else of_commit

    def ordered(self) -> list[Made]:
        return sorted(
            self.model.values(),
            key=lambda item: (microseconds(item.result.started_utc), item.result.id),
        )

    @invariant()
    def all_is_there(self) -> None:
        expected = [entry_of(item.result, item.subject)[0] for item in self.ordered()]
        for store in self.stores:
            assert store.results() == expected
            assert (
                store.results(Selection(board="native", newest=2))
                == [entry for entry in expected if entry.provenance.board == "native"][-2:]
            )
            everything, of_board = (
                store.decisions(chosen)[before:]
                for chosen, before in zip(DECIDED, self.decided_before, strict=True)
            )
            assert everything == [decision for *_, decision in self.decided]
            assert of_board == [
                decision for board, key, decision in self.decided if (board, key) == ("native", "")
            ]
            found = store.baseline_results("v1")
            assert found == (None if self.named is None else sorted(self.named))


def complete(item: Made) -> bool:
    verdict = item.result.verdict
    return verdict is not None and not any(check.code == "I11" for check in verdict.checks)


def sound(item: Made) -> bool:
    return complete(item) and item.result.verdict is not None and item.result.verdict.passed


@pytest.mark.slow
def test_both_databases_are_what_a_dictionary_is(postgresql: Server, tmp_path: Path) -> None:
    urls = [str(tmp_path / "h.sqlite"), postgresql.new_database()]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: HistoryMachine(urls),
        settings=settings(max_examples=examples(8), stateful_step_count=15),
    )


@given(
    st.lists(subjects(), max_size=3),
    st.text(st.characters(), max_size=5),
    st.lists(decisions(), max_size=2),
)
@settings(max_examples=examples(15))
def test_a_copy_of_a_history_is_the_same(
    items: list[Made], description: str, decided: list[Decision]
) -> None:
    history = History(
        results=tuple(provenance_of(item.result) for item in items),
        series=tuple(
            Series(metric, (place,), (sample,))
            for place, item in enumerate(items)
            for metric, sample in measure(item.subject).items()
        ),
        description=description,
        failed=(0,) if items else (),
        rolling=True,
        decisions=tuple(decided),
        notes=(description,),
    )
    assert decode_history(encode_history(history), "history.json") == history


@pytest.mark.parametrize("data", [b"", b"[]", b'{"results": 1}'])
def test_what_is_no_copy_of_a_history_is_named(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"x/history\.json: not a history of this version"):
        decode_history(data, "x/history.json")
