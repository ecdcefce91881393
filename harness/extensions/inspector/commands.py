"""``decode --tsv`` and ``--compare-results``, and ``compare --values``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from harness.cli.command import OutputOptions
from harness.errors import NotComparableError, UsageError, write_error
from harness.files import display_path
from harness.inspector import Inspector, TimeScale
from harness.inspector.comparators import compare_runs
from harness.inspector.gap import InspectorRecord, compare_with_record
from harness.inspector.values import (
    LoggedTrace,
    ValueComparison,
    compare_values,
    print_values,
    values_document,
)
from harness.plugins import EXPLANATIONS, load_plugin
from harness.printing import print_document
from harness.records.result import RunIdentity
from harness.report.description import Fact
from harness.report.formats import html_pages, write_file
from harness.report.traces import OutputDocument
from harness.runs.source import Source, differing_outlines, load_metadata, read_npy

_BY_GRAPH: Final = (
    "the programs differ: values are paired by the places of their operators in the graphs, and "
    "those of other types are not compared"
)
_BY_NUMBER: Final = (
    "the programs differ, and what is known of them does not join their operators: values are "
    "paired by the numbers of instructions, which may be other operators"
)


def inspect_outputs(
    source: Source,
    *,
    scales: tuple[str, str],
    etrecord: Path | None,
    method: str | None,
    bundled_input: int | None,
    tsv: Path | None,
    compare_results: bool,
) -> list[OutputDocument]:
    """Write the Inspector's table of a trace, and compare outputs with those of an ETRecord.

    Args:
        source: The trace.
        scales: Time scale of its ticks, and of the table.
        etrecord: The ETRecord of the model.
        method: The executed method; None for the recorded one.
        bundled_input: The test case of the ETRecord; None for the recorded one.
        tsv: The table to write; None for none.
        compare_results: Whether to compare the outputs.
    """
    inspector = Inspector(
        etdump_data=source,
        etrecord=etrecord,
        source_time_scale=TimeScale(scales[0]),
        target_time_scale=TimeScale(scales[1]),
        method=method,
        bundled_input_index=bundled_input,
    )
    if tsv:
        _save_table(inspector, tsv)
    return compare_runs(inspector) if compare_results else []


def _save_table(inspector: Inspector, tsv: Path) -> None:
    try:
        with tsv.open("w", encoding="utf-8", errors="backslashreplace") as file:
            inspector.save_data_to_tsv(file)
    except OSError as error:
        raise write_error(error, f"cannot write {tsv}") from error


def compare_logged_values(
    paths: tuple[Path, Path | None],
    load: Callable[[Path], Source],
    etrecords: Sequence[Path],
    reports: Sequence[Path],
    output: OutputOptions,
) -> int:
    """Compare the values of two runs, or of one with those of an ETRecord's program.

    Returns:
        The exit code.
    """
    before, after = paths
    if after is None:
        compared = _with_reference(before, load(before), etrecords[0])
    else:
        both = (before, after)
        compared = _compare_values(both, [load(path) for path in both], etrecords)
    return _show_values(*compared, reports, output)


def _compare_values(
    paths: Sequence[Path], sources: Sequence[Source], etrecords: Sequence[Path]
) -> tuple[ValueComparison, list[Fact]]:
    """Compare the values of two traces; return what was compared, too."""
    _check_same_inputs(*sources)
    files = (*etrecords, *etrecords)[:2] if etrecords else (None, None)
    first, second = (
        LoggedTrace(
            source.trace, source.debug_buffer or b"", load_metadata(source, etrecord=file).symbols
        )
        for source, file in zip(sources, files, strict=True)
    )
    facts = [
        Fact(label, _origin(path, source))
        for label, path, source in zip(("before", "after"), paths, sources, strict=True)
    ]
    if etrecords or differing_outlines(sources[0].result, sources[1].result) is None:
        return compare_values(first, second), facts
    explain: Any = load_plugin(EXPLANATIONS, "compare")
    joined = explain and explain.joined_instructions(sources)
    note = _BY_NUMBER if joined is None else _BY_GRAPH
    return replace(compare_values(first, second, joined), note=note), facts


def _with_reference(
    path: Path, source: Source, etrecord: Path
) -> tuple[ValueComparison, list[Fact]]:
    """Compare the values of a run with those that an ETRecord's program computes."""
    result = source.result
    if result is None or result.model is None:
        raise UsageError(
            f"{display_path(path)} has no inputs for the ETRecord's program",
            hint="give a run directory: it has the inputs of its run",
        )
    symbols = load_metadata(source, etrecord=etrecord).symbols
    logged = LoggedTrace(source.trace, source.debug_buffer or b"", symbols)
    folder = path if path.is_dir() else path.parent
    inputs = [read_npy(folder / tensor.file) for tensor in result.model.inputs]
    record, method = InspectorRecord(etrecord), result.model.method
    comparison = compare_with_record(logged, record, method, inputs, result.test_set)
    facts = [
        Fact("reference", f"the program of {display_path(etrecord)}, method {method}, by PyTorch"),
        Fact("run", _origin(path, source)),
    ]
    return comparison, facts


def _origin(path: Path, source: Source) -> str:
    """Return where a trace is from, in a line."""
    known = RunIdentity.of(source.result).texts()
    settings = source.result.settings if source.result is not None else None
    known["runtime"] = settings.runtime if settings is not None else ""
    facts = ", ".join(f"{name} {text}" for name, text in known.items() if text)
    return f"{display_path(path)} ({facts})" if facts else display_path(path)


def _show_values(
    found: ValueComparison,
    facts: Sequence[Fact],
    reports: Sequence[Path],
    output: OutputOptions,
) -> int:
    """Print a comparison of values, and write its reports."""
    for file in reports:
        if file.suffix.lower() == ".html":
            data = html_pages(str(file)).values(found, facts)
        else:
            data = values_document(found)
        write_file(file, data)
    if output.json:
        print_document(values_document(found))
    else:
        print_values(output.console(), found, detailed=output.verbosity > 0)
    return 0 if found.first_diverging is None else 1


def _check_same_inputs(before: Source, after: Source) -> None:
    """Check that two runs had the same inputs, as far as their results record them.

    Raises:
        NotComparableError: An input differs.
    """
    inputs = [_input_digests(source) for source in (before, after)]
    if inputs[0] is not None and inputs[1] is not None and inputs[0] != inputs[1]:
        raise NotComparableError(
            "the runs had different inputs, so their values differ",
            hint="run both with the same --input files, or with the same --seed",
        )


def _input_digests(source: Source) -> list[str] | None:
    result = source.result
    if result is None or result.model is None or result.files is None:
        return None
    return [result.files[tensor.file].sha256 for tensor in result.model.inputs]
