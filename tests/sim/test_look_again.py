"""Looking at a run again: from its directory, from its files alone, and from a board still up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import harness
from harness import Session, build_firmware, open_port
from harness.target.build import ROOMS
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.documents import document

PINGS = 5

Etharness = Callable[..., CommandResult]
pytestmark = pytest.mark.sim
RUNS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    harness.run(MODELS / "kws_int8.pte", board="native", runs=RUNS, output=directory)
    return directory


def test_the_directory_holds_everything(run: Path) -> None:
    files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    assert files == [
        "console.log",
        "inputs/0.npy",
        "outputs/0.npy",
        "result.json",
        "trace.etdp",
        "trace.etlog",
        "used_budget/default.toml",
    ]
    result = document("result", (run / "result.json").read_text())
    assert result["runs_completed"] == RUNS
    assert result["exit_code"] == 0
    times = [t for ping in result["pings"] for t in (ping["host_before_ns"], ping["host_after_ns"])]
    assert times == sorted(times)
    # More than a few are for want of evidence of the rate, and end after a second.
    assert len(result["pings"]) >= 2
    assert len(result["pings"]) <= PINGS or times[-2] - times[0] < 2e9
    assert {ping["epoch"] for ping in result["pings"]} == {result["restart"]["epoch"]}


@pytest.mark.parametrize(
    ("flags", "shown", "hidden"),
    [
        ([], ["native (host), firmware ", "losses: none", "PASS: "], ["OPERATOR_CALL"]),
        (["-v"], ["OPERATOR_CALL", "peak stack use", "PASS: "], []),
        (["-q"], ["PASS: "], ["(host), firmware", "native_call_"]),
    ],
)
def test_run_says_as_much_as_it_is_asked_to(
    flags: list[str], shown: list[str], hidden: list[str], etharness: Etharness, tmp_path: Path
) -> None:
    model = str(MODELS / "kws_int8.pte")
    code, out, err = etharness(
        "run", "--board", "native", "--model", model, "-o", tmp_path / "out", *flags
    )
    assert (code, err) == (0, "")
    assert [text for text in shown if text not in out] == []
    assert [text for text in hidden if text in out] == []
    assert out.splitlines()[-1].startswith("PASS: ")


def test_decode_reads_the_directory_the_log_and_the_etdump_alike(
    run: Path, etharness: Etharness, tmp_path: Path
) -> None:
    documents = []
    for path in (run, run / "trace.etlog", run / "trace.etdp"):
        code, out, _ = etharness("decode", path, "--json")
        assert code == 0
        documents.append(document("decode", out))
    assert documents[0] == documents[1]
    assert documents[0]["operators"] == documents[2]["operators"]
    assert documents[0]["allocators"]
    # ExecuTorch's Inspector refuses allocation events, so its copy of the trace has none ...
    assert {item["count"] for item in documents[2]["allocators"]} == {0}
    # ... and a limit on bytes that nothing was logged of is not silently kept.
    budget = tmp_path / "budget.toml"
    budget.write_text("schema = 1\n[[allocator]]\nname = 'method'\nlimit_bytes = 262_144\n")
    assert etharness("check", run, "--budget", budget).code == 0
    code, out, _ = etharness("check", run / "trace.etdp", "--budget", budget)
    assert code == 1
    assert "no allocation from 'method' was logged: the limit matches nothing" in out

    shutil.copy(run / "trace.etdp", tmp_path / "alone.etdp")
    code, out, _ = etharness("decode", tmp_path / "alone.etdp", "--json")
    operators = document("decode", out)["operators"]
    assert {operator["clock"] for operator in operators} == {"ns"}


def test_decode_prints_a_table_of_a_file_that_executorch_made(etharness: Etharness) -> None:
    code, out, _ = etharness("decode", FIXTURES / "kws_f32_executorch.etdp")
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.startswith("convolution #")]
    assert ["convolution", "#6"] in [row[:2] for row in rows]
    assert "OPERATOR_CALL" not in out
    code, out, _ = etharness("decode", FIXTURES / "kws_f32_executorch.etdp", "-v")
    assert "OPERATOR_CALL" in out


def test_a_clock_given_by_hand_scales_the_times(etharness: Etharness) -> None:
    path = FIXTURES / "kws_f32_executorch.etdp"
    plain = json.loads(etharness("decode", path, "--json").out)["operators"]
    slower = json.loads(etharness("decode", path, "--json", "--clock-hz", "5e8").out)["operators"]
    assert [op["ticks"] for op in plain] == [op["ticks"] for op in slower]
    assert [2 * op["ns"]["total"] for op in plain] == [op["ns"]["total"] for op in slower]


def test_check_repeats_the_verdict_of_the_run(run: Path, etharness: Etharness) -> None:
    code, out, _ = etharness("check", run, "--json")
    assert code == 0
    assert (
        document("check", out)["checks"]
        == json.loads((run / "result.json").read_text())["verdict"]["checks"]
    )


def test_check_of_an_etdump_alone_holds_what_always_must_and_takes_a_budget(
    run: Path, etharness: Etharness, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.etdp"
    shutil.copy(run / "trace.etdp", alone)
    code, out, _ = etharness("check", alone, "--json")
    assert code == 0
    assert document("check", out)["budget"] == ""
    budget = tmp_path / "budget.toml"
    rule = '[[time]]\nevent = "Method::execute"\nstatistic = "max"\nlimit_us = '
    budget.write_text(f"schema = 1\n{rule}10_000_000\n")
    assert etharness("check", alone, "--budget", budget).code == 0
    budget.write_text(f"schema = 1\n{rule}1\n")
    code, out, _ = etharness("check", alone, "--budget", budget)
    assert code == 1
    assert re.search(r"^FAIL: 1 of \d+ checks failed(, \d+ \w+)*$", out, re.MULTILINE)
    assert "B01 Method::execute" in out.splitlines()[-2]
    budget.write_text("schema = 1\n[[tiem]]\n")
    code, _, err = etharness("check", alone, "--budget", budget)
    assert code == 2
    assert err.startswith(f"error: {budget}:2:1: unknown key 'tiem'\n")
    assert "did you mean 'time'?" in err


def test_build_reports_the_size_of_every_part(etharness: Etharness, tmp_path: Path) -> None:
    code, out, _ = etharness("build", "--board", "native", "-o", tmp_path / "fw", "--json")
    assert code == 0
    built = document("build", out)
    assert built["image"] == str(tmp_path / "fw")
    assert (tmp_path / "fw").stat().st_size > 0
    sizes = {size["part"]: size["text"] for size in built["sizes"]}
    assert list(sizes) == [*ROOMS, "image"]
    assert all(sizes.values())
    assert "tracer " in etharness("build", "--board", "native").out


def test_what_is_no_trace_is_named(etharness: Etharness, tmp_path: Path) -> None:
    assert etharness("decode", tmp_path / "none").err == (
        f"error: {tmp_path}/none: no such file or directory\n"
    )
    (tmp_path / "junk.etdp").write_bytes(b"junk" * 20)
    code, _, err = etharness("decode", tmp_path / "junk.etdp")
    assert code == 2
    assert "at byte" in err


@pytest.fixture
def native_port() -> Iterator[str]:
    """The port of a native board that somebody else started."""
    firmware = build_firmware(harness.Board.load("native"))
    with subprocess.Popen([firmware.image], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("link: ").strip()
        process.terminate()


def run_something(port: str) -> None:
    transport = open_port(port, 115_200)
    session = Session(transport)
    session.hello(10)
    [tensor] = session.load_model((MODELS / "kws_int8.pte").read_bytes()).inputs
    session.set_input(0, bytes(tensor.nbytes))
    session.run(2, timeout_s=10)
    transport.close()


def test_pull_reads_the_trace_of_a_board_that_is_up(
    native_port: str, etharness: Etharness, tmp_path: Path
) -> None:
    pull = ("pull", "--board", "native", "--port", native_port, "-o", tmp_path / "out", "--json")
    code, _, err = etharness(*pull)
    assert code == 4
    assert err.startswith(f"error: native on {native_port} has no trace: ")

    run_something(native_port)
    code, out, err = etharness(*pull)
    assert code == 0, err
    assert document("result", out)["trace"]["events"] > 60
    assert etharness("decode", tmp_path / "out").code == 0


def test_pull_from_nowhere_is_infrastructure(etharness: Etharness, tmp_path: Path) -> None:
    code, _, err = etharness(
        "pull", "--board", "native", "--port", tmp_path / "tty", "-o", tmp_path / "out"
    )
    assert code == 75
    assert str(tmp_path / "tty") in err
