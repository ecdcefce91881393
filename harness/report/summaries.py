"""One line per run: its name among others, how it ended and why, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.errors import Owner
from harness.formatting import operator_title
from harness.report.description import RunDescription
from harness.report.operators import UNKNOWN
from harness.report.text import brief
from harness.report.tracked import TrackedNumber, execution_time, peak_memory

RunState = Literal["failed", "set-up", "infrastructure", "not run", "quarantined", "pass"]
"""How a run ended, the most urgent first. ``failed``: the model or the firmware. ``set-up``: the
request, such as a file that does not exist. ``infrastructure``: a board, its line or this host,
which says nothing about the model. ``quarantined``: a known failure that does not count."""

STATES: Final[dict[RunState, str]] = {
    "failed": "failed",
    "set-up": "set-up errors",
    "infrastructure": "infrastructure failures",
    "not run": "not run",
    "quarantined": "known failures",
    "pass": "passed",
}
"""How runs of each state are counted, the most urgent state first."""

URGENCY: Final = tuple(STATES)
"""States, the most urgent first."""

_BY_EXIT_CODE: Final[dict[int, RunState]] = {
    0: "pass",
    1: "failed",
    2: "set-up",
    3: "set-up",
    4: "failed",
}

_BY_OWNER: Final[dict[Owner, RunState]] = {Owner.PRODUCT: "failed", Owner.TEST: "set-up"}

_COMMIT = 8
"""Characters of a commit."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a line.

    Attributes:
        name: Model and board, or where it was found.
        apart: What tells it from other runs of the same name; empty if nothing has to.
        state: How it ended.
        why: Why it did not pass.
        board: Name of the board type; empty when unknown.
        model: Name of the model; empty when unknown.
        kernels: Whose kernels ran; empty when unknown.
        execution: Its median execution; None if none was timed.
        memory: Its peak memory; None without allocators.
        slowest: Its slowest operator; empty without operators.
        slowest_share: The part of the wall time that it took, as text.
    """

    name: str
    apart: str
    state: RunState
    why: str
    board: str
    model: str
    kernels: str
    execution: TrackedNumber | None
    memory: TrackedNumber | None
    slowest: str
    slowest_share: str

    @property
    def label(self) -> str:
        """Its name, and what tells it apart."""
        return f"{self.name}, {self.apart}" if self.apart else self.name


def state_of(exit_code: int) -> RunState:
    """Return how a run with this exit code ended."""
    return _BY_EXIT_CODE.get(exit_code, "infrastructure")


def state_of_owner(owner: Owner | None) -> RunState:
    """Return what a failure with this owner is."""
    return "infrastructure" if owner is None else _BY_OWNER.get(owner, "infrastructure")


def word_of(state: RunState) -> str:
    """Return how one run of this state ended."""
    return STATES[state].removesuffix("s")


def counts_of_states(states: Iterable[RunState]) -> dict[RunState, int]:
    """Return how many there are of each state, the most urgent first; they sum to all."""
    found = [*states]
    return {state: found.count(state) for state in STATES}


def name_of(run: RunDescription) -> str:
    """Return model and board of a run, or where it was found."""
    named = f"{_model(run)} on {run.board}" if run.model and run.board else run.board
    return brief(named or run.title)


def _model(run: RunDescription) -> str:
    """Return the name of a model, which its file has with a suffix, and maybe its test set."""
    file, comma, test_set = run.model.partition(", ")
    return f"{file.removesuffix('.pte')}{comma}{test_set}"


def summarize(runs: Sequence[RunDescription]) -> tuple[RunSummary, ...]:
    """Summarize runs, told apart from each other."""
    apart = told_apart(runs)
    return tuple(_summary(run, text) for run, text in zip(runs, apart, strict=True))


def told_apart(runs: Sequence[RunDescription]) -> list[str]:
    """Return what tells each run from others of the same name; empty for a name of its own.

    Of method, unit, kernels, commit, time and directory it is as many as it takes, and only those
    that differ.
    """
    names: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        names.setdefault(name_of(run), []).append(place)
    found = [""] * len(runs)
    for places in names.values():
        if len(places) > 1:
            for place, text in zip(places, _differences([runs[n] for n in places]), strict=True):
                found[place] = text
    return found


def _differences(runs: Sequence[RunDescription]) -> list[str]:
    chosen: list[list[str]] = [[] for _ in runs]
    for fact in _FACTS:
        texts = [fact(run) for run in runs]
        if len(set(texts)) > 1:
            for parts, text in zip(chosen, texts, strict=True):
                parts.append(text)
        if len({tuple(parts) for parts in chosen}) == len(runs):
            break
    return [", ".join(filter(None, parts)) for parts in chosen]


def _method(run: RunDescription) -> str:
    result = run.run.result
    return f"method {brief(result.model.method)}" if result and result.model else ""


def _unit(run: RunDescription) -> str:
    return f"unit {brief(run.unit)}" if run.unit else ""


def _commit(run: RunDescription) -> str:
    result = run.run.result
    if result is None or not result.commit:
        return ""
    commit, dirty, _ = result.commit.partition("-dirty")
    return f"commit {brief(commit[:_COMMIT])}{dirty}"


def _started(run: RunDescription) -> str:
    result = run.run.result
    if result is None:
        return ""
    return brief(result.started_utc.removesuffix("+00:00").partition(".")[0].replace("T", " "))


_FACTS: Final[tuple[Callable[[RunDescription], str], ...]] = (
    _method,
    _unit,
    lambda run: brief(run.kernels),
    _commit,
    _started,
    lambda run: brief(run.title),
)
"""What may tell runs of one model and board apart, in the order of showing it."""


def _summary(run: RunDescription, apart: str) -> RunSummary:
    failed = run.verdict.outcome != "pass"
    slowest = next(_operators(run), ("", ""))
    return RunSummary(
        name=name_of(run),
        apart=apart,
        state=state_of(run.exit_code) if failed else "pass",
        why=run.verdict.why if failed else "",
        board=run.board,
        model=_model(run),
        kernels=run.kernels,
        execution=execution_time(run.run),
        memory=peak_memory(run.run, peak) if (peak := _peak(run)) else None,
        slowest=slowest[0],
        slowest_share=slowest[1],
    )


def _operators(run: RunDescription) -> Iterator[tuple[str, str]]:
    """Yield the operators of a run and their shares, the slowest first."""
    for row in run.operators.operators if run.operators is not None else ():
        share = "" if row.share_text == UNKNOWN else f"{row.share_text} %"
        yield operator_title(row.operator.name, row.operator.instruction), share


def _peak(run: RunDescription) -> int:
    """Return the peak memory of a run, as its own report shows it."""
    subject = run.run.subject
    if subject is None or run.untold or not subject.memory.allocators:
        return 0
    return subject.memory.peak
