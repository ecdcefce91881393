"""What a site knows of each model on a unit; its data files hold exactly this."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from harness.check.history.comparison import Judgement
from harness.report.summaries import RunState

SeriesKind = Literal["time", "memory", "count", "energy"]
"""What a series is of: ``memory`` grows larger, the others slower or more."""

_LONGEST_SLUG: Final = 40
"""Characters of a name in a file name."""

_DIGEST: Final = 8
"""Hexadecimal digits that keep file names of similar names apart."""


class SiteResult(msgspec.Struct, frozen=True):
    """A result as the site shows it.

    Attributes:
        id: Id of the result.
        started: Start time, ISO 8601.
        commit: Tested commit; empty if unknown.
        night: Label of the results that it was recorded with; empty if there are no others.
        state: How it ended.
        why: Why it did not pass.
        built: Firmware, model file and version of this package, which a comparison names if they
            differ.
    """

    id: str
    started: str
    commit: str
    night: str
    state: RunState
    why: str
    built: tuple[str, str, str]


class SiteStep(msgspec.Struct, frozen=True):
    """A lasting change of a series.

    Attributes:
        last_good: Commit of the last result before it.
        first_bad: Commit of the first result after it.
        since: Start of that result.
        before: Level before it.
        after: Level after it.
        p: P-value.
        decision: What a person decided about it; empty without a decision.
        undecided: An increase that the baseline contains and nobody accepted.
    """

    last_good: str
    first_bad: str
    since: str
    before: float
    after: float
    p: float
    decision: str = ""
    undecided: bool = False


class SiteSeries(msgspec.Struct, frozen=True):
    """A number of a model on a unit, result by result.

    Attributes:
        page: Path of its page.
        title: Its title, such as ``median execution``.
        name: Name of the operator, allocator or size in the log.
        kind: What it is of.
        role: ``execution``: the median execution; ``peak``: the peak of an allocator; else empty.
        unit: Unit of the values: ``ns``, ``ticks``, ``bytes``, ``count`` or ``nJ``.
        values: The value in each result of the model on the unit; None where it was not measured.
        judgement: Outcome of comparing the newest result with its baseline; empty without one.
        baseline: Level of the baseline; None without one.
        change: Change of the newest result, as a share of the baseline.
        noise: Standard deviation between sessions, as a share; None if unknown.
        detectable: Smallest change that would have been found, as a share; None if unknown.
        relative_limit: A smaller change, as a share, does not count.
        absolute_limit: A smaller change, in the unit, does not count.
        steps: Lasting changes, oldest first.
        decision: The decision that counts for the newest result; empty without one.
    """

    page: str
    title: str
    name: str
    kind: SeriesKind
    role: Literal["execution", "peak", ""]
    unit: str
    values: tuple[float | None, ...]
    judgement: Judgement | Literal[""] = ""
    baseline: float | None = None
    change: float | None = None
    noise: float | None = None
    detectable: float | None = None
    relative_limit: float = 0.0
    absolute_limit: float = 0.0
    steps: tuple[SiteStep, ...] = ()
    decision: str = ""

    @property
    def measured(self) -> list[float]:
        """The values of the results that have it, oldest first."""
        return [value for value in self.values if value is not None]


class ModelOnUnit(msgspec.Struct, frozen=True):
    """A model and method on a unit, measured with the same settings: all its results and series.

    Attributes:
        slug: Part of the names of its files.
        board: Board type.
        unit: Unit, one physical board.
        model: Name of the model's file, without its suffix.
        method: Method that ran.
        settings: Measurement settings as text.
        results: Its results, oldest first.
        left_out: Number of older results that the site does not show.
        series: Its series; executions, memory and sizes first.
    """

    slug: str
    board: str
    unit: str
    model: str
    method: str
    settings: str
    results: tuple[SiteResult, ...]
    left_out: int
    series: tuple[SiteSeries, ...]

    @property
    def page(self) -> str:
        """Path of its page."""
        return f"models/{self.slug}.html"

    @property
    def data(self) -> str:
        """Path of its data file."""
        return data_path(self.slug)

    @property
    def title(self) -> str:
        """Its name."""
        model, board = self.model or "unknown model", self.board or "unknown board"
        unit = f" ({self.unit})" if self.unit not in ("", self.board) else ""
        return f"{model} on {board}{unit}"

    def commits(self) -> dict[str, list[int]]:
        """Return the places of results by commit, in the order in which commits first occur."""
        found: dict[str, list[int]] = {}
        for place, result in enumerate(self.results):
            if result.commit:
                found.setdefault(result.commit, []).append(place)
        return found

    def rounds(self) -> Iterator[list[SiteResult]]:
        """Yield results recorded together, oldest first."""
        found: dict[str, list[SiteResult]] = {}
        for result in self.results:
            found.setdefault(result.night or result.id, []).append(result)
        yield from found.values()


def data_path(slug: str) -> str:
    """Return the path of the data of a model on a unit."""
    return f"data/{slug}.js"


def slug_of(*names: str) -> str:
    """Return a file name for names that may hold any text; other names give another one."""
    text = re.sub(r"[^a-z0-9.]+", "-", "-".join(names).lower()).strip("-.")[:_LONGEST_SLUG]
    digest = hashlib.sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()
    return f"{text.strip('-.') or 'x'}-{digest[:_DIGEST]}"


def commit_page(commit: str) -> str:
    """Return the path of the page of a commit."""
    return f"commits/{slug_of(commit[:12], commit)}.html"


def night_page(night: str) -> str:
    """Return the path of the page of a night."""
    return f"nights/{slug_of(night)}.html"
