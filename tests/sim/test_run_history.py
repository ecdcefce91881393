"""Runs that add their results to a history, which may fail without losing them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from tests.conftest import MODELS, CommandResult
from tests.support.documents import document

pytestmark = [pytest.mark.sim, pytest.mark.usefixtures("steady_clock")]

Etharness = Callable[..., CommandResult]
RUN = ("run", "--board", "native", "--model", MODELS / "small_int8.pte", "--runs", "3", "-q")


def listed(etharness: Etharness, url: Path) -> Any:
    """The results of a history."""
    return document("history-list", etharness("history", "list", "--history", url, "--json").out)


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
    entries = {
        Path(entry["budget"]).name or entry["failure"]: entry for entry in listed(etharness, url)
    }
    assert set(entries) == {"default.toml", "strict.toml", "FormatError"}
    assert entries["strict.toml"]["failed"] == {"B01": 1}
    assert not entries["FormatError"]["sound"]
    assert entries["default.toml"]["link"]["goodput"] > 1000
    again = etharness("history", "add", tmp_path, "--history", url)
    assert again.out.splitlines()[-1].endswith(": 3 there already")
    later = tmp_path / "later"
    assert etharness(*RUN, "-o", later, "--history", url, "--baseline", "last:20").code == 0
    found = json.loads((later / "history.json").read_text())
    series = [entries[name]["provenance"]["id"] for name in ("default.toml", "strict.toml")]
    assert [result["id"] for result in found["results"]] == series
    assert (found["baseline"], found["failed"]) == ([0], [1]), "in the series, but no baseline"


def test_json_of_a_run_has_the_comparison_with_history(
    tmp_path: Path, etharness: Etharness
) -> None:
    url = tmp_path / "h.sqlite"
    for number in range(2):
        assert etharness(*RUN, "-o", tmp_path / str(number), "--history", url).code == 0
    alone = document("run", etharness(*RUN, "-o", tmp_path / "alone", "--json").out)
    assert "comparison" not in alone
    against = ("--history", url, "--baseline", "last:2", "--json")
    found = document("run", etharness(*RUN, "-o", tmp_path / "new", *against).out)
    result = json.loads((tmp_path / "new/result.json").read_text())
    assert {name: found[name] for name in result} == result
    assert found["comparison"]["description"] == "the last 2"
    names = {number["metric"]["name"] for number in found["comparison"]["numbers"]}
    assert "Method::execute" in names


def test_a_run_with_other_settings_is_not_comparable(tmp_path: Path, etharness: Etharness) -> None:
    url = tmp_path / "h.sqlite"
    kept = ("--history", url, "--commit", "c0de01")
    for number in range(3):
        assert etharness(*RUN, "-o", tmp_path / f"plain{number}", *kept).code == 0
    logged = (*RUN, "-o", tmp_path / "logged", "--values", "intermediate", *kept[:2])
    code, _, err = etharness(*logged, "--baseline", "commit:c0de01")
    assert code == 3
    assert (
        "not comparable: baseline commit:c0de01 was measured with --values none, "
        "this run with --values intermediate"
    ) in err
    first = etharness(*logged, "--baseline", "last:20")
    assert first.code == 0
    assert "H01" not in first.out
    found = [entry["provenance"] for entry in listed(etharness, url)]
    settings = {provenance["id"]: provenance["settings"] for provenance in found}
    recorded = json.loads((tmp_path / "plain0/result.json").read_text())
    assert settings[recorded["id"]] == recorded["settings"]
    assert recorded["settings"] == {"runtime": "etharness", "build": "native"}
    again = etharness("check", tmp_path / "logged")
    assert again.code == 0
    assert "H06 history: not comparable: earlier results" in (
        etharness("check", tmp_path / "logged", "-v").out
    )


def test_the_sizes_of_dynamic_inputs_are_settings(tmp_path: Path, etharness: Etharness) -> None:
    sizes = []
    for rows in (2, 5):
        files = [tmp_path / "rows.npy", tmp_path / "index.npy"]
        np.save(files[0], np.zeros((rows, 6), np.float32))
        np.save(files[1], np.zeros(rows, np.int64))
        inputs = [argument for file in files for argument in ("--input", file)]
        out = tmp_path / str(rows)
        assert etharness(*RUN, "--model", MODELS / "dynamic.pte", *inputs, "-o", out).code == 0
        settings = harness.load(out).result.settings
        assert settings is not None
        sizes.append(settings.inputs)
    assert sizes == ["0: 2x6, 1: 2", "0: 5x6, 1: 5"]


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
