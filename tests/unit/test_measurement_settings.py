"""What two runs were measured with, where their numbers stand side by side."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import harness
from harness import MeasurementSettings
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.results import made, run_directory

Etharness = Callable[..., CommandResult]

OURS = MeasurementSettings(runtime="etharness", build="native")
THEIRS = replace(OURS, runtime="executorch", values="intermediate")
FLASHED = MeasurementSettings()
"""Of a board whose firmware was there before the run."""


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[[str, MeasurementSettings | None], Path]:
    """Make a run directory that was measured with these settings."""

    def call(name: str, settings: MeasurementSettings | None) -> Path:
        result = made(name, started_utc=f"2026-11-21T00:00:0{name}+00:00", settings=settings)
        return run_directory(tmp_path / name, result, {"conv": [100], "OPERATOR_CALL": [500]})

    return call


def compared(etharness: Etharness, *paths: Path) -> tuple[str, dict[str, Any]]:
    """The text of a comparison, and what its document says about settings."""
    text, json_text = etharness("compare", *paths).out, etharness("compare", *paths, "--json").out
    settings: dict[str, Any] = document("compare", json_text)["comparison"]["settings"]
    return text, settings


def test_a_comparison_names_the_settings_that_differ(run_with: Any, etharness: Etharness) -> None:
    paths = run_with("1", OURS), run_with("2", THEIRS)
    text, settings = compared(etharness, *paths)
    assert text.splitlines()[0] == (
        "SETTINGS: the first was measured with runtime etharness, --values none, the second with "
        "runtime executorch, --values intermediate; differences may come from that"
    )
    assert settings == {
        "alike": False,
        "options": ["runtime", "--values"],
        "before": "runtime etharness, --values none",
        "after": "runtime executorch, --values intermediate",
        "unknown": "",
    }
    found = harness.load(paths[1]).compare(paths[0]).settings
    assert {name: getattr(found, name) for name in found.__struct_fields__} == {
        **settings,
        "options": tuple(settings["options"]),
    }


@pytest.mark.extension("why")
@pytest.mark.extension("web")
def test_all_reports_of_a_comparison_name_the_settings_that_differ(
    run_with: Any, etharness: Etharness, tmp_path: Path
) -> None:
    paths = run_with("1", OURS), run_with("2", THEIRS)
    files = [tmp_path / "page.html", tmp_path / "comment.md", tmp_path / "compare.json"]
    text = etharness("compare", *paths, *(word for file in files for word in ("--report", file)))
    line = text.out.splitlines()[0]
    for file in files:
        assert line in file.read_text().replace("&#8203;", "")


def test_equal_settings_are_not_mentioned(run_with: Any, etharness: Etharness) -> None:
    text, settings = compared(etharness, run_with("1", OURS), run_with("2", OURS))
    assert settings["alike"] is True
    assert "measured" not in text


@pytest.mark.parametrize("other", [OURS, FLASHED, None])
def test_unknown_settings_are_equal_to_none(
    other: MeasurementSettings | None, run_with: Any, etharness: Etharness
) -> None:
    text, settings = compared(etharness, run_with("1", other), run_with("2", FLASHED))
    assert settings["alike"] is (False if other == OURS else None)
    assert "unknown" in text
    if other is not None:
        assert "firmware built elsewhere" in text


def test_results_are_listed_with_settings_where_these_differ(
    tmp_path: Path, run_with: Any, etharness: Etharness
) -> None:
    store = ("--history", tmp_path / "h.sqlite")
    etharness("history", "add", run_with("1", OURS), *store)
    etharness("history", "add", run_with("2", OURS), *store)
    assert "runtime" not in etharness("history", "list", *store).out
    etharness("history", "add", run_with("3", THEIRS), run_with("4", FLASHED), *store)
    lines = etharness("history", "list", *store).out.splitlines()
    for name, words in {
        "1": "runtime etharness, build preset native, --values none",
        "3": "runtime executorch, build preset native, --values intermediate",
        "4": "runtime unknown (firmware built elsewhere)",
    }.items():
        assert words in next(line for line in lines if f"00:00:0{name}" in line)
    listed = json.loads(etharness("history", "list", *store, "--json").out)
    assert {item["provenance"]["settings"].get("runtime", "") for item in listed} == {
        *("etharness", "executorch", ""),
    }
    shown = etharness("history", "show", "conv", *store).out
    assert "runtime and build preset unknown (firmware built elsewhere)" in shown.splitlines()[0]
    pattern = "runtime etharness, build preset native"
    chosen = etharness("history", "show", "conv", "--settings", pattern, *store).out
    assert chosen.splitlines()[0].endswith(pattern)


def test_a_table_of_results_has_their_settings(
    tmp_path: Path, run_with: Any, etharness: Etharness
) -> None:
    store = ("--history", tmp_path / "h.sqlite")
    etharness("history", "add", *map(run_with, "1234", [OURS, THEIRS, FLASHED, None]), *store)
    table = tmp_path / "table.csv"
    assert etharness("history", "export", "-o", table, *store).code == 0
    names = ("values", "stream", "trace_limit", "runtime", "build")
    with table.open() as file:
        found = {tuple(row[f"settings_{name}"] for name in names) for row in csv.DictReader(file)}
    assert found == {
        ("none", "false", "0", "etharness", "native"),
        ("intermediate", "false", "0", "executorch", "native"),
        ("none", "false", "0", "", ""),
        ("", "", "", "", ""),
    }


def test_only_settings_that_differ_are_described(
    tmp_path: Path, run_with: Any, etharness: Etharness
) -> None:
    def listed(*settings: MeasurementSettings | None) -> list[str]:
        store = ("--history", tmp_path / f"{len(settings)}.sqlite")
        runs = [
            run_with(f"{len(settings)}{number}", each) for number, each in enumerate(settings, 1)
        ]
        assert etharness("history", "add", *runs, *store).code == 0
        return etharness("history", "list", *store).out.splitlines()

    lines = listed(OURS, replace(OURS, stream=True), None)
    for words in ("no --stream", "settings that were not recorded"):
        assert len([line for line in lines if line.endswith(words)]) == 1
    assert len([line for line in lines if line.endswith("--stream")]) == 2
    lines = listed(OURS, None)
    assert [line for line in lines if line.endswith("runtime etharness, build preset native")]
