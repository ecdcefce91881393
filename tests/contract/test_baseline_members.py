"""A result whose own checks fail does not become part of a baseline by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

pytestmark = [pytest.mark.extension("history"), pytest.mark.sim]


@pytest.fixture
def directory(tmp_path: Path, etharness: Command) -> Path:
    """A run that passed, without digests, in whose program another operator ran."""
    folder = tmp_path / "run"
    assert etharness("run", "--board", "native", "--model", "small_int8", "-o", folder).code == 0
    file = folder / "result.json"
    document = json.loads(file.read_text())
    del document["files"], document["digest"]
    file.write_text(json.dumps(document))
    assert etharness("check", folder).code == 0
    chain = document["model"]["chains"][0]
    chain[0], chain[1] = chain[1], chain[0]
    file.write_text(json.dumps(document))
    assert etharness("check", folder).code == 4
    return folder


def stored(etharness: Command, store: Path) -> dict[str, Any]:
    [entry] = json.loads(etharness("history", "list", "--history", store, "--json").out)
    return dict(entry)


def test_a_directory_without_digests_that_fails_its_check_joins_no_baseline(
    directory: Path, tmp_path: Path, etharness: Command
) -> None:
    store = tmp_path / "h.sqlite"
    assert etharness("history", "add", directory, "--history", store).code == 0
    entry = stored(etharness, store)
    assert not entry["passed"]
    assert not entry["sound"]
    assert not entry["complete"]
    shown = etharness("check", directory, "--history", store, "--baseline", "last:20", "--json")
    assert shown.code == 4


def test_a_later_check_of_a_directory_without_digests_is_recorded(
    directory: Path, tmp_path: Path, etharness: Command
) -> None:
    store = tmp_path / "h.sqlite"
    result = directory / "result.json"
    document = json.loads(result.read_text())
    chain = document["model"]["chains"][0]
    chain[0], chain[1] = chain[1], chain[0]
    result.write_text(json.dumps(document))
    etharness("history", "add", directory, "--history", store)
    assert stored(etharness, store)["sound"]
    budget = tmp_path / "budget.toml"
    budget.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 0.001\n')
    options = ("--history", store, "--baseline", "last:20", "--budget", budget)
    assert etharness("check", directory, *options).code == 1
    assert not stored(etharness, store)["sound"]
    # Another store learns it from the directory.
    other = tmp_path / "other.sqlite"
    etharness("history", "add", directory, "--history", other)
    assert not stored(etharness, other)["sound"]
