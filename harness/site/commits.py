"""What the history says of each commit, and of each commit beside the one before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.records.result import microseconds
from harness.report.summaries import RunState, counts_of_states
from harness.site.changes import SeriesChange, changes_between
from harness.site.documents import ModelOnUnit, SiteResult, commit_page


@dataclass(frozen=True, slots=True)
class ModelAtCommit:
    """A model on a unit at a commit, beside the commit before it.

    Attributes:
        model: The model on the unit.
        results: Its results of the commit, oldest first.
        base: The commit that it is compared with; empty without an earlier one.
        changes: Series that changed, the worst first.
        same: Number of series without a change above the noise.
        unknown: Number of series whose noise is unknown.
        built: What was built otherwise than at the base: firmware, model file, version.
    """

    model: ModelOnUnit
    results: tuple[SiteResult, ...]
    base: str
    changes: tuple[SeriesChange, ...]
    same: int
    unknown: int
    built: tuple[str, ...]

    @property
    def outcomes(self) -> set[str]:
        """What became of its series."""
        return {change.outcome for change in self.changes}


@dataclass(frozen=True, slots=True)
class SiteCommit:
    """A tested commit.

    Attributes:
        commit: The commit.
        started: Start of its first result.
        before: The tested commit before it; empty for the first one.
        after: The tested commit after it; empty for the last one.
        models: Models on units that were tested at it.
    """

    commit: str
    started: str
    before: str
    after: str
    models: tuple[ModelAtCommit, ...]

    @property
    def page(self) -> str:
        """Path of its page."""
        return commit_page(self.commit)

    @property
    def counts(self) -> Mapping[RunState, int]:
        """How its results ended."""
        return counts_of_states(result.state for model in self.models for result in model.results)

    @property
    def results(self) -> int:
        """Number of its results."""
        return sum(len(model.results) for model in self.models)

    @property
    def outcome(self) -> str:
        """What became of its numbers, in a word or two."""
        found = {outcome for model in self.models for outcome in model.outcomes}
        if {"worse", "better"} <= found:
            return "mixed"
        if "worse" in found:
            return "regression"
        if "better" in found:
            return "improvement"
        compared = any(model.base for model in self.models)
        return "nothing above noise" if compared else "nothing to compare with"


_BUILT = ("firmware", "model file", "version of etdump-harness")
_ORDER = ("worse", "vanished", "appeared", "better")


def commits_of(models: Sequence[ModelOnUnit]) -> list[SiteCommit]:
    """Return all tested commits in the order in which their first results began."""
    first: dict[str, tuple[int, str]] = {}
    tested: dict[str, list[ModelAtCommit]] = {}
    for model in models:
        before = ""
        places = model.commits()
        for commit, own in places.items():
            started = model.results[own[0]].started
            began = microseconds(started)
            first[commit] = min(first.get(commit, (began, started)), (began, started))
            tested.setdefault(commit, []).append(
                _at_commit(model, own, before, places.get(before, ()))
            )
            before = commit
    order = sorted(first, key=lambda commit: (first[commit][0], commit))
    return [
        SiteCommit(
            commit,
            first[commit][1],
            order[place - 1] if place else "",
            order[place + 1] if place + 1 < len(order) else "",
            tuple(tested[commit]),
        )
        for place, commit in enumerate(order)
    ]


def _at_commit(
    model: ModelOnUnit, own: Sequence[int], base: str, before: Sequence[int]
) -> ModelAtCommit:
    found = [*changes_between(model, before, own)] if base else []
    changed = [change for change in found if change.outcome in _ORDER]
    changed.sort(key=lambda c: (_ORDER.index(c.outcome), -abs(c.share or 0.0)))
    old = {model.results[place].built for place in before}
    new = {model.results[place].built for place in own}
    built = [
        name
        for n, name in enumerate(_BUILT)
        if base and {one[n] for one in old} != {one[n] for one in new}
    ]
    return ModelAtCommit(
        model=model,
        results=tuple(model.results[place] for place in own),
        base=base,
        changes=tuple(changed),
        same=sum(change.outcome == "same" for change in found),
        unknown=sum(change.outcome == "unknown" for change in found),
        built=tuple(built),
    )
