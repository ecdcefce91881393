"""Writes a site: reads a history, describes each model on a unit, and writes changed pages.

The site of a running night is updated by this module as a program (``python -m``). The night shares
neither memory nor the interpreter's lock with it, so nothing that happens here can end the night or
slow it down.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from harness import __version__
from harness.check.history.comparison import OTHER_WORDS, percentage
from harness.check.history.samples import occasion_of
from harness.config.project import default_history
from harness.errors import HarnessError
from harness.extensions.web.html.page import (
    Matrix,
    MatrixCell,
    MatrixLink,
    environment_with,
    matrix_of,
    require_libraries,
    source,
)
from harness.extensions.web.site import news
from harness.extensions.web.site.folder import SiteChanges, SiteFolder
from harness.extensions.web.site.models import (
    POINTS,
    ChartedSeries,
    ModelOnUnit,
    ResultGroup,
    SiteSeries,
    commit_page,
    data_path,
    describe_model,
    groups_of,
    night_page,
    site_results,
)
from harness.files import decode_json
from harness.history import open_store
from harness.history.store import Store
from harness.printing import print_text
from harness.records.nightly import NightVerdict, SiteRequest
from harness.records.result import microseconds
from harness.report.overview import RunSummary
from harness.report.words import URGENCY, counted, counts_of_states, counts_text, word_of
from harness.runs.history import add_results

if TYPE_CHECKING:
    from jinja2 import Environment

_T = TypeVar("_T")

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
    found = environment_with("harness.extensions.web.site")
    found.globals.update(
        POLICY=_POLICY,
        REFRESH_S=news.REFRESH_S,
        RUNNING_PAGE=news.PAGE,
        TITLES=news.TITLES,
        VERSION=__version__,
        change_text=news.change_text,
        commit_page=commit_page,
        commit_text=commit_text,
        execution_of=news.execution_of,
        night_page=night_page,
        states_without=states_without,
        percentage=percentage,
        tracked=news.tracked,
        unit_of=news.unit_of,
        value_text=news.value_text,
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
    code = [path.read_text() for path in sorted(Path(__file__).parents[1].rglob("*.py"))]
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
    return counts_text(counts)


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
    for series, chart in charted:
        title = f"{series.title} of {model.title}"
        files[series.page] = _rendered(
            "series_page.html.j2", "../../", title, model=model, series=series, chart=chart
        )
    return files


def data_file(name: str, record: object) -> bytes:
    """Return a script that hands a record to the page: pages on a disk may not fetch any."""
    text = msgspec.json.encode(record).decode().replace("<", "\\u003c")
    return f'window.etharness.take("{name}", {text});\n'.encode()


def matrix_of_models(standings: Sequence[news.Standing]) -> Matrix:
    """Arrange models by boards: in each cell how the newest runs on each unit ended."""
    tested = [standing.tested for standing in standings if standing.tested is not None]
    newest = max((microseconds(model.results[-1].started) for model in tested), default=0)
    cells: dict[tuple[str, str], list[news.Standing]] = {}
    for standing in standings:
        board, _, model = standing.key
        cells.setdefault((model, board), []).append(standing)
    return matrix_of({key: _cell(some, newest) for key, some in cells.items()})


def _cell(standings: Sequence[news.Standing], newest_us: int) -> MatrixCell:
    counts = counts_of_states(standing.state for standing in standings)
    began = [(model.results[-1].started, each) for each in standings if (model := each.tested)]
    newest = max(began, key=lambda item: item[0], default=None)
    links = []
    others = [_names(standing) for standing in standings]
    for standing in sorted(standings, key=lambda item: URGENCY.index(item.state)):
        names = _names(standing)
        apart = [name for n, name in enumerate(names) if len({other[n] for other in others}) > 1]
        about = standing.why
        if (model := standing.tested) is not None:
            started = model.results[-1].started
            about = about or f"{model.title}: {when(started)}"
            if news.is_gone(model, newest_us):
                apart.append(f"no result since {started[:10]}")
        text = ", ".join(filter(None, apart))
        links.append(MatrixLink(standing.state, text, standing.page, about))
    return MatrixCell(counts, None if newest is None else _summary(newest[1]), tuple(links))


def _names(standing: news.Standing) -> tuple[str, str, str]:
    """Return what may tell a standing from others of the same model and board."""
    (_, unit, _), model = standing.key, standing.tested
    return (unit, model.method, model.settings) if model else (unit, "", "")


def _summary(standing: news.Standing) -> RunSummary | None:
    model = standing.tested
    time = None if model is None else news.execution_of(model)
    if model is None or time is None:
        return None
    return RunSummary(
        name=model.title,
        apart="",
        state=standing.state,
        why="",
        board=model.board,
        model=model.model,
        kernels="",
        execution=time,
        memory=news.memory_of(model),
        slowest="",
        slowest_share="",
    )


def headline(found: Mapping[news.NewsKind, Sequence[news.NewsItem]], matrix: Matrix) -> str:
    """Return what is new in a sentence."""
    words: dict[news.NewsKind, tuple[str, str]] = {
        "failed": ("newly failed", "newly failed"),
        "failing": ("still failing", "still failing"),
        "slower": ("slower", "slower"),
        "larger": ("larger", "larger"),
        "fixed": ("fixed", "fixed"),
        "faster": ("faster or smaller", "faster or smaller"),
        "gone": ("gone", "gone"),
        "set-up": ("with a set-up error", "with set-up errors"),
        "infrastructure": ("with an infrastructure failure", "with infrastructure failures"),
    }
    parts = [
        f"{len(found[kind]):,} {several if len(found[kind]) > 1 else one}"
        for kind, (one, several) in words.items()
        if found[kind]
    ]
    models, boards = len(matrix.rows), len(matrix.boards)
    subject = f"{counted(models, 'model')} on {counted(boards, 'board')}"
    return f"{subject}: {', '.join(parts) or 'no changes'}"


def _with_neighbours(items: Sequence[_T]) -> Iterator[tuple[_T, dict[str, _T | None]]]:
    """Yield each item with those before and after it; None at the ends."""
    for item, before, after in zip(items, (None, *items), (*items[1:], None), strict=False):
        yield item, {"before": before, "after": after}


def commit_pages(commits: Sequence[news.SiteCommit]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each commit, and of all."""
    for commit, beside in _with_neighbours(commits):
        title = f"Commit {commit_text(commit.commit)}"
        yield commit.page, _rendered("commit.html.j2", "../", title, commit=commit, **beside)
    yield "commits.html", _rendered("commits.html.j2", "", "Commits", commits=commits)


def night_pages(nights: Sequence[news.SiteNight]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each night, and of all."""
    for night, beside in _with_neighbours(nights):
        yield night.page, _rendered("night_page.html.j2", "../", night.name, night=night, **beside)
    yield "nights.html", _rendered("nights.html.j2", "", "Nights", nights=nights)


def search_file(
    models: Sequence[ModelOnUnit],
    commits: Sequence[news.SiteCommit],
    nights: Sequence[news.SiteNight],
) -> bytes:
    """Return what the search finds: kind, text and page of models, commits, nights and series."""
    entries = [("model", model.title, model.page) for model in models]
    entries += [
        ("commit", f"{commit.commit} {when(commit.started)}", commit.page)
        for commit in reversed(commits)
    ]
    entries += [("night", night.name, night.page) for night in reversed(nights)]
    entries += [
        ("number", f"{series.title} of {model.title} ({series.name})", series.page)
        for model in models
        for series in model.series
    ]
    return data_file("search", entries)


def index_file(models: Sequence[ModelOnUnit], commits: Sequence[news.SiteCommit]) -> bytes:
    """Return what the page that compares commits needs before it asks for data of models.

    All commits, the oldest first; data file, title, page and places of the commits of each model;
    and the words for numbers that only one of two commits has.
    """
    places = {commit.commit: place for place, commit in enumerate(commits)}
    index = {
        "commits": [*places],
        "models": [
            (model.data, model.title, model.page, [places[c] for c in model.commits()])
            for model in models
        ],
        "appeared": OTHER_WORDS["appeared"],
        "vanished": OTHER_WORDS["vanished"],
    }
    return data_file("index", index)


Progress = Callable[[str, int, int], None]
"""Called with a stage, the number of its steps that are done, and of all."""

_DATA_BEGIN = b'window.etharness.take("model", '


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """How a site is written.

    Attributes:
        title: Title of its first page.
        running: A night that is under way, or has just ended; None for the history alone.
    """

    title: str = "Results"
    running: news.RunningNight | None = None


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Show no progress."""


def write_site(
    store: Store,
    directory: Path,
    options: SiteOptions = SiteOptions(),
    progress: Progress = _silent,
) -> SiteChanges:
    """Write a static site of all results of a history, or bring it up to date.

    Only files whose content changed are written, and those of what is gone are removed. The site is
    the same, byte for byte, whenever it is written from the same history. It can be written again
    at any time, also while results are added.

    Args:
        store: The history.
        directory: Folder of the site: new, empty, or of a site.
        options: How it is written.
        progress: Shows how far it is.

    Raises:
        UsageError: The folder is not empty and not a site, or a library is not installed.
        InfrastructureError: The history or the folder cannot be read or written.
    """
    require_libraries()
    folder = SiteFolder(directory)
    progress("reading", 0, 0)
    groups = groups_of(store, POINTS)
    verdicts = _verdicts(store, options.running)
    shared = Counter(occasion_of(entry.provenance) for group in groups for entry in group.entries)
    shared.update(verdict.night for verdict in verdicts)  # a night may have one result only
    models = []
    for done, group in enumerate(groups):
        progress("models", done, len(groups))
        models.append(_write_model(store, folder, group, shared))
    progress("pages", 0, 0)
    _write_common(folder, models, verdicts, options)
    return folder.finish(sum(len(group.entries) + group.left_out for group in groups))


def _write_model(
    store: Store, folder: SiteFolder, group: ResultGroup, shared: Counter[str]
) -> ModelOnUnit:
    results = site_results(group.entries, shared)
    digest = group.digest(edition() + repr([result.night for result in results]))
    if (kept := folder.kept_group(data_path(group.slug), digest)) is not None:
        text = kept.removeprefix(_DATA_BEGIN).removesuffix(b");\n")
        with suppress(msgspec.DecodeError):  # somebody changed the file: write it again
            return decode_json(text, type_=ModelOnUnit)
    model, charted = describe_model(group, results, group.history(store))
    folder.add_group(model.data, digest, model_files(model, charted))
    return model


def _verdicts(store: Store, running: news.RunningNight | None) -> list[NightVerdict]:
    """Return the verdicts of nightly runs, with that of one that is under way."""
    found = {verdict.night: verdict for verdict in store.nights()}
    if running is not None:
        found[running.name] = running.verdict
    return [*found.values()]


def _write_common(
    folder: SiteFolder,
    models: list[ModelOnUnit],
    verdicts: Sequence[NightVerdict],
    options: SiteOptions,
) -> None:
    """Write the pages that are about several models."""
    commits, nights = news.commits_of(models), news.nights_of(models, verdicts)
    standings = news.standings_of(models, verdicts)
    matrix, found = matrix_of_models(standings), news.news_of(standings)
    folder.add(STYLE, f"{source('style.css')}\n{_source('site.css')}".encode())
    folder.add(SCRIPT, f"{source('script.js')}\n{_source('site.js')}".encode())
    folder.add("data/index.js", index_file(models, commits))
    folder.add("data/search.js", search_file(models, commits, nights))
    for name, content in (*commit_pages(commits), *night_pages(nights)):
        folder.add(name, content)
    title = "Compare two commits"
    folder.add("compare.html", _rendered("compare.html.j2", "", title, commits=commits))
    if (night := options.running) is not None:
        page = next((known.page for known in nights if known.name == night.name), "")
        folder.add(news.PAGE, _rendered("tonight.html.j2", "", night.name, night=night, page=page))
    index = _rendered(
        "index.html.j2",
        "",
        options.title,
        models=models,
        news=found,
        matrix=matrix,
        commits=commits,
        nights=nights,
        running=options.running,
        headline=headline(found, matrix),
    )
    folder.add("index.html", index)


_NICE = 10


def site_command(directory: Path) -> list[str]:
    """Return the command that updates a site; the file with a ``SiteRequest`` is to be added.

    Raises:
        UsageError: The folder is not empty and not a site, or a library is not installed.
    """
    require_libraries()
    SiteFolder(directory)
    return [sys.executable, "-m", __name__]


def update(request: SiteRequest) -> None:
    """Add results to the history of ``$ETHARNESS_HISTORY`` and write the site.

    Raises:
        HarnessError: The history or the site cannot be written.
    """
    # Those that the history refuses are reported by the night at its end.
    url = default_history()
    add_results(url, [Path(directory) for directory in request.directories])
    with open_store(url) as store:
        write_site(
            store, Path(request.site), SiteOptions(running=news.running_night(request.night))
        )


def main(file: str) -> int:
    """Do what a file says; return the exit code."""
    if sys.platform != "win32":
        os.nice(_NICE)
    try:
        update(decode_json(Path(file).read_bytes(), type_=SiteRequest))
    except HarnessError as error:
        print_text(error.message, error=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
