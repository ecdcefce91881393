"""Reports of runs as files; the suffix selects the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from harness.errors import UsageError, write_error
from harness.files import write_atomic
from harness.plugins import REPORTS, load_plugin, plugin_names, unfit_plugin
from harness.records.nightly import NightDocument
from harness.runs.evaluation import EvaluatedRun

Writer = Callable[[Sequence[EvaluatedRun], NightDocument | None], bytes]
"""Makes a report of runs, one at least, or of a night with some of its runs."""


class _Format(NamedTuple):
    """A report format: its name, its writer, and the check that its libraries are installed."""

    name: str
    write: Writer
    needs: Callable[[], object] = lambda: None


def _json(runs: Sequence[EvaluatedRun], night: NightDocument | None) -> bytes:
    from harness.report.results import report_document

    return report_document(runs, night)


def _junit(runs: Sequence[EvaluatedRun], night: NightDocument | None) -> bytes:
    from harness.report.junit import junit_report

    return junit_report(runs, night)


def _markdown(runs: Sequence[EvaluatedRun], night: NightDocument | None) -> bytes:
    from harness.report.markdown import markdown_report

    return markdown_report(runs, night)


def _sarif(runs: Sequence[EvaluatedRun], night: NightDocument | None) -> bytes:
    from harness.report.findings import sarif_report

    return sarif_report(runs, night)


def _html_needs() -> object:
    from harness.report.html import require_libraries

    return require_libraries()


def _html(runs: Sequence[EvaluatedRun], night: NightDocument | None) -> bytes:
    from harness.report.html import html_report

    return html_report(runs, night)


def _bundle(runs: Sequence[EvaluatedRun], night: NightDocument | None) -> bytes:
    from harness.runs.bundle import write_bundle

    if night is not None:
        raise UsageError(
            "a bundle is of one run, not of a night",
            hint="`etharness report RUN_DIRECTORY -o x.zip` makes one of a run",
        )
    return write_bundle(runs)


_FORMATS: Final[dict[str, _Format]] = {
    ".html": _Format("HTML", _html, _html_needs),
    ".json": _Format("JSON", _json),
    ".md": _Format("Markdown", _markdown),
    ".sarif": _Format("SARIF", _sarif),
    ".xml": _Format("JUnit XML", _junit),
    ".zip": _Format("bundle", _bundle),
}
"""Kinds of reports by suffix. What each needs is imported when it is written."""


def write_report(
    file: Path, runs: Sequence[EvaluatedRun], night: NightDocument | None = None
) -> None:
    """Write a report of ``runs`` atomically; an existing file is replaced.

    The test sets of a bundled program are reported as runs of their own.

    Args:
        file: The file; its suffix selects the format.
        runs: The runs; may be empty for a nightly run.
        night: The nightly run, for a report about one.

    Raises:
        UsageError: The format is unknown, or the file cannot be written.
    """
    write_file(file, _format_of(file).write([part for run in runs for part in run.parts], night))


def write_file(file: Path, data: bytes) -> None:
    """Write the contents of a report atomically; an existing file is replaced.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, data)
    except OSError as error:
        raise write_error(error, f"cannot write the report {file}") from error


def check_report_file(file: Path) -> None:
    """Raise an error, before anything is run, if no report can be written to ``file``.

    Raises:
        UsageError: The format is unknown, ``file`` is a directory, or a package that the
            format needs is not installed.
    """
    _format_of(file).needs()
    if file.is_dir():
        raise UsageError(f"cannot write the report {file}: it is a directory")


def _format_of(file: Path) -> _Format:
    suffix = file.suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    name = suffix.removeprefix(".")
    plugin = load_plugin(REPORTS, name) if name else None
    if plugin is None:
        kinds = [f"{suffix} ({kind.name})" for suffix, kind in _FORMATS.items()]
        kinds += [f".{name} (plugin)" for name in plugin_names(REPORTS)]
        raise UsageError(
            f"{file}: there is no kind of report with the suffix {file.suffix!r}",
            hint=f"name a file that ends in one of {', '.join(kinds)}",
        )
    if not callable(plugin):
        raise unfit_plugin(REPORTS, name, "a function of runs and a night that returns bytes")
    return _Format(name, plugin)
