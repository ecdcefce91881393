"""Whole nights of simulated boards: what they end with, what they leave, and the night after."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

import harness
from harness import build_firmware, open_store
from harness.extensions.lab.nightly import journal as nightly_journal
from harness.extensions.lab.nightly.journal import Stored, read_journal
from tests.conftest import ROOT, CommandResult
from tests.support.nights import PLAN as MINIMAL
from tests.support.nights import written_plan
from tests.support.postgresql import Server

JOURNAL = "journal.jsonl"

# A night is compared with earlier ones, and two commits with one another.
pytestmark = [pytest.mark.sim, pytest.mark.usefixtures("steady_clock")]

Etharness = Callable[..., CommandResult]

PLAN = """
schema = 1
name = "lab"
output = "out"
repeats = 1
history = "runs.sqlite"
baseline = "last:20"
quarantine = "quarantine.toml"
reports = ["r.html", "r.xml", "r.md", "r.json"]
[[board]]
board = "native"
units = ["a"]
[[board]]
board = "native"
count = 1
[[model]]
file = "small_int8.pte"
runs = 2
[[model]]
file = "functions.pte"
budget = "tight.toml"
[[variant]]
label = "old"
commit = "aaaa1111"
[[variant]]
label = "new"
commit = "bbbb2222"
models = "new"
"""
UNITS = """
schema = 1
[[unit]]
id = "a"
board = "native"
"""
TIGHT = """
schema = 1
[[time]]
event = "Method::execute"
limit_us = 0.001
"""
QUARANTINE = """
schema = 1
[[quarantine]]
owner = "jane"
reason = "its budget is too tight"
expires = 9999-12-31
model = "functions"
unit = "a"
failures = ["product"]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    models = ("small_int8", "functions")
    written_plan(tmp_path / "new", models=models)
    (tmp_path / "units.toml").write_text(UNITS)
    (tmp_path / "tight.toml").write_text(TIGHT)
    (tmp_path / "quarantine.toml").write_text(QUARANTINE)
    return written_plan(tmp_path, PLAN, models)


def nights(plan: Path) -> list[Path]:
    return sorted(file.parent for file in plan.parent.glob(f"out/*/{JOURNAL}"))


def kept(plan: Path) -> list[str]:
    with open_store(str(plan.parent / "runs.sqlite")) as store:
        return sorted(entry.provenance.id for entry in store.results())


def results(folder: Path) -> list[str]:
    found = folder.glob("runs/**/result.json")
    return sorted(json.loads(file.read_text())["id"] for file in found)


def test_two_nights(plan: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly_journal, "_WAIT_S", 0.0)
    # The first night finds no history where one should be, and keeps its results.
    store = plan.parent / "runs.sqlite"
    store.write_bytes(b"this is no database" * 100)
    units = ("--units", plan.parent / "units.toml")
    first = etharness("nightly", plan, *units)
    assert first.code == 1, first.out + first.err
    [folder] = nights(plan)
    document = json.loads((folder / "night.json").read_text())
    assert document["exit_code"] == 1
    counts = document["counts"]
    assert (counts["pass"], counts["product"], counts["quarantined"]) == (4, 2, 2)
    assert [trouble["owner"] for trouble in document["troubles"]] in (["test"] * 2, ["host"] * 2)
    assert "not all added to the history" in document["troubles"][0]["message"]
    assert "8/8" in first.out
    assert "8 planned runs: 2 failed, 2 known failures, 4 passed" in first.out
    assert len(results(folder)) == 8

    # The next one adds them, with its own, and holds these against them.
    store.unlink()
    second = etharness("nightly", plan, *units, "--only", "a/*", "--json")
    assert second.code == 0, second.out + second.err
    old, new = nights(plan)
    assert kept(plan) == sorted(results(old) + results(new))
    assert any(isinstance(record, Stored) for record in read_journal(old / JOURNAL)[0])
    document = json.loads(second.out)
    assert document == json.loads((new / "night.json").read_text())
    assert not document["troubles"]
    assert f"added the results of {old.name} to the history" in document["notes"]
    assert_follows_its_schema(document)
    assert_arms(document["arms"])
    assert_reports(new, document)
    assert "earlier results; now " in (new / "r.html").read_text()  # a line in the matrix
    [entry] = document["quarantine"]
    assert (entry["state"], entry["excused"], entry["passes"]) == ("applies", 2, 0)
    status = etharness("nightly", plan, *units, "--quarantine-status")
    assert status.code == 0
    assert "its budget is too tight" in status.out


@pytest.mark.attack(
    "Nights and history",
    "a PostgreSQL server that is down during a nightly run",
    "all results are stored later, each once",
)
@pytest.mark.long
def test_a_server_that_is_away_has_all_results_later_and_once(
    plan: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch, postgresql: Server
) -> None:
    monkeypatch.setattr(nightly_journal, "_WAIT_S", 0.0)
    url = postgresql.new_database()
    plan.write_text(PLAN.replace("runs.sqlite", url))
    only = ("--units", plan.parent / "units.toml", "--only", "a/small_int8")
    assert etharness("nightly", plan, *only).code == 0
    postgresql.stop()
    try:
        away = etharness("nightly", plan, *only)
    finally:
        postgresql.start()
    assert away.code == 71, away.out + away.err
    assert "2 results were not all added to the history" in away.out + away.err
    of_both = sorted(id_ for folder in nights(plan) for id_ in results(folder))
    directories = [file.parent for file in plan.parent.glob("out/*/runs/**/result.json")]

    # It comes back while somebody tries to add them.
    postgresql.stop()
    notes, trouble = nightly_journal.store_results(url, directories, lambda _: postgresql.start())
    assert (notes, trouble) == ([], None)
    assert etharness("nightly", plan, *only).code == 0
    with open_store(url) as store:
        stored = [entry.provenance.id for entry in store.results()]
    assert len(of_both) == 4
    assert sorted(stored) == sorted({*of_both, *results(nights(plan)[-1])})


def assert_follows_its_schema(document: dict[str, Any]) -> None:
    schema = json.loads((ROOT / "schema/nightly.schema.json").read_text())
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


def assert_arms(arms: list[dict[str, Any]]) -> None:
    compared = {(s["model"], s["before"], s["after"]) for s in arms}
    assert compared == {
        (model, before, after)
        for model in ("small_int8", "functions")
        for before, after in (("old", "new"), ("last:20", "old"), ("last:20", "new"))
    }
    for side in arms:
        if side["before"] == "old":
            assert side["units"] == ["a"]
            assert sum(side["counts"].values()) >= 20


def assert_reports(folder: Path, document: dict[str, Any]) -> None:
    root = ET.parse(folder / "r.xml").getroot()
    assert root[0].get("tests") == str(document["steps"])
    assert root[0].get("failures") == "0"
    assert root[0].get("skipped") == "2"
    report = json.loads((folder / "r.json").read_text())
    assert report["night"]["night"] == document["night"]
    # All that failed and counts, and the last that passed of each variant of each model.
    assert len(report["runs"]) == 0 + 2
    for name in ("r.md", "r.html"):
        text = (folder / name).read_text()
        assert "its budget is too tight" in text
        assert "Comparison" in text


@pytest.mark.long
def test_a_changed_plan_is_refused_unless_a_fresh_night_is_asked_for(
    plan: Path, etharness: Etharness
) -> None:
    only = ("--units", plan.parent / "units.toml", "--only", "a/small_int8")
    assert etharness("nightly", plan, *only, "-q").code == 0
    [folder] = nights(plan)
    journal = folder / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # as if it had been killed just before its end
    assert b'"finished"' in lines[-1]
    plan.write_text(PLAN.replace("repeats = 1", "repeats = 2"))
    refused = etharness("nightly", plan, *only)
    assert refused.code == 2
    assert "repeats: 1 before, 2 now" in refused.err
    assert "--fresh" in refused.err
    plan.write_text(PLAN)
    (plan.parent / "small_int8.pte").write_bytes(b"another model")
    assert "small_int8.pte: " in etharness("nightly", plan, *only).err
    (plan.parent / "small_int8.pte").write_bytes(
        (plan.parent / "new" / "small_int8.pte").read_bytes()
    )
    again = etharness("nightly", plan, *only)
    assert again.code == 0, again.err
    assert "resumes" in again.out
    assert ": pass" not in again.out, "nothing was left to be done"
    assert len(results(folder)) == 2
    assert etharness("nightly", plan, *only, "--fresh", "-q").code == 0
    assert len(nights(plan)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('reports = ["r.pdf"]', "no kind of report"),
        ('quarantine = "none.toml"', "none.toml: no such file"),
    ],
)
def test_what_is_wrong_shows_before_anything_runs(
    plan: Path, etharness: Etharness, text: str, said: str
) -> None:
    lines = [line for line in PLAN.splitlines() if not line.startswith(text.split()[0])]
    lines.insert(2, text)
    plan.write_text("\n".join(lines))
    refused = etharness("nightly", plan, "--units", plan.parent / "units.toml")
    assert refused.code == 2
    assert said in refused.err
    assert not list(plan.parent.glob("out/*/runs"))


def test_a_plan_without_quarantine_has_no_status(plan: Path, etharness: Etharness) -> None:
    plan.write_text(PLAN.replace('quarantine = "quarantine.toml"', ""))
    units = ("--units", plan.parent / "units.toml")
    assert etharness("nightly", plan, *units, "--quarantine-status").code == 2


def test_a_simulated_board_runs_the_image_of_the_plan(tmp_path: Path, etharness: Etharness) -> None:
    """As `run --flash --image` does: it is written into the empty machine of each run."""
    board = "qemu-mps2-an385"
    image = build_firmware(harness.Board.load(board)).image
    shutil.copy(image, tmp_path / "an385.elf")
    text = MINIMAL.replace('"native"', f'"{board}"\nimage = "an385.elf"')
    night = etharness("nightly", written_plan(tmp_path, text))
    assert night.code == 0, night.out + night.err
    [record] = tmp_path.glob("out/**/flash.json")
    flashed = json.loads(record.read_text())
    assert flashed["verified"]
    assert flashed["image"] == str(tmp_path / "an385.elf")


@pytest.mark.attack("Nights and history", "a read-only history in a nightly run", "exit code 71")
def test_a_history_that_cannot_be_written_is_this_host_s_trouble(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``os.access`` says it of a read-only file system; root may write any other."""
    with open_store(str(tmp_path / "runs.sqlite")):
        pass
    plan = written_plan(
        tmp_path, MINIMAL.replace("schema = 1", 'schema = 1\nhistory = "runs.sqlite"')
    )
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    night = etharness("nightly", plan)
    assert night.code == 71, night.out + night.err
    assert "runs.sqlite is not writable" in " ".join(night.out.split())
