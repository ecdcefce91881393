"""Ctrl-C ends a run on the board, too, and a board that runs says so: by the command line.

Interrupts come at moments of one seed; of 20 with ``ETHARNESS_EVERY_INTERRUPT=1``, as
`make measure` does.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import harness
from tests.conftest import MODELS, ROOT, CommandResult
from tests.support.examples import sampled

# Each test is some five commands, each of which would start counting anew.
pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

SEEDS = 20 if "ETHARNESS_EVERY_INTERRUPT" in os.environ else 1
MANY = "1000000"
LONGEST_S = 120.0
"""After that a command hangs."""
BOARDS = ["native", "qemu-mps2-an385"]


class Command:
    """A command in a session of its own, as a shell starts one."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that the command has started, as a terminal does."""
        os.killpg(self._process.pid, number)

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> CommandResult:
        try:
            out, err = self._process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # prints where it is
            pytest.fail(f"did not end:\n{self._process.communicate()[1]}")
        return CommandResult(self._process.returncode, out, err)


@dataclass
class Bench:
    """An empty folder, a model, and the options of a board that runs on when a command ends."""

    folder: Path
    options: tuple[str, ...]
    model: str = "kws_int8"

    def start(self, command: str, *arguments: str) -> Command:
        return Command(self.folder, command, *self.options, *arguments)

    def start_run(self, runs: str, output: str) -> Command:
        """Start a run; return when its inputs are on the board, which then executes soon."""
        run = self.start("run", "--model", self.model, "--runs", runs, "-o", output)
        file = self.folder / output / "inputs/0.npy"
        while not file.exists():
            assert not run.is_over, run.end().err
            time.sleep(0.02)
        return run

    def result(self, output: str) -> dict[str, object]:
        document: dict[str, object] = json.loads((self.folder / output / "result.json").read_text())
        return document

    def passes(self) -> None:
        code, _, err = self.start("run", "--model", self.model, "-q", "-o", "next").end()
        assert code == 0, err


def serial_board(folder: Path, name: str) -> str:
    """Write the board file of a simulated board that is reached through a port."""
    emulated = "emulated = true, " if harness.Board.load(name).emulated_time else ""
    lines = (ROOT / f"boards/{name}.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("budget", "flash"))]
    text = "\n".join(
        'target = { kind = "serial" }' if line.startswith("target") else line for line in kept
    )
    (folder / f"{name}.toml").write_text(text.replace("timer = { ", "timer = { " + emulated))
    return f"{name}.toml"


def wait_for_port(number: int) -> None:
    """Wait until a simulator that was started listens on its port."""
    until = time.monotonic() + LONGEST_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", number)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return


@contextmanager
def running(name: str, folder: Path) -> Iterator[Bench]:
    """Start a simulated board that a port leads to."""
    board = harness.Board.load(name)
    image = str(folder / "firmware.elf")
    built = Command(folder, "build", "--board", name, "-o", image).end()
    assert built.code == 0, built.err
    command, port = [image], ""
    if name != "native":
        with socket.create_server(("127.0.0.1", 0)) as free:
            number = free.getsockname()[1]
        port = f"socket://127.0.0.1:{number}"
        command = [
            *(board.target.system, "-M", board.target.machine, "-kernel", image, "-nodefaults"),
            *("-display", "none", "-serial", f"tcp:127.0.0.1:{number},server=on,wait=off"),
            *board.target.arguments,
        ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if port:
                wait_for_port(number)
            port = port or process.stdout.readline().removeprefix("link: ").strip()
            yield Bench(folder, ("--board", serial_board(folder, name), "--port", port))
        finally:
            process.kill()


@pytest.fixture(params=sampled(BOARDS, "native"))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with running(request.param, tmp_path) as bench:
        yield bench


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("native", signal.SIGINT, id="native"),
        pytest.param("qemu-mps2-an385", signal.SIGINT, id="qemu", marks=pytest.mark.long),
        pytest.param("native", signal.SIGTERM, id="terminated"),
    ],
)
def test_an_interrupt_keeps_the_trace_of_what_ran(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The ordinary case: the command starts the board, and Ctrl-C reaches everything it started."""
    bench = Bench(tmp_path, ("--board", name))
    assert bench.start("build").end().code == 0
    run = bench.start_run(MANY, "out")
    time.sleep(2)
    run.signal(number)
    code, _, err = run.end()
    assert code == 128 + number
    result = bench.result("out")
    completed = result["runs_completed"]
    assert isinstance(completed, int)
    assert 0 < completed < int(MANY)
    kept = "the run has ended on the board, and its trace is saved"
    terminated = number == signal.SIGTERM
    word = "terminated" if terminated else "interrupted"
    message = f"{word}: {int(completed):,} of {int(MANY):,} executions completed; {kept}"
    assert err.strip() == message
    assert result["exit_code"] == code
    assert result["failure"] == {
        "kind": "Terminated" if terminated else "KeyboardInterrupt",
        "message": message,
        "hint": "",
        "owner": "host",
    }
    trace = result["trace"]
    assert isinstance(trace, dict)
    assert trace["missing_records"] == trace["missing_chunks"] == 0
    decoded = Command(tmp_path, "decode", "out").end()
    assert decoded.code == 0, decoded.err
    assert not (tmp_path / "out/trace.partial").exists()


def test_the_next_command_finds_a_free_board(bench: Bench) -> None:
    run = bench.start_run(MANY, "out")
    time.sleep(1)
    run.signal(signal.SIGINT)
    assert run.end().code == 130
    bench.passes()


@pytest.mark.long
def test_a_board_that_runs_on_says_so_and_is_joined_or_ended(bench: Bench) -> None:
    run = bench.start_run(MANY, "out")
    time.sleep(1)
    run.signal(signal.SIGKILL)
    run.end()
    code, _, err = bench.start("run", "--model", "kws_int8", "-o", "busy").end()
    assert code == 75
    assert "the board is busy with run 1: " in err
    assert f" of {MANY} executions after " in err
    assert "try: `etharness pull --wait` waits for its end" in err
    code, _, err = bench.start("pull", "-o", "waited", "--wait", "0.5").end()
    assert (code, "is busy with run 1" in err) == (75, True)
    code, _, err = bench.start("pull", "-o", "ended", "--cancel", "-q").end()
    assert code == 0, err
    ended = bench.result("ended")["runs_completed"]
    assert isinstance(ended, int)
    assert 0 < ended < int(MANY)
    bench.passes()


@pytest.mark.long
def test_pull_waits_for_the_end_of_a_run(bench: Bench) -> None:
    runs = "2000" if "native" in bench.options[1] else "50"
    run = bench.start_run(runs, "out")
    time.sleep(1)
    run.signal(signal.SIGKILL)
    run.end()
    code, _, err = bench.start("pull", "-o", "pulled", "--wait", "-q").end()
    assert code == 0, err
    assert bench.result("pulled")["runs_completed"] == int(runs)


@pytest.mark.attack(
    "Host and signals",
    "SIGINT at any moment of a run",
    "exit code 130; the board is free for the next command",
)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.long
def test_an_interrupt_at_any_moment_leaves_a_board_that_works(seed: int, tmp_path: Path) -> None:
    """From the first execution to the report; the second time twice in a row."""
    chance = random.Random(seed)
    with running("native", tmp_path) as bench:
        for number in range(2):
            run = bench.start_run("1000", f"out{number}")
            time.sleep(chance.uniform(0, 3))
            run.signal(signal.SIGINT)
            if number:
                time.sleep(chance.uniform(0, 0.3))
                run.signal(signal.SIGINT)
            # An interpreter that is about to exit is ended by the signal.
            assert run.end().code in (0, 130, -signal.SIGINT)
            ended = bench.start("pull", "-o", f"end{number}", "--cancel", "-q").end()
            assert ended.code in (0, 4), ended.err  # 4: interrupted before the run
            bench.passes()


@pytest.mark.attack("Host and signals", "SIGINT while Python runs a destructor", "exit code 130")
def test_an_interrupt_that_python_loses_ends_the_run_all_the_same(tmp_path: Path) -> None:
    """A finalizer that is running when Ctrl-C comes loses it."""

    def stages(stage: str, done: int, total: int) -> None:
        if stage == "running" and done == 3:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="the run has ended on the board"):
        harness.run(
            MODELS / "kws_int8.pte",
            board="native",
            runs=1000,
            output=tmp_path / "out",
            progress=stages,
        )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
