"""Reports of runs as files; the suffix selects the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from harness.errors import UsageError, write_error
from harness.files import write_atomic
from harness.plugins import REPORTS, load_extension, load_plugin, plugin_names, unfit_plugin
from harness.records.nightly import NightDocument
from harness.runs.source import EvaluatedRun

if TYPE_CHECKING:
    from harness.analyze.compare import Comparison
    from harness.report.compare import SideDocument
    from harness.report.description import Fact

_HTML: Final = ".html"
_BUNDLE: Final = ".zip"

Writer = Callable[[Sequence[EvaluatedRun], NightDocument | None], bytes]
"""Makes a report of runs, one at least, or of a night with some of its runs."""


class HtmlPages(Protocol):
    """The extension that writes HTML. The pages of the same values have the same bytes."""

    def __call__(
        self, runs: Sequence[EvaluatedRun], night: NightDocument | None = None, top: int = 0
    ) -> bytes:
        """Return a report of runs, or of a night with some of its runs.

        Of each run ``top`` operators are shown at first; 0 for a few.
        """

    def require_libraries(self) -> object:
        """Raise a UsageError if a library is not installed."""

    def comparison(
        self,
        sides: Sequence[SideDocument],
        comparison: Comparison,
        warnings: Sequence[str] = (),
        why: Sequence[str] = (),
    ) -> bytes:
        """Return a page about two traces, why they may not compare, and why they differ."""

    def values(self, found: Any, sources: Sequence[Fact]) -> bytes:
        """Return a page about a ``ValueComparison`` (``harness.inspector.values``)."""


def html_pages(file: str) -> HtmlPages:
    """Return the extension that writes HTML.

    Args:
        file: What is to be written, for the message.

    Raises:
        UsageError: It is not installed.
    """
    pages: HtmlPages = _of_extension(file, _HTML)
    return pages


class Bundles(Protocol):
    """The extension that writes bundles of a run and reads them."""

    def __call__(self, runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
        """Return the bundle of a run."""

    def load(self, file: Path, directory: Path) -> EvaluatedRun:
        """Unpack a bundle into a directory, and evaluate its run."""


def bundles(file: Path) -> Bundles:
    """Return the extension that writes bundles and reads them.

    Raises:
        UsageError: It is not installed, so ``file`` cannot be read.
    """
    plugin: Bundles = _of_extension(file, _BUNDLE)
    return plugin


_FORMATS: Final = {".json": "JSON", ".md": "Markdown"}
"""Kinds of reports by suffix."""

_EXTENSIONS: Final = {
    _HTML: ("HTML", "HTML reports", "web, or choose another format"),
    ".sarif": ("SARIF", "SARIF reports", "ci, or choose another format"),
    ".xml": ("JUnit XML", "JUnit reports", "ci, or choose another format"),
    _BUNDLE: ("bundle", "bundles", "bundles"),
}
"""Kinds of reports that extensions write: name, plural, and extension to install."""


def _writer(suffix: str) -> Writer:
    """Import what writes a kind of report."""
    match suffix:
        case ".json":
            from harness.report.document import report_document

            return report_document
        case ".md":
            from harness.report.markdown import markdown_report

            return markdown_report
    raise AssertionError(suffix)


def _of_extension(file: str | Path, suffix: str) -> Any:
    """Return the plugin for a suffix, which an extension has.

    Raises:
        UsageError: The extension is not installed.
    """
    _, kinds, extension = _EXTENSIONS[suffix]
    return load_extension(REPORTS, suffix.removeprefix("."), f"{file}: {kinds} are", extension)


def write_report(
    file: Path, runs: Sequence[EvaluatedRun], night: NightDocument | None = None, top: int = 0
) -> None:
    """Write a report of ``runs`` atomically; an existing file is replaced.

    The test sets of a bundled program are reported as runs of their own.

    Args:
        file: The file; its suffix selects the format.
        runs: The runs; may be empty for a nightly run.
        night: The nightly run, for a report about one.
        top: How many operators of each run HTML shows at first; 0 for a few.

    Raises:
        UsageError: The format is unknown, or the file cannot be written.
    """
    write_file(file, render_report(file, runs, night, top))


def render_report(
    file: str | Path,
    runs: Sequence[EvaluatedRun],
    night: NightDocument | None = None,
    top: int = 0,
) -> bytes:
    """Return the report of ``runs`` that ``write_report`` writes to ``file``.

    Raises:
        UsageError: The format is unknown.
    """
    path = Path(file)
    write = _plugin_of(path) or _writer(path.suffix.lower())
    if top and path.suffix.lower() == _HTML:
        write = partial(html_pages(str(file)), top=top)
    return write([part for run in runs for part in run.parts], night)


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
    _plugin_of(file)
    if file.suffix.lower() == _HTML:
        html_pages(str(file)).require_libraries()
    if file.is_dir():
        raise UsageError(f"cannot write the report {file}: it is a directory")


def _plugin_of(file: Path) -> Writer | None:
    """Return the plugin that writes this kind of report; None for our own kinds."""
    suffix = file.suffix.lower()
    if suffix in _FORMATS:
        return None
    name = suffix.removeprefix(".")
    if suffix in _EXTENSIONS:
        plugin: object = _of_extension(file, suffix)
    else:
        plugin = load_plugin(REPORTS, name) if name else None
    if plugin is None:
        plugins = [f".{name}" for name in plugin_names(REPORTS)]
        extra = {suffix: name for suffix, (name, *_) in _EXTENSIONS.items() if suffix in plugins}
        kinds = dict(sorted((_FORMATS | extra).items()))
        kinds |= {suffix: "plugin" for suffix in plugins if suffix not in kinds}
        texts = [f"{suffix} ({kind})" for suffix, kind in kinds.items()]
        raise UsageError(
            f"{file}: there is no kind of report with the suffix {file.suffix!r}",
            hint=f"name a file that ends in one of {', '.join(texts)}",
        )
    if not callable(plugin):
        raise unfit_plugin(REPORTS, name, "a function of runs and a night that returns bytes")
    return cast("Writer", plugin)
