"""Writes a site: reads a history, describes each model on a unit, and writes what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.check.history.samples import occasion_of
from harness.history.store import Store
from harness.records.decode_json import decode_json
from harness.records.result import microseconds
from harness.report.html.environment import require_libraries
from harness.site import pages
from harness.site.badge import badge_of
from harness.site.commits import commits_of
from harness.site.documents import ModelOnUnit, data_path
from harness.site.folder import SiteChanges, SiteFolder
from harness.site.groups import ResultGroup, groups_of, site_results
from harness.site.models import POINTS, describe_model
from harness.site.news import news_of
from harness.site.nights import nights_of
from harness.site.running import PAGE, RunningNight

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
    running: RunningNight | None = None


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
    shared = Counter(occasion_of(entry.provenance) for group in groups for entry in group.entries)
    models = []
    for done, group in enumerate(groups):
        progress("models", done, len(groups))
        models.append(_write_model(store, folder, group, shared))
    progress("pages", 0, 0)
    _write_common(folder, models, options)
    return folder.finish(sum(len(group.entries) + group.left_out for group in groups))


def _write_model(
    store: Store, folder: SiteFolder, group: ResultGroup, shared: Counter[str]
) -> ModelOnUnit:
    results = site_results(group.entries, shared)
    digest = group.digest(pages.edition() + repr([result.night for result in results]))
    if (kept := folder.kept_group(data_path(group.slug), digest)) is not None:
        text = kept.removeprefix(_DATA_BEGIN).removesuffix(b");\n")
        return decode_json(text, type_=ModelOnUnit)
    model, charted = describe_model(group, results, group.history(store))
    folder.add_group(model.data, digest, pages.model_files(model, charted))
    return model


def _write_common(folder: SiteFolder, models: list[ModelOnUnit], options: SiteOptions) -> None:
    """Write the pages that are about several models."""
    commits, nights = commits_of(models), nights_of(models)
    newest = max((microseconds(model.results[-1].started) for model in models), default=0)
    matrix = pages.matrix_of_models(models, newest)
    news = news_of(models)
    folder.add(pages.STYLE, pages.style())
    folder.add(pages.SCRIPT, pages.script())
    folder.add("data/index.js", pages.index_file(models, commits))
    folder.add("data/search.js", pages.search_file(models, commits, nights))
    for name, content in (*pages.commit_pages(commits), *pages.night_pages(nights)):
        folder.add(name, content)
    folder.add("compare.html", pages.compare_page(commits))
    if options.running is not None:
        folder.add(PAGE, pages.running_page(options.running, nights))
    badge = badge_of(options.title, models, news)
    folder.add("badge.svg", badge.svg)
    folder.add("badge.json", badge.endpoint)
    found = pages.index_page(options.title, models, news, matrix, commits, nights, options.running)
    folder.add("index.html", found)
