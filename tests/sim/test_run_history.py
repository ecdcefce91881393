"""Runs that add their results to a history, which may fail without losing them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.history import open_store
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.sim

Etharness = Callable[..., CommandResult]
RUN = ("run", "--board", "native", "--model", MODELS / "small_int8.pte", "--runs", "3", "-q")


def test_a_run_adds_its_result(tmp_path: Path, etharness: Etharness) -> None:
    url = tmp_path / "h.sqlite"
    assert etharness(*RUN, "-o", tmp_path / "good", "--history", url).code == 0
    strict = tmp_path / "strict.toml"
    strict.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 0\n')
    red = etharness(*RUN, "-o", tmp_path / "red", "--budget", strict, "--history", url)
    assert red.code == 1
    crashed = tmp_path / "no-model.pte"
    crashed.write_bytes(b"no program" * 10)
    failed = etharness(*RUN, "--model", crashed, "-o", tmp_path / "failed", "--history", url)
    assert failed.code == 2
    with open_store(str(url), create=False) as store:
        entries = {Path(entry.budget).name or entry.failure: entry for entry in store.results()}
        [origin] = store.history("native", "small_int8.pte", "forward").results
    assert set(entries) == {"default.toml", "strict.toml", "FormatError"}
    assert entries["default.toml"].provenance == origin
    assert entries["strict.toml"].failed == {"B01": 1}
    assert not entries["FormatError"].sound
    assert (entries["default.toml"].link.goodput or 0) > 1000
    again = etharness("history", "add", tmp_path, "--history", url)
    assert again.out.splitlines()[-1].endswith(": 3 there already")


def test_a_history_that_fails_does_not_lose_the_run(tmp_path: Path, etharness: Etharness) -> None:
    directory = tmp_path / "run"
    url = f"postgresql://me:secret@/db?host={tmp_path}"
    code, out, err = etharness(*RUN, "-o", directory, "--history", url)
    assert code == 75
    assert "PASS" in out
    assert "cannot add the result to the history: " in err
    assert f"the run is saved in {directory}" in err
    assert f"`etharness history add {directory}`" in err
    assert "secret" not in err
    later = tmp_path / "h.sqlite"
    assert etharness("history", "add", directory, "--history", later).out.endswith(": 1 added\n")
