"""What goes wrong, who owns it, and what is said: exit codes and messages of the command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from tests.conftest import BOARDS, MODELS, ROOT, CommandResult

Etharness = Callable[..., CommandResult]
LOG_HEADER = 64
"""Bytes before the records of a log."""
pytestmark = pytest.mark.sim


def run_arguments(tmp_path: Path, model: Path, *more: str, board: str = "native") -> list[str]:
    return ["run", "--board", board, "--model", str(model), "-o", str(tmp_path / "out"), *more]


def failure(tmp_path: Path) -> dict[str, object]:
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    return {**result["failure"], "exit_code": result["exit_code"]}


def test_no_such_board(etharness: Etharness, tmp_path: Path) -> None:
    code, _, err = etharness(*run_arguments(tmp_path, MODELS / "kws_int8.pte", board="natve"))
    assert code == 2
    assert err.splitlines() == [
        "error: no such board: 'natve'",
        f"  try: did you mean 'native'? `etharness boards` lists {len(BOARDS)}; "
        "or give the path of a board file",
    ]


def test_no_such_model(etharness: Etharness, tmp_path: Path) -> None:
    code, _, err = etharness(*run_arguments(tmp_path, tmp_path / "none.pte"))
    assert code == 2
    error, remedy = err.splitlines()
    assert error == f"error: cannot read the model {tmp_path}/none.pte: No such file or directory"
    assert remedy.startswith("  try: give a .pte file, or the name of a model")


def test_no_compiler(etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    code, _, err = etharness(*run_arguments(tmp_path, MODELS / "kws_int8.pte"))
    assert code == 2
    assert err.splitlines() == [
        "error: no compiler for preset 'native': cc not found",
        "  try: install it, on Debian or Ubuntu: apt-get install gcc",
    ]


def test_qemu_missing(etharness: Etharness, tmp_path: Path) -> None:
    text = (ROOT / "boards/qemu-mps2-an385.toml").read_text()
    board = tmp_path / "qemu-mps2-an385.toml"
    board.write_text(
        text.replace('kind = "qemu"', 'kind = "qemu", system = "qemu-system-absent"').replace(
            'budget = "budgets/default.toml"\n', ""
        )
    )
    code, _, err = etharness(*run_arguments(tmp_path, MODELS / "kws_int8.pte", board=str(board)))
    assert code == 2
    assert err.splitlines()[0] == (
        "error: board qemu-mps2-an385 needs qemu-system-absent, which is not installed"
    )
    assert "apt-get install" in err.splitlines()[1]


def test_model_too_large(etharness: Etharness, tmp_path: Path) -> None:
    model = tmp_path / "large.pte"
    model.write_bytes((MODELS / "kws_int8.pte").read_bytes().ljust((64 << 20) + 1, b"\0"))
    code, _, err = etharness(*run_arguments(tmp_path, model))
    assert code == 2
    assert err == (
        f"error: native cannot run {model}: model: 67,108,865 bytes needed, 67,108,864 available\n"
        "  try: place the model in flash: `--placed`, or firmware from "
        f"`etharness build --board native --model {model}`\n"
    )
    assert failure(tmp_path)["exit_code"] == 2


@pytest.mark.attack("Files", "a truncated model", "exit code 2; the board is not contacted")
def test_model_truncated(etharness: Etharness, tmp_path: Path) -> None:
    model = tmp_path / "half.pte"
    whole = (MODELS / "kws_int8.pte").read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    code, _, err = etharness(*run_arguments(tmp_path, model))
    assert code == 2
    assert err.startswith(f"error: {model} is not a complete ExecuTorch program: ")
    assert " at byte " in err
    assert "  try: export it again, or copy it again and compare sizes" in err


def test_unsupported_operator(etharness: Etharness, tmp_path: Path) -> None:
    model = tmp_path / "other.pte"
    whole = (MODELS / "kws_f32.pte").read_bytes()
    assert whole.count(b"aten::relu") == 1
    model.write_bytes(whole.replace(b"aten::relu", b"aten::selu"))
    files = [tmp_path / f"report{suffix}" for suffix in (".json", ".md", ".xml")]
    unwritable = model / "report.json"
    reports = [text for file in (*files, unwritable) for text in ("--report", str(file))]
    code, _, err = etharness(*run_arguments(tmp_path, model, *reports))
    assert code == 2, "that a report could not be written does not hide why the run failed"
    assert "aten::selu.out" in err
    assert "native" in err
    assert f"cannot write the report {unwritable}" in err
    for file in files:
        assert "aten::selu.out" in file.read_text()


@pytest.mark.parametrize(
    ("name", "stage", "words"),
    [
        ("hangs", "running", "did not"),
        ("dies while uploading", "uploading", "killed by SIGKILL"),
        ("dies while pulling", "pulling", "killed by SIGKILL"),
    ],
)
def test_the_board_misbehaves(name: str, stage: str, words: str, tmp_path: Path) -> None:
    board = tmp_path / "native.toml"
    text = (ROOT / "boards/native.toml").read_text()
    board.write_text(
        text.replace("execute_s = 30", "execute_s = 1")
        .replace("request_s = 2", "request_s = 0.2")
        .replace('budget = "budgets/default.toml"\n', "")
    )
    struck = []

    def strike(now: str, done: int, _total: int) -> None:
        if now == stage and done and not struck:
            pid = _firmware_pid()
            struck.append(pid)
            os.kill(pid, signal.SIGSTOP if name == "hangs" else signal.SIGKILL)

    with pytest.raises(harness.HarnessError) as raised:
        harness.run(
            MODELS / "kws_f32.pte", board=board, runs=200, output=tmp_path / "out", progress=strike
        )
    assert raised.value.exit_code == 4
    assert words in raised.value.message
    assert "native" in raised.value.message
    assert struck
    assert failure(tmp_path)["exit_code"] == 4
    assert not Path(f"/proc/{struck[0]}").exists()


def _firmware_pid() -> int:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    [pid] = [
        int(child) for child in children if "firmware" in Path(f"/proc/{child}/cmdline").read_text()
    ]
    return pid


def test_budget_exceeded(etharness: Etharness, tmp_path: Path) -> None:
    budget = tmp_path / "tight.toml"
    budget.write_text(
        'schema = 1\n[[time]]\nevent = "Method::execute"\nstatistic = "p50"\nlimit_us = 0.001\n'
    )
    code, out, _ = etharness(
        *run_arguments(tmp_path, MODELS / "kws_int8.pte", "--budget", str(budget), "--json")
    )
    assert code == 1
    result = json.loads(out)
    assert result["exit_code"] == 1
    assert result["verdict"]["passed"] is False
    assert [check["subject"] for check in result["verdict"]["checks"] if not check["passed"]]


@pytest.mark.attack(
    "Clocks and logs", "a log that is full", "the exact number of dropped events is reported"
)
def test_a_full_buffer_reports_the_exact_number_of_dropped_events(
    etharness: Etharness, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.json"
    code, out, _ = etharness(
        *run_arguments(tmp_path, MODELS / "kws_int8.pte", "--runs", "3", "--json")
    )
    assert code == 0
    whole.write_text(out)
    complete = json.loads(out)["trace"]
    code, out, _ = etharness(
        *run_arguments(
            tmp_path, MODELS / "kws_int8.pte", "--runs", "3", "--trace-limit", "2048", "--json"
        )
    )
    assert code == 1, "dropped events exceed the budget"
    limited = json.loads(out)
    assert limited["runs_completed"] == 3
    assert limited["trace"]["log_bytes"] <= 2048 + LOG_HEADER
    assert limited["trace"]["dropped_events"] > 0
    assert limited["trace"]["events"] + limited["trace"]["dropped_events"] == complete["events"]
    assert limited["trace"]["blocks"] + limited["trace"]["dropped_blocks"] == complete["blocks"]
    failed = [check for check in limited["verdict"]["checks"] if not check["passed"]]
    # A fast host also warns of short times (I05).
    failed = [check for check in failed if check["code"] != "I05"]
    logged = limited["trace"]["executions"]
    full = f"the log was full in execution {logged + 1} of 3; use --stream"
    assert {check["reason"].partition(": ")[2] for check in failed} == {full}
