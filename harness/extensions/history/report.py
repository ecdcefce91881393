"""Results over time, on the terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.check.history.checks import subject_of_metric
from harness.check.history.group_sessions import series_of
from harness.check.history.samples import (
    Added,
    CopyOutcome,
    Decision,
    History,
    Metric,
    NamedBaseline,
    Provenance,
    Sample,
    Series,
    StoredResult,
    StoreInfo,
)
from harness.formatting import DisplayUnit, commit_text, counted, metric_unit, printable, time_unit
from harness.records.measurement import describe_each, describe_settings, settings_key
from harness.records.result import encode
from harness.records.trace import is_wrapper
from harness.report.terminal import show_line, show_table, sparkline
from harness.report.words import metric_subject, metric_title, statistic_text, with_delegate

if TYPE_CHECKING:
    from rich.console import Console

_MOST_BARS: Final = 20
"""Results of a trend, the newest."""


class PrunedDocument(msgspec.Struct, frozen=True):
    """What ``etharness history prune --json`` prints; nothing is removed in a dry run."""

    removed: int
    left: int
    dry_run: bool


class TableDocument(msgspec.Struct, frozen=True):
    """What ``etharness history export --json`` prints: how many rows the file has."""

    file: str
    rows: int


def history_document(document: object) -> bytes:
    """Return the JSON of what a command of ``history`` prints; its text is printable."""
    return encode(_printable(msgspec.to_builtins(document)))


def print_added(
    console: Console, found: Sequence[Added], place: str, *, detailed: bool = False
) -> None:
    """Print how many directories were added, and those refused or incomplete; all if detailed."""
    words = {"added": "added", "there": "there already"}
    words |= {"updated": "verdict updated", "refused": "REFUSED"}
    for item in found:
        if detailed or item.reason:
            because = f": {item.reason}" if item.reason else ""
            style = "red" if item.state == "refused" else None
            show_line(console, f"{words[item.state]}: {item.path}{because}", style=style)
    counts = Counter[str](item.state for item in found)
    told = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
    show_line(console, f"{place}: {told}")


def print_entries(
    console: Console, entries: Sequence[StoredResult], *, detailed: bool = False
) -> None:
    """Print a line per result; with link, losses, firmware and all settings if detailed.

    Otherwise settings are shown where results of a board, model and method differ in them: these
    are series of their own.
    """
    settings = _settings(entries, detailed=detailed)
    headers = ["started", "model", "board", "verdict", "commit", "unit", "method", "session", "id"]
    if any(settings):
        headers.append("settings")
    more = ["firmware", "runs", "corrupt", "retries", "lost events", "clock"] if detailed else []
    rows = [
        [
            *_origin(entry.provenance, _result_outcome(entry)),
            entry.provenance.session,
            entry.provenance.id,
            *([text] if any(settings) else ()),
            *(_details(entry) if detailed else ()),
        ]
        for entry, text in zip(entries, settings, strict=True)
    ]
    if rows:
        show_table(console, [*headers, *more], rows, title="Results")
    failed = sum(not entry.sound for entry in entries)
    text = f", {failed:,} failed or incomplete" if failed else ""
    show_line(console, f"{counted(len(entries), 'result')}{text}")


def _settings(entries: Sequence[StoredResult], *, detailed: bool) -> list[str]:
    """Return the settings to show of each result; "" where all of its series are alike."""
    origins = [entry.provenance for entry in entries]
    if detailed:
        return [printable(describe_settings(origin.settings)) for origin in origins]
    tested = [(origin.board, origin.model, origin.method) for origin in origins]
    texts = [""] * len(entries)
    for series in set(tested):
        places = [place for place, other in enumerate(tested) if other == series]
        several = [origins[place].settings for place in places]
        if len({settings_key(settings) for settings in several}) > 1:
            for place, text in zip(places, describe_each(several), strict=True):
                texts[place] = printable(text)
    return texts


def print_baselines(console: Console, baselines: Sequence[NamedBaseline]) -> None:
    """Print a line per named baseline."""
    rows = [[item.name, item.set_utc, f"{item.results:,}"] for item in baselines]
    if rows:
        show_table(console, ["name", "set", "results"], rows, title="Baselines", numbers=[2])
    else:
        show_line(console, "no baseline has a name")


def print_decisions(console: Console, decisions: Sequence[Decision]) -> None:
    """Print a line per decision."""
    for item in decisions:
        subject = f"{subject_of_metric(item.metric)} on {item.unit}"
        text = f"{item.made_utc}: {subject}, level since {item.since_utc}: {item.describe()}"
        show_line(console, printable(text))


def print_history(
    console: Console, history: History, pattern: str, *, detailed: bool = False
) -> None:
    """Print one series result by result, or a summary of each of several series.

    Scopes repeat the times of their operators, so among several series they are shown only if
    detailed. Names are then those of the log, which also select series.
    """
    shown = history.series
    if len(shown) > 1 and not detailed:
        shown = tuple(item for item in shown if not is_wrapper(item.metric.name))
    if not shown:
        some = "" if pattern == "*" else f" has a name like {pattern!r}"
        show_line(console, f"no measured number{some}; `etharness history list` lists all results")
        return
    first = history.results[0]
    measured = f", {first.settings}" if first.settings is not None else ""
    show_line(console, printable(f"{first.model} {first.method} on {first.board}{measured}"))
    if len(shown) == 1:
        _print_series(console, history, shown[0], detailed=detailed)
    else:
        _print_overview(console, shown, detailed=detailed)
    metrics = {series_of(item.metric) for item in shown}
    print_decisions(console, [item for item in history.decisions if item.metric in metrics])
    if history.baseline:
        names = f"{len(history.baseline)} of {counted(len(history.results), 'result')}"
        show_line(console, f"baseline: {history.description}, {names}")
    for note in history.notes:
        show_line(console, note)


def _print_series(console: Console, history: History, series: Series, *, detailed: bool) -> None:
    unit = _unit([series])
    values = [sample.value for sample in series.samples]
    baseline, failed = set(history.baseline), set(history.failed)
    rows = []
    before: float | None = None
    for place, sample in zip(series.results, series.samples, strict=True):
        rows.append(
            [
                *_when(history.results[place]),
                unit.text(sample.value),
                _change(before, sample.value),
                *_spread(sample, unit),
                "baseline" if place in baseline else "failed" if place in failed else "",
            ]
        )
        before = sample.value
    headers = ["started", "unit", "commit"]
    numbers = [
        f"{statistic_text(series.metric)} [{unit.name}]",
        "change",
        "count",
        f"std [{unit.name}]",
    ]
    first = history.results[0]
    title = f"{metric_title(series.metric)} of {first.model.removesuffix('.pte')} on {first.board}"
    title = _name(series.metric) if detailed else printable(title)
    show_table(console, [*headers, *numbers, ""], rows, title=title, numbers=range(3, 7))
    if console.is_terminal:
        show_line(console, sparkline(console, values))
    missing = len(history.results) - len(values)
    if missing:
        show_line(console, f"{counted(missing, 'result', 'does')} not have it")


def _print_overview(console: Console, shown: Sequence[Series], *, detailed: bool) -> None:
    for what in dict.fromkeys(_group(series.metric) for series in shown):
        chosen = [series for series in shown if _group(series.metric) == what]
        unit = _unit(chosen)
        statistics = [statistic_text(series.metric) for series in chosen]
        alone = len(set(statistics)) == 1
        headers = ["name", *[""] * (not alone), "first", "last", "change"]
        headers += [*["trend"] * console.is_terminal, "results", "least", "largest"]
        rows = []
        names = _names([series.metric for series in chosen], detailed=detailed)
        for series, name, statistic in zip(chosen, names, statistics, strict=True):
            values = [sample.value for sample in series.samples]
            ends = [values[0], values[-1]]
            row = [name, *[statistic] * (not alone)]
            row += [*map(unit.brief, ends), _change(*ends)]
            row += [sparkline(console, values[-_MOST_BARS:])] * console.is_terminal
            row += [str(len(values)), *(unit.brief(end(values)) for end in (min, max))]
            rows.append(row)
        texts = {"name", "", "trend"}
        numbers = {n for n, header in enumerate(headers) if header not in texts}
        of = f", {statistics[0]}" if alone and what[0] != "result" else ""
        title = f"{_title(what)}{of} [{unit.name}]"
        show_table(console, headers, rows, title=title, numbers=numbers)


def _group(metric: Metric) -> tuple[str, str]:
    return metric.kind, metric.unit


def _title(group: tuple[str, str]) -> str:
    kind, unit = group
    titles = {
        "operator": "Operators",
        "counter": "Hardware counters",
        "energy": "Energy",
        "allocator": "Allocators",
        "result": "Sizes",
        "accuracy": "Accuracy",
    }
    return f"{titles[kind]}, clock of unknown rate" if unit == "ticks" else titles[kind]


def _unit(several: Sequence[Series]) -> DisplayUnit:
    """Return the display unit for all samples of a series."""
    values = (sample.value for series in several for sample in series.samples)
    return metric_unit(several[0].metric.unit, values)


def _origin(provenance: Provenance, verdict: str) -> list[str]:
    started, unit, commit = _when(provenance)
    tested = [started, provenance.model, provenance.board, verdict]
    return [*tested, commit, unit, provenance.method]


def _when(provenance: Provenance) -> list[str]:
    started, _, _ = provenance.started_utc.removesuffix("+00:00").partition(".")
    return [started, provenance.unit, commit_text(provenance.commit)]


def _details(entry: StoredResult) -> list[str]:
    widths = [clock.half_width_ns for clock in entry.clocks if clock.half_width_ns is not None]
    unit = time_unit(widths)
    return [
        entry.provenance.build_id,
        f"{entry.runs_completed} of {entry.runs_requested}",
        str(entry.link.corrupt_frames),
        str(entry.link.retries),
        str(entry.losses.events),
        f"+-{unit.text(max(widths))} {unit.name}" if widths else "",
    ]


def _name(metric: Metric) -> str:
    if metric.kind not in ("operator", "counter", "energy"):
        return metric.name
    name = with_delegate(metric)
    return f"{metric.block}: {name}, instruction {metric.instruction}"


def _names(metrics: Sequence[Metric], *, detailed: bool) -> list[str]:
    """Return a short name of each metric; the full one where several would have the same."""
    short = [(metric_subject(metric), metric.statistic) for metric in metrics]
    return [
        _name(metric) if detailed or short.count(name) > 1 else name[0]
        for metric, name in zip(metrics, short, strict=True)
    ]


def _change(before: float | None, after: float) -> str:
    if before is None or before == after:
        return ""
    return f"{100 * (after - before) / before:+.2f} %" if before else "new"


def _spread(sample: Sample, unit: DisplayUnit) -> list[str]:
    return [str(sample.count), unit.text(sample.std) if sample.count > 1 else ""]


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return value


ADDED: Final = list[Added]
BASELINES: Final = list[NamedBaseline]
COPIED: Final = CopyOutcome
DECISIONS: Final = list[Decision]
INFO: Final = StoreInfo
RESULTS: Final = list[StoredResult]
SHOWN: Final = History
"""What the commands print as JSON; exported documents have classes above."""


def _result_outcome(entry: StoredResult) -> str:
    """Return how a stored result ended, in a few words."""
    if entry.failure:
        return f"failed: {entry.failure}"
    if entry.passed is None:
        return "not checked"
    if entry.passed:
        return "pass" if entry.sound else "pass, incomplete"
    return f"FAIL: {' '.join(entry.failed) or 'a check'}"
