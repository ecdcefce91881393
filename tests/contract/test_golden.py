"""What commands print of files that an earlier version wrote stays, byte by byte."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.golden import boards, compare, unpack, without_place

Command = Callable[..., Any]

COMMANDS = {
    "decode_run": "decode runs/qemu-mps2-an385",
    "decode_native": "decode runs/native",
    "decode_tree": "decode runs/qemu-mps2-an385 --tree",
    "decode_memory": "decode runs/qemu-mps2-an385 --memory --model models/small_int8.pte",
    "decode_json": "decode runs/qemu-mps2-an385 --json",
    "decode_log": "decode runs/qemu-mps2-an385/trace.etlog",
    "decode_etdp": "decode runs/qemu-mps2-an385/trace.etdp --json",
    "check_run": "check runs/qemu-mps2-an385 -v",
    "check_failed": "check runs/qemu-microbit -v",
    "check_budget": "check runs/qemu-mps2-an385 --budget budget.toml -v",
    "check_json": "check runs/qemu-mps2-an385 --json",
    "check_annotations": "check runs/qemu-microbit --annotations github",
    "check_baseline": "check series/6 --history golden.db --baseline last:20 -v",
    "check_named": "check series/6 --history golden.db --baseline name:first --json",
    "compare": "compare series/1 runs/qemu-mps2-an385",
    "compare_boards": "compare runs/qemu-mps2-an385 runs/qemu-mps2-an386",
    "compare_json": "compare series/1 series/2 --json",
    "inspect": "inspect models/small_int8.pte",
    "inspect_json": "inspect models/scalars.pte --json --board qemu-mps2-an385",
    "replay": "replay compared.zip",
    "replay_json": "replay compared.zip --json",
    "budget": "budget budget.toml --board qemu-mps2-an385 --model small_int8",
    "history_list": "history list --history golden.db",
    "history_list_json": "history list --history golden.db --json",
    "history_show": "history show --history golden.db --board qemu-mps2-an385 --model small_int8",
    "history_show_json": "history show --history golden.db --model scalars --json",
    "history_info": "history info --history golden.db",
    "history_baselines": "history baseline list --history golden.db",
}

OF_EXTENSIONS = {
    "check_annotations": "ci",
    "compare": "why",
    "compare_boards": "why",
    "compare_json": "why",
    "budget": "budgets",
    "inspect": "executorch",  # cores that kernels of CMSIS-NN were exported for
    "replay": "bundles",
    "replay_json": "bundles",
} | {name: "history" for name in COMMANDS if name.startswith("history")}
"""Commands that need an extension."""

REPORTS = (
    "md",
    "json",
    pytest.param("xml", marks=pytest.mark.extension("ci")),
    pytest.param("sarif", marks=pytest.mark.extension("ci")),
)
FORMATS = {
    "ed00": "",
    "chakra": "exports",
    "csv": "exports",
    "folded": "exports",
    "google-benchmark": "exports",
    "json": "exports",
    "kineto": "exports",
    "model-explorer": "exports",
    "perfetto": "exports",
    "speedscope": "exports",
    "tsv": "exports",
}
"""Formats, and the extension that writes each."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the earlier version, as the current folder."""
    monkeypatch.chdir(unpack(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("ETHARNESS_HISTORY", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.extension(OF_EXTENSIONS[name])])
        if name in OF_EXTENSIONS
        else name
        for name in COMMANDS
    ],
)
def test_a_command_prints_the_same(name: str, folder: Path, etharness: Command) -> None:
    code, out, err = etharness(*COMMANDS[name].split())
    compare(name, without_place(f"{COMMANDS[name]}\n{out}{err}exit code {code}\n", folder))


@pytest.mark.extension("lab")
def test_a_plan_is_read_the_same(folder: Path, etharness: Command) -> None:
    words = "nightly plan.toml --dry-run"
    code, out, err = etharness(*words.split())
    compare("nightly_dry_run", without_place(f"{words}\n{out}{err}exit code {code}\n", folder))


@pytest.mark.parametrize("suffix", REPORTS)
def test_a_report_stays(suffix: str, folder: Path, etharness: Command) -> None:
    code, out, err = etharness(
        "report", "compared", "--budget", "budget.toml", "-o", f"report.{suffix}"
    )
    assert (code, err) == (0, "")
    text = (folder / f"report.{suffix}").read_text("utf-8")
    compare(f"report_{suffix}", without_place(out + text, folder))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.extension(extension)] if extension else [])
        for name, extension in FORMATS.items()
    ],
)
def test_an_export_stays(name: str, folder: Path, etharness: Command) -> None:
    code, out, err = etharness(
        *("export", "compared", "--model", "models/small_int8.pte", "-f", name, "-o", "exported")
    )
    assert code == 0, err
    content = (folder / "exported").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    compare(f"export_{name}", f"{without_place(out + err, folder)}{len(content)} bytes {digest}\n")


@pytest.mark.parametrize("board", boards())
def test_the_run_of_each_board_keeps_its_verdict(
    board: str, folder: Path, etharness: Command
) -> None:
    written = json.loads((folder / "runs" / board / "result.json").read_text("utf-8"))
    code, out, _err = etharness("check", f"runs/{board}", "--json")
    assert code == written["exit_code"]
    was = {check["code"]: check["passed"] for check in written["verdict"]["checks"]}
    now = {check["code"]: check["passed"] for check in json.loads(out)["checks"]}
    # Later versions add checks. None may fail where all was well, which the exit code says.
    assert now.items() >= was.items()


@pytest.mark.parametrize("board", boards())
def test_the_table_of_each_board_stays(board: str, folder: Path, etharness: Command) -> None:
    code, out, err = etharness("decode", f"runs/{board}", "--json")
    compare(f"board_{board}", without_place(f"{out}{err}exit code {code}\n", folder))


@pytest.mark.extension("history")
@pytest.mark.sim
@pytest.mark.long
def test_a_series_of_an_earlier_version_continues(folder: Path, etharness: Command) -> None:
    run = ("run", "--board", "qemu-mps2-an385", "--model", "models/small_int8.pte", "--runs", "3")
    _code, _out, _err = etharness(
        *run, "--history", "golden.db", "--baseline", "last:20", "-o", "today"
    )
    baseline = json.loads((folder / "today" / "history.json").read_text("utf-8"))["results"]
    assert {result["session"] for result in baseline} >= {f"s{number}" for number in range(1, 8)}
    _code, out, _err = etharness(
        "history", "list", "--history", "golden.db", "--unit", "qemu-mps2-an385", "--json"
    )
    results = json.loads(out)
    series = [result["provenance"] for result in results]
    assert len({(each["board"], each["model"], each["method"]) for each in series}) == 1


@pytest.mark.extension("lab")
@pytest.mark.sim
@pytest.mark.long
def test_a_nightly_run_of_an_earlier_version_resumes(folder: Path, etharness: Command) -> None:
    (night,) = (folder / "nights").iterdir()
    journal = night / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    # Without its end, and the last step as if the host had stopped before it wrote anything.
    journal.write_bytes(b"".join(line for line in lines[:-3] if line.strip()))
    shutil.rmtree(night / json.loads(lines[-3])["record"]["attempt"]["directory"])
    code, out, err = etharness("nightly", "plan.toml")
    assert code == 0, out + err
    assert [path.name for path in (folder / "nights").glob("golden-*")] == [night.name]
    assert "PASS: all 8 runs passed" in out
