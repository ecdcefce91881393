"""Writes a site: reads a history, describes each model on a unit, and writes changed pages.

The site of a running night is updated by this module as a program (``python -m``). The night shares
neither memory nor the interpreter's lock with it, so nothing that happens here can end the night or
slow it down.

A manifest in its folder lists every file by its digest. It also tells that the folder is a site, so
that no other folder is ever written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from harness import __version__
from harness.check.history.comparison import CHANGE_WORDS, OTHER_WORDS, judgement_word, percentage
from harness.check.history.samples import occasion_of
from harness.config.project import default_history
from harness.errors import HarnessError, HostError, UsageError
from harness.extensions.web.html.page import (
    environment_with,
    matrix_cell,
    matrix_link,
    matrix_of,
    minute_text,
    require_libraries,
    source,
)
from harness.extensions.web.html.svg import View
from harness.extensions.web.site import news
from harness.extensions.web.site.causes import causes_of, relative_of, size_text
from harness.extensions.web.site.checkout import subjects_of
from harness.extensions.web.site.models import (
    BASELINE,
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
from harness.files import decode_json, display_path, write_atomic
from harness.formatting import commit_text
from harness.history import open_store
from harness.history.store import Store
from harness.printing import print_text
from harness.records.nightly import NightSoFar, NightVerdict
from harness.records.result import microseconds
from harness.records.verdict import Judgement
from harness.report.overview import RunSummary
from harness.report.words import URGENCY, brief, counted, counts_of_states, counts_text, word_of
from harness.runs.history import add_results

if TYPE_CHECKING:
    from jinja2 import Environment


MANIFEST: Final = "etharness-site.json"

_VERSION: Final = 1


class SiteManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a site.

    Attributes:
        version: Version of this format.
        files: SHA-256 of each file, by its path.
        groups: What the files of a model on a unit were made of: a digest by the path of its data.
        title: Name of the project; empty if none was given.
        subjects: Subjects of commits, which a later checkout may not have.
    """

    version: int = _VERSION
    files: dict[str, str] = {}
    groups: dict[str, str] = {}
    title: str = ""
    subjects: dict[str, str] = {}


class SiteChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What writing a site did.

    Attributes:
        directory: Folder of the site.
        results: Results of the history.
        written: Files that were written, sorted.
        removed: Files that were removed, because what they showed is gone, sorted.
        unchanged: Number of files that stayed as they were.
    """

    directory: str
    results: int
    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


class SiteFolder:
    """The folder of a site while it is written.

    Attributes:
        directory: The folder.
        title: Name of the project, for its pages; that of the site before, if it is not changed.
        subjects: Subjects of commits, those of the site before among them.
    """

    def __init__(self, directory: Path) -> None:
        """Read the manifest of an existing site; nothing is written yet.

        Raises:
            UsageError: The folder is not empty and not a site, or its manifest is damaged.
        """
        self.directory = directory
        self._before = _read_manifest(directory)
        self.title = self._before.title
        self.subjects = dict(self._before.subjects)
        self._files: dict[str, str] = {}
        self._groups: dict[str, str] = {}
        self._written: list[str] = []
        self._made: set[Path] = set()
        self._marked = False

    def kept_group(self, data: str, digest: str) -> bytes | None:
        """Keep all files of a model on a unit if they were made of the same; return its data.

        Args:
            data: Path of its data file.
            digest: Digest of what it would be made of.
        """
        if self._before.groups.get(data) != digest:
            return None
        slug = data.removeprefix("data/").removesuffix(".js")
        files = [data, f"models/{slug}.html"]
        files += [name for name in self._before.files if name.startswith(f"series/{slug}/")]
        if not all(self._is_there(name) for name in files):
            return None
        for name in files:
            self._files[name] = self._before.files[name]
        self._groups[data] = digest
        return (self.directory / data).read_bytes()

    def add_group(self, data: str, digest: str, files: Mapping[str, bytes]) -> None:
        """Write all files of a model on a unit."""
        for name, content in files.items():
            self.add(name, content)
        self._groups[data] = digest

    def add(self, name: str, content: bytes) -> None:
        """Write a file unless it has this content.

        Raises:
            HostError: It cannot be written.
        """
        self._files[name] = hashlib.sha256(content).hexdigest()
        if self._read(name) != content:
            self._write(name, content)
            self._written.append(name)

    def keep(self, name: str) -> bool:
        """Leave a file to the process that writes it; return whether it is there."""
        content = self._read(name)
        if content is not None:
            self._files[name] = hashlib.sha256(content).hexdigest()
        return content is not None

    def finish(self, results: int) -> SiteChanges:
        """Write the manifest and remove files that no page is of any more.

        Raises:
            HostError: The manifest cannot be written.
        """
        removed = sorted(self._before.files.keys() - self._files.keys())
        manifest = SiteManifest(
            files=dict(sorted(self._files.items())),
            groups=dict(sorted(self._groups.items())),
            title=self.title,
            subjects=dict(sorted(self.subjects.items())),
        )
        # Before files are removed: a site that is cut off here has files too many, not too few.
        if manifest != self._before:
            self._write(MANIFEST, _encoded(manifest))
        for name in removed:
            with contextlib.suppress(OSError):
                (self.directory / name).unlink()
        for folder in sorted({(self.directory / name).parent for name in removed}, reverse=True):
            with contextlib.suppress(OSError):  # not empty
                if folder != self.directory:
                    folder.rmdir()
        return SiteChanges(
            directory=display_path(self.directory),
            results=results,
            written=tuple(sorted(self._written)),
            removed=tuple(removed),
            unchanged=len(self._files) - len(self._written),
        )

    def _is_there(self, name: str) -> bool:
        """Whether a file still is what the manifest says."""
        content = self._read(name)
        known = self._before.files.get(name)
        return content is not None and hashlib.sha256(content).hexdigest() == known

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.directory / name).read_bytes()
        except OSError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        if not self._marked:
            # First of all: a folder that is cut off while it is filled must still be ours.
            self._marked = True
            if not (self.directory / MANIFEST).exists():
                self._write(MANIFEST, _encoded(self._before))
        path = self.directory / name
        try:
            if path.parent not in self._made:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._made.add(path.parent)
            write_atomic(path, content)
        except OSError as error:
            raise HostError.of(error, f"cannot write {display_path(path)}") from error


def _encoded(manifest: SiteManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def _read_manifest(directory: Path) -> SiteManifest:
    file = directory / MANIFEST
    again = f"write the site to a new folder, or remove {display_path(directory)} and try again"
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if not _is_empty(directory):
            raise UsageError(
                f"{display_path(directory)} is not empty and not a site",
                hint="give a new or empty folder, or the folder of a site that etharness wrote",
            ) from None
        return SiteManifest()
    except OSError as error:
        raise UsageError(
            f"cannot read {display_path(file)}: {error.strerror}", hint=again
        ) from error
    try:
        found = decode_json(content, type_=SiteManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{display_path(file)} is damaged: {error}", hint=again) from error
    if found.version != _VERSION:
        raise UsageError(
            f"{display_path(file)} is of version {found.version}, this package writes {_VERSION}",
            hint=again,
        )
    outside = [name for name in found.files if not _is_inside(name)]
    if outside:
        raise UsageError(f"{display_path(file)} names a file outside: {outside[0]!r}", hint=again)
    return found


def _is_inside(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and name != ""


def _is_empty(directory: Path) -> bool:
    try:
        found: Iterable[Path] = directory.iterdir()
        return not any(found)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        raise UsageError(
            f"{display_path(directory)} is not a folder", hint="give a new or empty folder"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read {display_path(directory)}: {error.strerror}",
            hint="give a folder that can be read and written",
        ) from error


_T = TypeVar("_T")

STYLE: Final = "site.css"
SCRIPT: Final = "site.js"

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Pages load the style, the script and the data of this site, and nothing else."""


_CHANGED: Final = ("regression", "suspect", "improvement")
"""What a cell of the matrix shows."""

_SHOWN_CAUSES: Final = 3
"""Causes on the first screen; the others are folded."""


@cache
def environment() -> Environment:
    """Return the templates of a site, which use those of reports.

    Raises:
        UsageError: A library is not installed.
    """
    found = environment_with("harness.extensions.web.site")
    found.globals.update(
        BASELINE=BASELINE,
        POLICY=_POLICY,
        LATE_S=news.LATE_S,
        SHOWN_CAUSES=_SHOWN_CAUSES,
        REFRESH_S=news.REFRESH_S,
        RUNNING_PAGE=news.PAGE,
        TITLES=news.TITLES,
        VERSION=__version__,
        change_text=news.change_text,
        commit_page=commit_page,
        commit_text=commit_text,
        execution_of=news.execution_of,
        kinds_text=_kinds_text,
        night_page=night_page,
        size_text=size_text,
        states_without=states_without,
        percentage=percentage,
        tracked=news.tracked,
        undecided=news.is_undecided,
        unit_of=news.unit_of,
        value_text=news.value_text,
        when=minute_text,
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


def states_without(model: ModelOnUnit, series: SiteSeries) -> str:
    """Return how the results ended that a series has no value of, in words."""
    pairs = zip(model.results, series.values, strict=True)
    counts = counts_of_states(result.state for result, value in pairs if value is None)
    return counts_text(counts)


def _source(name: str) -> str:
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def _rendered(
    template: str, folder: SiteFolder | None, root: str, title: str, **content: Any
) -> bytes:
    """Return a page of a site; without a folder ``content`` has the name of the site."""
    if folder is not None:
        content |= {"site": folder.title or _TITLE, "SUBJECTS": folder.subjects}
    page = environment().get_template(template)
    return page.render(root=root, title=title, **content).encode()


def model_files(
    folder: SiteFolder, model: ModelOnUnit, charted: Sequence[ChartedSeries]
) -> dict[str, bytes]:
    """Return the pages of a model on a unit and of its series, and its data, by their paths."""
    files = {
        model.data: data_file("model", model),
        model.page: _rendered(
            "model.html.j2", folder, "../", model.title, model=model, charted=charted
        ),
    }
    for series, chart in charted:
        title = f"{series.title} of {model.title}"
        files[series.page] = _rendered(
            *("series_page.html.j2", folder, "../../", title),
            model=model,
            series=series,
            chart=chart,
        )
    return files


def data_file(name: str, record: object) -> bytes:
    """Return a script that hands a record to the page: pages on a disk may not fetch any."""
    text = msgspec.json.encode(record).decode().replace("<", "\\u003c")
    return f'window.etharness.take("{name}", {text});\n'.encode()


def matrix_of_models(standings: Sequence[news.Standing]) -> View:
    """Arrange models by boards: in each cell how the newest runs on each unit ended."""
    tested = [standing.tested for standing in standings if standing.tested is not None]
    newest = max((microseconds(model.results[-1].started) for model in tested), default=0)
    cells: dict[tuple[str, str], list[news.Standing]] = {}
    for standing in standings:
        board, _, model = standing.key
        cells.setdefault((model, board), []).append(standing)
    found = {key: _cell(some, newest) for key, some in cells.items()}
    states = {cell["state"] for cell in found.values()}
    return matrix_of(found) | {"states": [state for state in URGENCY if state in states]}


def _cell(standings: Sequence[news.Standing], newest_us: int) -> View:
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
            about = about or f"{model.title}: {minute_text(started)}"
            if news.is_gone(model, newest_us):
                apart.append(f"no result since {started[:10]}")
        text = ", ".join(filter(None, apart))
        links.append(matrix_link(standing.state, text, standing.page, about))
    shown = None if newest is None else newest[1]
    cell = matrix_cell(counts, None if shown is None else _summary(shown), links)
    changes = () if shown is None or shown.tested is None else [*_changes(shown.tested)]
    worst = max((abs(share) for share, *_ in changes), default=0.0)
    time = cell["latest"].execution.value if cell["latest"] else None
    texts = [(look, text) for _, look, text in changes]
    if cell["state"] == "pass" or (cell["state"] == "regression" and texts):
        cell["text"] = ""  # its sign says it, or the change beside it
    if cell["state"] == "infrastructure":
        cell["text"] = "" if texts else str(cell["state"])
    return cell | {"changes": texts, "worst": round(worst, 4), "time": time}


def _changes(model: ModelOnUnit) -> Iterator[tuple[float, str, str]]:
    """Yield what changed of a model on a unit: its execution, then its memory, or another number.

    Each with its size as a share, its colour, and its sign and word.
    """
    changed = [s for s in model.series if s.judgement in _CHANGED or news.is_undecided(s)]
    shown = [series for series in changed if series.role] or changed[:1]
    for role in ("execution", "peak", ""):
        series = next((one for one in shown if one.role == role), None)
        if series is not None and (share := relative_of(series)) is not None:
            judgement: Judgement = "improvement" if share < 0 else "regression"
            what = {"execution": "", "peak": "memory "}.get(role)
            if what is None:
                what = f"{series.title.removeprefix('median of ')} "
            text = f"{what}{100 * share:+.1f} % {judgement_word(judgement, series.kind)}"
            yield share, judgement, text


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


_KINDS: Final[dict[news.NewsKind, str]] = {
    "failed": "newly failed",
    "failing": "still failing",
    "slower": "slower",
    "larger": "larger",
    "fixed": "fixed",
    "faster": "faster or smaller",
    "gone": "gone",
    "set-up": "with set-up errors",
    "infrastructure": "with infrastructure failures",
}


def headline(found: Mapping[news.NewsKind, Sequence[news.NewsItem]], matrix: View) -> str:
    """Return how many models on boards are new in which way."""
    parts = [f"{len(found[kind]):,} {text}" for kind, text in _KINDS.items() if found[kind]]
    models, boards = len(matrix["rows"]), len(matrix["boards"])
    subject = f"{counted(models, 'model')} on {counted(boards, 'board')}"
    return f"{subject}: {', '.join(parts) or 'no changes'}"


def _kinds_text(causes: Sequence[View]) -> str:
    """Return of which kinds causes are."""
    return ", ".join(dict.fromkeys(news.TITLES[cause["kind"]].lower() for cause in causes))


def _with_neighbours(items: Sequence[_T]) -> Iterator[tuple[_T, dict[str, _T | None]]]:
    """Yield each item with those before and after it; None at the ends."""
    for item, before, after in zip(items, (None, *items), (*items[1:], None), strict=False):
        yield item, {"before": before, "after": after}


def commit_pages(folder: SiteFolder, commits: Sequence[View]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each commit, and of all."""
    for commit, beside in _with_neighbours(commits):
        title = f"Commit {commit_text(commit['commit'])}"
        yield (
            commit["page"],
            _rendered("commit.html.j2", folder, "../", title, commit=commit, **beside),
        )
    yield "commits.html", _rendered("commits.html.j2", folder, "", "Commits", commits=commits)


def night_pages(folder: SiteFolder, nights: Sequence[View]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each night, and of all."""
    for night, beside in _with_neighbours(nights):
        content = _rendered(
            "night_page.html.j2", folder, "../", night["name"], night=night, **beside
        )
        yield night["page"], content
    yield "nights.html", _rendered("nights.html.j2", folder, "", "Nights", nights=nights)


def search_file(
    models: Sequence[ModelOnUnit],
    commits: Sequence[View],
    nights: Sequence[View],
) -> bytes:
    """Return what the search finds: kind, text and page of models, commits, nights and series."""
    entries = [("model", model.title, model.page) for model in models]
    entries += [
        ("commit", f"{commit['commit']} {minute_text(commit['started'])}", commit["page"])
        for commit in reversed(commits)
    ]
    entries += [("night", night["name"], night["page"]) for night in reversed(nights)]
    entries += [
        ("number", f"{series.title} of {model.title} ({series.name})", series.page)
        for model in models
        for series in model.series
    ]
    return data_file("search", entries)


def index_file(models: Sequence[ModelOnUnit], commits: Sequence[View]) -> bytes:
    """Return what the page that compares commits needs before it asks for data of models.

    All commits, the oldest first; data file, title, page and places of the commits of each model;
    and the words for changes, and for numbers that only one of two commits has.
    """
    places = {commit["commit"]: place for place, commit in enumerate(commits)}
    index = {
        "commits": [*places],
        "models": [
            (model.data, model.title, model.page, [places[c] for c in model.commits()])
            for model in models
        ],
        "appeared": OTHER_WORDS["appeared"],
        "vanished": OTHER_WORDS["vanished"],
        "words": CHANGE_WORDS,
    }
    return data_file("index", index)


_TITLE: Final = "Results"
"""Title of a site without one."""

Progress = Callable[[str, int, int], None]
"""Called with a stage, the number of its steps that are done, and of all."""

_DATA_BEGIN = b'window.etharness.take("model", '


def write_site(
    store: Store,
    directory: Path,
    title: str = "",
    running: View | None = None,
    progress: Progress = lambda *_: None,
) -> SiteChanges:
    """Write a static site of all results of a history, or bring it up to date.

    Only files whose content changed are written, and those of what is gone are removed. The site is
    the same, byte for byte, whenever it is written from the same history. It can be written again
    at any time, also while results are added.

    Args:
        store: The history.
        directory: Folder of the site: new, empty, or of a site.
        title: Name of the project, for all pages; empty for that of the site before.
        running: A night that is under way, or has just ended; None for the history alone.
        progress: Shows how far it is.

    Raises:
        UsageError: The folder is not empty and not a site, or a library is not installed.
        InfrastructureError: The history or the folder cannot be read or written.
    """
    require_libraries()
    folder = SiteFolder(directory)
    progress("reading", 0, 0)
    groups = groups_of(store, POINTS)
    folder.title = title or folder.title
    commits = {brief(r.provenance.commit) for group in groups for r in group.entries}
    known = {commit: text for commit, text in folder.subjects.items() if commit in commits}
    folder.subjects = known | subjects_of(commits - known.keys() - {""})
    verdicts = _verdicts(store, running)
    shared = Counter(occasion_of(entry.provenance) for group in groups for entry in group.entries)
    shared.update(verdict.night for verdict in verdicts)  # a night may have one result only
    models = []
    for done, group in enumerate(groups):
        progress("models", done, len(groups))
        models.append(_write_model(store, folder, group, shared))
    progress("pages", 0, 0)
    _write_common(folder, models, verdicts, running)
    return folder.finish(sum(len(group.entries) + group.left_out for group in groups))


def _write_model(
    store: Store, folder: SiteFolder, group: ResultGroup, shared: Counter[str]
) -> ModelOnUnit:
    results = site_results(group.entries, shared)
    commits = {result.commit for result in results}
    about = [result.night for result in results], folder.title
    subjects = [(commit, folder.subjects.get(commit)) for commit in sorted(commits)]
    digest = group.digest(edition() + repr((about, subjects)))
    if (kept := folder.kept_group(data_path(group.slug), digest)) is not None:
        text = kept.removeprefix(_DATA_BEGIN).removesuffix(b");\n")
        with suppress(msgspec.DecodeError):  # somebody changed the file: write it again
            return decode_json(text, type_=ModelOnUnit)
    model, charted = describe_model(group, results, group.history(store), folder.subjects)
    folder.add_group(model.data, digest, model_files(folder, model, charted))
    return model


def _verdicts(store: Store, running: View | None) -> list[NightVerdict]:
    """Return the verdicts of nightly runs, with that of one that is under way."""
    found = {verdict.night: verdict for verdict in store.nights()}
    if running is not None:
        found[running["name"]] = running["verdict"]
    return [*found.values()]


def _add_style(folder: SiteFolder) -> None:
    folder.add(STYLE, f"{source('style.css')}\n{_source('site.css')}".encode())
    folder.add(SCRIPT, f"{source('script.js')}\n{_source('site.js')}".encode())


def _write_common(
    folder: SiteFolder,
    models: list[ModelOnUnit],
    verdicts: Sequence[NightVerdict],
    running: View | None,
) -> None:
    """Write the pages that are about several models."""
    commits, nights = news.commits_of(models), news.nights_of(models, verdicts)
    standings = news.standings_of(models, verdicts)
    matrix, found = matrix_of_models(standings), news.news_of(standings)
    _add_style(folder)
    folder.add("data/index.js", index_file(models, commits))
    folder.add("data/search.js", search_file(models, commits, nights))
    for name, content in (*commit_pages(folder, commits), *night_pages(folder, nights)):
        folder.add(name, content)
    compare = _rendered("compare.html.j2", folder, "", "Compare two commits", commits=commits)
    folder.add("compare.html", compare)
    # While the night runs, it writes this page itself.
    if running is not None and (running["over"] or not folder.keep(news.PAGE)):
        has_page = any(night["name"] == running["name"] for night in nights)
        folder.add(news.PAGE, _running_page(running, has_page, folder.title))
    index = _rendered(
        "index.html.j2",
        folder,
        "",
        folder.title or _TITLE,
        models=models,
        causes=causes_of(found, verdicts),
        matrix=matrix,
        commits=commits,
        nights=nights,
        running=running,
        headline=headline(found, matrix),
        newest=max((model.results[-1].started for model in models), default=""),
    )
    folder.add("index.html", index)


def _running_page(running: View, has_page: bool, title: str) -> bytes:
    """Return the page of a night as far as it is; ``has_page``: its results have one."""
    page, site = night_page(running["name"]) if has_page else "", title or _TITLE
    of = "tonight.html.j2", None, "", running["name"]
    return _rendered(*of, night=running, page=page, site=site)


_NICE = 10


def site_command(directory: Path) -> tuple[list[str], Callable[[NightSoFar], None]]:
    """Return what updates a site while a night runs.

    Returns:
        The command that writes the whole site, to which the file with a ``NightSoFar`` is to be
        added; and a function that writes the page of the running night alone, in a time that does
        not depend on the size of the history.

    Raises:
        UsageError: The folder is not empty and not a site, or a library is not installed.
    """
    require_libraries()
    title = SiteFolder(directory).title
    command = [sys.executable, "-m", __name__, str(directory)]
    return command, partial(_write_running, directory, title)


def _write_running(directory: Path, title: str, night: NightSoFar) -> None:
    """Write the page of a running night, and in a new site what it needs.

    Raises:
        HarnessError: It cannot be written.
    """
    running = news.running_night(night)
    if not (directory / SCRIPT).exists():
        folder = SiteFolder(directory)
        _add_style(folder)
    has_page = (directory / night_page(running["name"])).exists()
    try:
        page = _running_page(running, has_page, title or night.document.name)
        write_atomic(directory / news.PAGE, page)
    except OSError as error:
        raise HostError.of(error, f"cannot write {display_path(directory / news.PAGE)}") from error


def update(directory: Path, night: NightSoFar) -> None:
    """Add results to the history of ``$ETHARNESS_HISTORY`` and write the site.

    Raises:
        HarnessError: The history or the site cannot be written.
    """
    # Those that the history refuses are reported by the night at its end.
    url = default_history()
    add_results(url, [Path(path) for path in night.directories])
    with open_store(url) as store:
        title = SiteFolder(directory).title or night.document.name
        write_site(store, directory, title, running=news.running_night(night))


def main(directory: str, file: str) -> int:
    """Update a site as a file says; return the exit code."""
    if sys.platform != "win32":
        os.nice(_NICE)
    try:
        night = decode_json(Path(file).read_bytes(), type_=NightSoFar)
        update(Path(directory), night)
    except HarnessError as error:
        print_text(error.message, error=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
