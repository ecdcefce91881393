"""Gives the series of older programs the names of the tested one, before they are compared.

Operators are named by their instruction, which changes for all that come after an edit of the
graph. ``harness.analyze.counterparts`` decides which operators are the same. What has no
counterpart is left out of the history and said, with numbers. The total time of the method keeps
its name through all edits: ``Method::execute``, or the sum of the operators without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from harness.analyze.counterparts import (
    Counterparts,
    InstructionPlace,
    ProgramOutline,
    Sequences,
    places,
    sequences_of,
)
from harness.check.history.samples import (
    Decision,
    History,
    Measured,
    Metric,
    Provenance,
    Sample,
    Series,
)
from harness.formatting import operator_title
from harness.records.result import microseconds
from harness.records.trace import EXECUTION, SUM_OF_OPERATORS, is_wrapper

_OF_OPERATORS: Final = ("operator", "counter", "energy")
"""Kinds of metrics that belong to an instruction."""

_NAMED: Final = 4
"""Operators that a note lists by name."""


def aligned(
    history: History, candidates: Sequence[Measured], *, keep_gone: bool = False
) -> tuple[History, Sequence[Measured], tuple[str, ...]]:
    """Return a history and candidates with the metrics of the newest candidate's program.

    Results of the same program, by the digest of its file, stay as they are.

    Args:
        history: Earlier results, of any programs of one model and method.
        candidates: The tested results.
        keep_gone: Keep operators that the program does not have, with the names that they had,
            unless it has one of that name.

    Returns:
        The history, the candidates, and what is not compared because the program has changed.
    """
    if not candidates:
        return history, candidates, ()
    history = _with_totals(history, candidates)
    programs = _Programs(history, candidates)
    if not programs.others:
        return history, candidates, ()
    return programs.history(keep_gone=keep_gone), programs.candidates(), tuple(programs.lost())


def as_newest(history: History) -> History:
    """Return a history with the metrics of the program of its newest result, to show its series.

    Operators that this program does not have keep the names that they had.
    """
    if not history.results:
        return history
    programs = _Programs(history, [Measured(history.results[-1], {})])
    return programs.history(keep_gone=True) if programs.others else history


def named_as(item: Measured, tested: Measured) -> Measured:
    """Return a result with the metrics of the tested program; those without one are left out."""
    first, _ = _Programs(History(), [item, tested]).candidates()
    return first


def _with_totals(history: History, candidates: Sequence[Measured]) -> History:
    """Add the sum of the operators to results that were stored without it, where it is exact.

    A sum of medians is the median of sums if each operator took the same time in all executions.
    """
    wanted = {
        metric for item in candidates for metric in item.samples if metric.name == SUM_OF_OPERATORS
    }
    for total in wanted:
        known = [series for series in history.series if series.metric == total]
        found = {index: one for s in known for index, one in zip(s.results, s.samples, strict=True)}
        parts: dict[int, list[Sample]] = {}
        for series in history.series:
            of = series.metric
            same = (of.statistic, of.unit, of.block, of.clock) == (
                *(total.statistic, total.unit, total.block, total.clock),
            )
            if of.kind == "operator" and same and of.chain >= 0 and not is_wrapper(of.name):
                if of.delegate_int != -1 or of.delegate_str is not None:
                    continue  # within its call
                for index, sample in zip(series.results, series.samples, strict=True):
                    parts.setdefault(index, []).append(sample)
        for index, samples in parts.items():
            steady = all(one.count == 1 or one.std == 0 for one in samples)
            if index not in found and steady and len({one.count for one in samples}) == 1:
                found[index] = Sample(sum(one.value for one in samples), samples[0].count)
        others = (series for series in history.series if series.metric != total)
        places = tuple(sorted(found))
        if places:
            whole = Series(total, places, tuple(found[index] for index in places))
            history = replace(history, series=(*others, whole))
    return history


class _Programs:
    """The programs of a history and of the candidates that are compared with it."""

    def __init__(self, history: History, candidates: Sequence[Measured]) -> None:
        self._history, self._candidates = history, candidates
        self._tested = candidates[-1].provenance.model_sha256
        self._of = [result.model_sha256 for result in history.results]
        found = [*self._of, *(item.provenance.model_sha256 for item in candidates)]
        self.others = [one for one in dict.fromkeys(found) if one != self._tested]
        self._renamed: dict[tuple[str, Metric], Metric | None] = {}
        self._baseline = {self._of[index] for index in history.baseline}

    def history(self, *, keep_gone: bool = False) -> History:
        """Return the history with the names of the tested program.

        Args:
            keep_gone: Keep operators without counterparts, unless the program has one of that name.
        """
        found: dict[Metric, dict[int, Sample]] = {}
        for series in self._history.series:
            programs = [self._of[index] for index in series.results]
            names = {sha: self._name(sha, series.metric) for sha in {*programs}}
            if keep_gone and self._tested not in names:
                names = {sha: name or series.metric for sha, name in names.items()}
            for index, sha, sample in zip(series.results, programs, series.samples, strict=True):
                if (metric := names[sha]) is not None:
                    found.setdefault(metric, {})[index] = sample
        decided = (self._decision(decision) for decision in self._history.decisions)
        return replace(
            self._history,
            series=tuple(
                Series(metric, tuple(sorted(samples)), tuple(samples[n] for n in sorted(samples)))
                for metric, samples in found.items()
            ),
            decisions=tuple(decision for decision in decided if decision is not None),
        )

    def candidates(self) -> list[Measured]:
        """Return the candidates with the names of the newest one's program."""
        return [
            replace(item, samples=dict(self._samples(item)))
            if item.provenance.model_sha256 != self._tested
            else item
            for item in self._candidates
        ]

    def lost(self) -> Iterator[str]:
        """Yield what is not compared, if the baseline is not of the tested program alone."""
        if self._baseline <= {self._tested}:
            return
        new = [*places(self._sequences[self._tested])]
        in_baseline = self._with_baseline()
        missing = [place for place in new if place not in in_baseline]
        newest = self._of[self._history.baseline[-1]]
        found = self._counterparts.get(newest)
        gone, reshaped, unclear = [], [], []
        if found is not None and self._tested not in self._baseline:
            gone = [p for p in places(self._sequences[newest]) if p not in found.joined]
            reshaped, unclear = found.reshaped, [p for p in found.unclear if p in missing]
        if not (missing or gone or reshaped):
            return
        parts = [
            f"the model was changed: {len(new) - len(missing)} of {len(new)} operators compared "
            "with the same operators of earlier programs"
        ]
        if missing:
            parts.append(f"{len(missing)} new, without history: {self._names(missing)}")
        if unclear:
            parts.append(f"{len(unclear)} of these may be any of several earlier ones")
        if gone:
            count = len([*places(self._sequences[newest])])
            names = self._names(gone, newest)
            parts.append(f"{len(gone)} of {count} earlier operators gone: {names}")
        if reshaped:
            parts.append(f"{len(reshaped)} with other shapes: {self._names(reshaped)}")
        yield "; ".join([*parts, self._total()])

    def _total(self) -> str:
        names = {metric.name for item in self._candidates for metric in item.samples}
        for name in (EXECUTION, SUM_OF_OPERATORS):
            if name in names:
                return f"the total time of the method is compared as {name}"
        return (
            f"the total time of the method is unknown: its log has no {EXECUTION}, and its times "
            "cannot be added"
        )

    def _with_baseline(self) -> set[InstructionPlace]:
        """Return the instructions of the tested program that have values in the baseline."""
        baseline = {*self._history.baseline}
        found = set()
        for series in self._history.series:
            if series.metric.kind == "operator":
                for sha in {self._of[index] for index in series.results if index in baseline}:
                    metric = self._name(sha, series.metric)
                    if metric is not None:
                        found.add(InstructionPlace(metric.block, metric.chain, metric.instruction))
        return found

    def _names(self, chosen: Sequence[InstructionPlace], program: str | None = None) -> str:
        sequences = self._sequences[self._tested if program is None else program]
        names = {
            InstructionPlace(*key, instruction): ", ".join(step.names) or "delegate"
            for key, steps in sequences.items()
            for instruction, step in steps
        }
        texts = [operator_title(names[place], place.instruction) for place in chosen[:_NAMED]]
        more = f" and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
        return f"{', '.join(texts)}{more}"

    def _samples(self, item: Measured) -> Iterator[tuple[Metric, Sample]]:
        for metric, sample in item.samples.items():
            renamed = self._name(item.provenance.model_sha256, metric)
            if renamed is not None:
                yield renamed, sample

    def _decision(self, decision: Decision) -> Decision | None:
        """Return a decision with the name that its series has in the tested program.

        It was made with the names of the newest result of that time.
        """
        at = microseconds(decision.at_utc)
        results = [*self._history.results, *(item.provenance for item in self._candidates)]
        sha = _program_at(results, decision.unit, at)
        metric = decision.metric if sha is None else self._name(sha, decision.metric)
        return None if metric is None else replace(decision, metric=metric)

    def _name(self, sha: str, metric: Metric) -> Metric | None:
        """Return the name in the tested program of a metric of another one; None without one."""
        if sha == self._tested or metric.kind not in _OF_OPERATORS or metric.chain < 0:
            return metric
        key = sha, metric
        if key not in self._renamed:
            self._renamed[key] = self._counterpart(sha, metric)
        return self._renamed[key]

    def _counterpart(self, sha: str, metric: Metric) -> Metric | None:
        found = self._counterparts[sha].of(metric)
        if found is None:
            return None
        instruction, number, text = found
        return replace(metric, instruction=instruction, delegate_int=number, delegate_str=text)

    @cached_property
    def _counterparts(self) -> dict[str, Counterparts]:
        """Of every other program; equal sequences are aligned once."""
        new = self._sequences[self._tested]
        aligned: list[tuple[Sequences, Counterparts]] = []
        found = {}
        for sha in self.others:
            old = self._sequences[sha]
            known = next((joined for other, joined in aligned if other == old), None)
            if known is None:
                known = Counterparts(old, new)
                aligned.append((old, known))
            found[sha] = known
        return found

    @cached_property
    def _sequences(self) -> dict[str, Sequences]:
        """The instructions of every program, from the operators of its results."""
        events: dict[str, dict[Metric, None]] = {self._tested: {}, **{o: {} for o in self.others}}
        for series in self._history.series:
            if series.metric.kind == "operator":
                for sha in {self._of[index] for index in series.results}:
                    events[sha][series.metric] = None
        for item in self._candidates:
            operators = (metric for metric in item.samples if metric.kind == "operator")
            events[item.provenance.model_sha256] |= dict.fromkeys(operators)
        outlines = self._outlines
        return {sha: sequences_of(own, outlines.get(sha)) for sha, own in events.items()}

    @cached_property
    def _outlines(self) -> Mapping[str, ProgramOutline]:
        known = (
            (item.provenance.model_sha256, item.outline)
            for item in self._candidates
            if item.outline is not None
        )
        return {**dict(known), **self._history.outlines}


def _program_at(results: Iterable[Provenance], unit: str, at: int) -> str | None:
    """Return the program of the newest result of a unit until a time; None without a result."""
    before = [
        (microseconds(result.started_utc), result.model_sha256)
        for result in results
        if result.unit == unit and microseconds(result.started_utc) <= at
    ]
    return max(before)[1] if before else None
