"""The pages of a site: what each shows, and the templates that lay it out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness import __version__
from harness.check.history.checks import percentage
from harness.report.html import environment as report_environment
from harness.report.matrix import Matrix, MatrixCell, MatrixLink, matrix_of
from harness.report.summaries import STATES, URGENCY, RunSummary, counts_of_states, word_of
from harness.site.changes import DEVIATIONS, WORDS
from harness.site.commits import SiteCommit
from harness.site.documents import ModelOnUnit, SiteSeries, commit_page, night_page
from harness.site.models import ChartedSeries
from harness.site.news import TITLES, NewsItem, NewsKind, change_text, is_gone, state_of_model
from harness.site.nights import SiteNight
from harness.site.numbers import execution_of, memory_of, tracked, unit_of, value_text
from harness.site.running import PAGE, REFRESH_S, RunningNight

if TYPE_CHECKING:
    from jinja2 import Environment

STYLE: Final = "site.css"
SCRIPT: Final = "site.js"

_COMMIT: Final = 10
"""Characters of a commit."""

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Pages load the style, the script and the data of this site, and nothing else."""


@cache
def environment() -> Environment:
    """Return the templates of a site, which use those of reports.

    Raises:
        UsageError: A library is not installed.
    """
    jinja2, *_ = report_environment.require_libraries()
    loaders = [jinja2.PackageLoader(name) for name in ("harness.site", "harness.report.html")]
    found: Environment = report_environment.environment().overlay(
        loader=jinja2.ChoiceLoader(loaders), cache_size=100
    )
    found.globals.update(
        POLICY=_POLICY,
        REFRESH_S=REFRESH_S,
        RUNNING_PAGE=PAGE,
        TITLES=TITLES,
        VERSION=__version__,
        change_text=change_text,
        commit_page=commit_page,
        commit_text=commit_text,
        execution_of=execution_of,
        night_page=night_page,
        state_of_model=state_of_model,
        states_without=states_without,
        percentage=percentage,
        tracked=tracked,
        unit_of=unit_of,
        value_text=value_text,
        when=when,
        word_of=word_of,
    )
    return found


@cache
def edition() -> str:
    """Return a digest of what all pages are made with: templates, code, and this version."""
    loader = environment().loader
    assert loader is not None
    names = [name for name in sorted(loader.list_templates()) if name.endswith((".j2", ".css"))]
    texts = [loader.get_source(environment(), name)[0] for name in names]
    code = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return hashlib.sha256("\0".join([__version__, *texts, *code]).encode()).hexdigest()


def commit_text(commit: str) -> str:
    """Return a commit as pages show it: its begin, and whether it had changes."""
    plain, dirty, _ = commit.partition("-dirty")
    return plain[:_COMMIT] + dirty


def when(utc: str) -> str:
    """Return a time to the minute."""
    return utc[:16].replace("T", " ")


def states_without(model: ModelOnUnit, series: SiteSeries) -> str:
    """Return how the results ended that a series has no value of, in words."""
    pairs = zip(model.results, series.values, strict=True)
    counts = counts_of_states(result.state for result, value in pairs if value is None)
    return ", ".join(
        f"{count:,} {word_of(state) if count == 1 else STATES[state]}"
        for state, count in counts.items()
        if count
    )


def style() -> bytes:
    """Return the style sheet of all pages."""
    return f"{report_environment.source('style.css')}\n{_source('site.css')}".encode()


def script() -> bytes:
    """Return the script of all pages."""
    return f"{report_environment.source('script.js')}\n{_source('site.js')}".encode()


def _source(name: str) -> str:
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def _rendered(template: str, root: str, title: str, **content: Any) -> bytes:
    page = environment().get_template(template).render(root=root, title=title, **content)
    return page.encode()


def model_files(model: ModelOnUnit, charted: Sequence[ChartedSeries]) -> dict[str, bytes]:
    """Return the pages of a model on a unit and of its series, and its data, by their paths."""
    files = {
        model.data: data_file("model", model),
        model.page: _rendered("model.html.j2", "../", model.title, model=model, charted=charted),
    }
    for item in charted:
        title = f"{item.series.title} of {model.title}"
        files[item.series.page] = _rendered(
            "series_page.html.j2",
            "../../",
            title,
            model=model,
            series=item.series,
            chart=item.chart,
        )
    return files


def data_file(name: str, record: object) -> bytes:
    """Return a script that hands a record to the page: pages on a disk may not fetch any."""
    text = msgspec.json.encode(record).decode().replace("<", "\\u003c")
    return f'window.etharness.take("{name}", {text});\n'.encode()


def matrix_of_models(models: Sequence[ModelOnUnit], newest_us: int) -> Matrix:
    """Arrange models by boards: in each cell how the newest results of each unit ended."""
    cells: dict[tuple[str, str], list[ModelOnUnit]] = {}
    for model in models:
        cells.setdefault((model.model, model.board), []).append(model)
    return matrix_of({key: _cell(some, newest_us) for key, some in cells.items()})


def _cell(models: Sequence[ModelOnUnit], newest_us: int) -> MatrixCell:
    states = [state_of_model(model) for model in models]
    order = sorted(range(len(models)), key=lambda n: URGENCY.index(states[n]))
    newest = max(models, key=lambda model: model.results[-1].started)
    links = []
    for place in order:
        model = models[place]
        names = (model.unit, model.method, model.settings)
        others = [(other.unit, other.method, other.settings) for other in models]
        apart = [name for n, name in enumerate(names) if len({other[n] for other in others}) > 1]
        result = model.results[-1]
        about = result.why or f"{model.title}: {when(result.started)}"
        if is_gone(model, newest_us):
            apart.append(f"no result since {result.started[:10]}")
        links.append(MatrixLink(states[place], ", ".join(apart), model.page, about))
    return MatrixCell(counts=counts_of_states(states), latest=_summary(newest), links=tuple(links))


def _summary(model: ModelOnUnit) -> RunSummary | None:
    time = execution_of(model)
    if time is None:
        return None
    return RunSummary(
        name=model.title,
        apart="",
        state=state_of_model(model),
        why="",
        board=model.board,
        model=model.model,
        kernels="",
        execution=time,
        memory=memory_of(model),
        slowest="",
        slowest_share="",
    )


def index_page(
    title: str,
    models: Sequence[ModelOnUnit],
    news: Mapping[NewsKind, Sequence[NewsItem]],
    matrix: Matrix,
    commits: Sequence[SiteCommit],
    nights: Sequence[SiteNight],
    running: RunningNight | None = None,
) -> bytes:
    """Return the first page: what is new, then the matrix, then commits and nights."""
    return _rendered(
        "index.html.j2",
        "",
        title,
        models=models,
        news=news,
        matrix=matrix,
        commits=commits,
        nights=nights,
        running=running,
        headline=headline(news, len(models)),
    )


def headline(news: Mapping[NewsKind, Sequence[NewsItem]], models: int) -> str:
    """Return what is new in a sentence; infrastructure failures are not part of it."""
    words: dict[NewsKind, str] = {
        "failed": "newly failed",
        "failing": "still failing",
        "slower": "slower",
        "larger": "larger",
        "fixed": "fixed",
        "faster": "faster or smaller",
        "gone": "gone",
    }
    parts = [f"{len(news[kind])} {word}" for kind, word in words.items() if news[kind]]
    noun = "model on a unit" if models == 1 else "models on units"
    return f"{models:,} {noun}: {', '.join(parts) or 'nothing new'}"


def commit_pages(commits: Sequence[SiteCommit]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each commit, and of all."""
    for commit in commits:
        title = f"Commit {commit_text(commit.commit)}"
        yield commit.page, _rendered("commit.html.j2", "../", title, commit=commit)
    yield "commits.html", _rendered("commits.html.j2", "", "Commits", commits=commits)


def night_pages(nights: Sequence[SiteNight]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each night, and of all."""
    for night in nights:
        yield night.page, _rendered("night_page.html.j2", "../", night.name, night=night)
    yield "nights.html", _rendered("nights.html.j2", "", "Nights", nights=nights)


def running_page(night: RunningNight, nights: Sequence[SiteNight]) -> bytes:
    """Return the page of a night that is under way; it leads to the results that are there."""
    page = next((found.page for found in nights if found.name == night.name), "")
    return _rendered("tonight.html.j2", "", night.name, night=night, page=page)


def compare_page(commits: Sequence[SiteCommit]) -> bytes:
    """Return the page that compares any two commits, by a script."""
    return _rendered("compare.html.j2", "", "Compare two commits", commits=commits)


class SearchEntry(msgspec.Struct, frozen=True, array_like=True):
    """Something that the search finds: what it is, its text, and its page."""

    kind: str
    text: str
    page: str


class SiteIndex(msgspec.Struct, frozen=True):
    """What the script needs of the whole site.

    Attributes:
        commits: All commits, oldest first.
        models: Data file, title and page of each model on a unit, and the numbers of its commits.
        deviations: Deviations of the noise from which a difference counts.
        words: Words for a series that grew or shrank, by its kind.
    """

    commits: tuple[str, ...]
    models: tuple[tuple[str, str, str, tuple[int, ...]], ...]
    deviations: float
    words: dict[str, tuple[str, str]]


def search_file(
    models: Sequence[ModelOnUnit], commits: Sequence[SiteCommit], nights: Sequence[SiteNight]
) -> bytes:
    """Return what the search finds: models on boards, their series, commits and nights."""
    entries = [SearchEntry("model", model.title, model.page) for model in models]
    entries += [
        SearchEntry("commit", f"{commit.commit} {when(commit.started)}", commit.page)
        for commit in reversed(commits)
    ]
    entries += [SearchEntry("night", night.name, night.page) for night in reversed(nights)]
    entries += [
        SearchEntry("number", f"{series.title} of {model.title} ({series.name})", series.page)
        for model in models
        for series in model.series
    ]
    return data_file("search", entries)


def index_file(models: Sequence[ModelOnUnit], commits: Sequence[SiteCommit]) -> bytes:
    """Return what the page that compares commits needs before it asks for data of models."""
    places = {commit.commit: place for place, commit in enumerate(commits)}
    return data_file(
        "index",
        SiteIndex(
            commits=tuple(places),
            models=tuple(
                (model.data, model.title, model.page, tuple(places[c] for c in model.commits()))
                for model in models
            ),
            deviations=DEVIATIONS,
            words=WORDS,
        ),
    )
