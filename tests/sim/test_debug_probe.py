"""Traces read from memory by a debug probe: firmware without a link, halted at any moment."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness import Session, TargetError, UsageError, build_firmware, start_target
from harness.extensions.probes.debug_probe import halted, open_probe
from harness.extensions.probes.memory import FirmwareElf, MemoryTracers
from harness.runs.device import pull_trace
from harness.runs.directory import RunDirectory
from harness.runs.request import ProbeRequest
from tests.conftest import MODELS, CommandResult
from tests.support.inner_pytest import inner
from tests.support.tracer_only import BOARD, build_tracer_only, gdbserver

__all__ = ["inner"]

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

ROOT = Path(__file__).parents[2]
EXECUTIONS = 3
INPUT = np.zeros((1, 49, 10, 1), np.float32)
HALTS = 200 if os.environ.get("ETHARNESS_EVERY_HALT") else 25
HEADER_SIZE = 64
RECORD_SIZE = 16


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Firmware with the tracer and no link, with a model and its input."""
    directory = tmp_path_factory.mktemp("firmware")
    return build_tracer_only(directory, model="kws_int8.pte", given=INPUT, executions=EXECUTIONS)


def pull(etharness: Etharness, port: str, image: Path, output: Path, *more: str) -> CommandResult:
    wanted = ("--board", BOARD, "--port", port, "--elf", image, "-o", output)
    return etharness("pull", *wanted, *more)


def test_the_same_run_read_by_link_and_by_probe_gives_the_same_bytes(
    etharness: Etharness, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
    board = harness.Board.load(BOARD)
    path = board.file
    text = path.read_text().replace('"shift=0"', f'"shift=0", "-gdb", "tcp:127.0.0.1:{number}"')
    file = tmp_path / f"{BOARD}.toml"
    file.write_text("\n".join(row for row in text.splitlines() if not row.startswith("budget")))
    firmware = build_firmware(board).image
    described = harness.Board.load(file)
    with start_target(described, build_firmware(described)) as target:
        session = Session(target.transport, deadline_s=20)
        info = session.hello(20)
        loaded = session.load_model((MODELS / "small_int8.pte").read_bytes())
        for index, tensor in enumerate(loaded.inputs):
            session.set_input(index, bytes(tensor.nbytes))
        session.run(4, timeout_s=60)
        pull_trace(session, info, RunDirectory.create(tmp_path / "link"))
        result = pull(etharness, f"gdb://127.0.0.1:{number}", firmware, tmp_path / "probe")
        assert result.code == 0, result.err
        assert session.ping().ticks > 0  # the board runs on
    assert (tmp_path / "probe/trace.etlog").read_bytes() == (
        tmp_path / "link/trace.etlog"
    ).read_bytes()
    found = harness.load(tmp_path / "probe").result
    assert found.target.build_id == info.build_id


@pytest.mark.long
def test_halts_at_random_moments_change_nothing(tmp_path: Path) -> None:
    """Each look sees the beginning of the final log, and the final log is the undisturbed one."""
    executions = 160 if HALTS > 100 else 20
    image = build_tracer_only(tmp_path, model="kws_int8.pte", given=INPUT, executions=executions)
    wanted, elf = ProbeRequest(image, "tracer"), FirmwareElf(image)
    with gdbserver(image, tmp_path, idle=True) as port, open_probe(port) as probe:
        undisturbed = MemoryTracers(probe, wanted, elf).read_settled(60.0)[0]
    moments = random.Random(HALTS)
    looks: list[bytes] = []
    with gdbserver(image, tmp_path, stopped=True) as port, open_probe(port) as probe:
        tracers = MemoryTracers(probe, wanted, elf)
        probe.resume()
        while not looks or len(looks[-1]) < len(undisturbed):
            time.sleep(moments.uniform(0, 0.004))
            with halted(probe), suppress(TargetError):  # the tracer may not be initialized yet
                looks.append(tracers.read(tracers.states())[0])
        final = tracers.read_settled(60.0)[0]
    for log in looks:
        count = int.from_bytes(log[12:16], "little")
        # The last record may not be written yet.
        records = log[HEADER_SIZE : HEADER_SIZE + max(0, count - 1) * RECORD_SIZE]
        assert undisturbed[HEADER_SIZE:].startswith(records)
    assert len(looks) > HALTS
    assert final == undisturbed


def test_a_symbol_ends_a_run(etharness: Etharness, image: Path, tmp_path: Path) -> None:
    with gdbserver(image, tmp_path, stopped=True) as port:
        once = pull(etharness, port, image, tmp_path / "once", "--until", "inference_done")
        assert once.code == 0, once.err
        assert harness.load(tmp_path / "once").result.runs_completed == 1
        again = pull(
            *(etharness, port, image, tmp_path / "again", "--until", "inference_done"),
            *("--reset", "system_reset"),
        )
        assert again.code == 0, again.err
    assert (tmp_path / "once/trace.etlog").read_bytes() == (
        tmp_path / "again/trace.etlog"
    ).read_bytes()


@pytest.fixture
def running(image: Path, tmp_path: Path) -> Iterator[str]:
    with gdbserver(image, tmp_path) as port:
        yield port


def test_what_goes_wrong_says_so_and_leaves_the_board_running(
    etharness: Etharness, image: Path, running: str, tmp_path: Path
) -> None:
    other = build_firmware(harness.Board.load(BOARD)).image
    cases = [
        (other, (), 4, "the board does not run"),
        (image, ("--symbol", "trace"), 2, "no variable named 'trace'"),
        (image, ("--symbol", "arena"), 4, "no initialized tracer in arena"),
        (image, ("--until", "inference"), 2, "no function named 'inference'"),
        (image, ("--reset", "reset halt"), 75, "refused the command 'reset halt'"),
    ]
    for elf, options, code, message in cases:
        result = pull(etharness, running, elf, tmp_path / "out", *options)
        assert (result.code, message in result.err) == (code, True), result.err
    result = pull(etharness, running, image, tmp_path / "out")
    assert result.code == 0, result.err
    assert harness.load(tmp_path / "out").result.runs_completed == EXECUTIONS


def test_a_run_that_a_symbol_ends_is_judged_as_any_other(
    etharness: Etharness, image: Path, tmp_path: Path
) -> None:
    wanted = ("run", "--board", BOARD, "--model", "kws_int8", "--elf", image, "--runs", "2")
    impatient = tmp_path / f"{BOARD}.toml"
    text = harness.Board.load(BOARD).file.read_text().replace("execute_s = 60", "execute_s = 1")
    impatient.write_text(text.replace("budget =", "time_scales = {} #"))
    with gdbserver(image, tmp_path, stopped=True) as port:
        done = etharness(
            *(*wanted, "--port", port, "--until", "inference_done", "-o", tmp_path / "out"),
            *("--reset", "system_reset", "--json"),
        )
        assert done.code == 0, done.err
        never = etharness(
            *("run", "--board", impatient, *wanted[3:], "--port", port, "--until", "fault"),
            *("-o", tmp_path / "never"),
        )
        assert never.code == 4
        assert "did not reach" in never.err
    record = json.loads(done.out)
    assert record["runs_completed"] == 2
    assert record["verdict"]["checks"]
    assert record["model"]["method_bytes"] > 0
    assert etharness("check", tmp_path / "out").code == 0
    for option in (("--seed", "3"), ("--stream",), ("--values", "outputs")):
        refused = etharness(*wanted, "--port", port, "--until", "inference_done", *option)
        assert refused.code == 2
        assert "the firmware decides about" in refused.err
    scaled = ("--until", "inference_done", "--time-scale", "npu*=fortnights")
    refused = etharness(*wanted, "--port", port, *scaled, "-o", tmp_path / "scaled")
    assert refused.code == 2
    assert not (tmp_path / "scaled").exists()
    endless = etharness(*wanted, "--port", port)
    assert (endless.code, "has no end" in endless.err) == (2, True)


def write_board(folder: Path) -> None:
    """Write a board that a probe reaches, as the page has it."""
    (folder / "my-board.toml").write_text(
        'schema = 1\nname = "my-board"\ndescription = "no serial port"\ncpu = "cortex-m3"\n'
        'timer = { source = "CMSDK timer 0", bits = 32, hz = 25_000_000 }\n'
        'target = { kind = "serial" }\n'
    )


def snippet(number: int) -> str:
    """Return one of the Python examples of the page."""
    page = (ROOT / "docs/probes.md").read_text()
    return page.split("```python\n")[number].split("```")[0]


def test_the_examples_in_python_run(
    image: Path, inner: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_board(inner.path)
    shutil.copy(MODELS / "kws_int8.pte", inner.path / "model.pte")
    (inner.path / "build").mkdir()
    shutil.copy(image, inner.path / "build/app.elf")
    monkeypatch.chdir(inner.path)
    with gdbserver(image, tmp_path, stopped=True) as port:
        script = snippet(1).replace("gdb://localhost:3333", port)
        script = script.replace("reset halt", "system_reset")
        found: dict[str, Any] = {}
        exec(script, found)
        run = found["run"]
        assert isinstance(run, harness.Run)
        assert run.result is not None
        assert (run.result.runs_completed, run.result.port) == (3, port)
        assert run.operator("Method::execute").count == 3
        test = snippet(2).replace("reset halt", "system_reset")
        inner.makepyfile(test_my_board=test)
        inner.runpytest("--etharness-port", port).assert_outcomes(passed=1)
        # Without an end there is no run, and no folder for one.
        before = sorted(inner.path.glob("out/*"))
        with pytest.raises(UsageError, match="needs the firmware's symbols"):
            harness.run("kws_int8", board="my-board.toml", port=port)
        with pytest.raises(UsageError, match="need a debug probe"):
            harness.run("kws_int8", board="native", until="inference_done")
        assert sorted(inner.path.glob("out/*")) == before


def test_outputs_are_read_and_compared(etharness: Etharness, image: Path, tmp_path: Path) -> None:
    wanted = ("run", "--board", BOARD, "--model", "kws_int8", "--until", "inference_done", "--elf")
    on_stack = build_tracer_only(
        *(tmp_path,),
        **{"model": "kws_int8.pte", "given": INPUT, "executions": EXECUTIONS},
        more=["-DMETHOD_STORAGE="],
    )
    with gdbserver(image, tmp_path, stopped=True) as port:
        reset = ("--port", port, "--reset", "system_reset")
        done = etharness(*wanted, image, *reset, "-o", tmp_path / "out")
        assert done.code == 0, done.err
        [output] = harness.load(tmp_path / "out").outputs
        assert output.sum() == pytest.approx(1.0, abs=0.05)  # a softmax
        right, wrong = tmp_path / "right.npy", tmp_path / "wrong.npy"
        np.save(right, output)
        np.save(wrong, output[:, ::-1])
        for reference, code in ((right, 0), (wrong, 1)):
            compared = etharness(
                *(*wanted, image, *reset, "--reference", reference),
                *("--rtol", "0", "--atol", "0", "-o", tmp_path / "compared"),
            )
            assert compared.code == code, compared.err
            found = {each.code: each for each in harness.load(tmp_path / "compared").verdict.checks}
            assert found["I11"].passed is (code == 0)
    with gdbserver(on_stack, tmp_path, stopped=True) as port:
        unread = etharness(*wanted, on_stack, "--port", port, "-o", tmp_path / "unread")
        assert unread.code == 0, unread.err
        assert "outputs     not read: forward of this model is loaded in 0 variables" in unread.out
        run = harness.load(tmp_path / "unread")
        assert run.outputs == []
        assert "0 variables of the firmware" in run.result.model.outputs_unread
        reset = ("--port", port, "--reset", "system_reset")
        refused = etharness(*wanted, on_stack, *reset, "--reference", right, "-o", tmp_path / "no")
        assert refused.code == 4
        assert "keep its etd_method in a static variable" in refused.err


def test_an_interrupt_leaves_the_board_running(
    etharness: Etharness, image: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with gdbserver(image, tmp_path, stopped=True) as port:
        wanted = ["pull", "--board", BOARD, "--port", port, "--elf", str(image), "--until", "fault"]
        # The line that the command logs once the board runs; it never gets to a fault.
        process = subprocess.Popen(
            [sys.executable, "-c", f"from harness.cli import main; main({[*wanted, '-vv']!r})"],
            cwd=empty,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "running to fault" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
        process.stderr.close()
        # On a busy host the board has not even begun by now; it runs on, and gets there.
        deadline = time.monotonic() + 600
        result = pull(etharness, port, image, tmp_path / "out")
        while result.code == 4 and time.monotonic() < deadline:
            result = pull(etharness, port, image, tmp_path / "out")
        assert result.code == 0, result.err
    assert harness.load(tmp_path / "out").result.runs_completed == EXECUTIONS
