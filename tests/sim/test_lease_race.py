"""Processes that race for one board, and are killed at any moment: one at a time has it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import Unit
from harness.extensions.lab.holding import hold, open_registry
from harness.target.selection import unit_key

PROCESSES = 6
TURNS = 25
_RACER = """
import os, random, sys, time
from harness.extensions.lab.holding import hold
from harness.config.unit import Unit

log, seed, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dice = random.Random(seed)
file = os.open(log, os.O_WRONLY | os.O_APPEND)
unit = Unit("contended", "native", port="socket://bench:4001")
print("ready", flush=True)
for _ in range(turns):
    with hold(unit, timeout_s=600):
        os.write(file, b"begin %d\\n" % os.getpid())
        time.sleep(dice.uniform(0, 0.004))
        os.write(file, b"end %d\\n" % os.getpid())
    time.sleep(dice.uniform(0, 0.002))
"""


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.delenv("ETHARNESS_LEASE", raising=False)


@pytest.mark.attack(
    "Leases", "processes that compete for a board and are killed", "one holder at a time"
)
@pytest.mark.long
def test_one_at_a_time_has_it_whoever_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    log = tmp_path / "log"
    log.touch()
    racers = []
    for number in range(PROCESSES):
        command = [sys.executable, "-c", _RACER, str(log), str(dice.randrange(1 << 32))]
        # Those that are killed would go on for long.
        turns = TURNS if number % 2 else 1000 * TURNS
        racers.append(subprocess.Popen([*command, str(turns)], stdout=subprocess.PIPE, text=True))
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        victims = racers[::2]
        dice.shuffle(victims)
        for victim in victims:
            time.sleep(dice.uniform(0, 0.4))
            victim.send_signal(signal.SIGKILL)
        for racer in racers[1::2]:
            assert racer.wait(600) == 0
        # Who was killed holds nothing, and says of nobody that he does.
        with hold(Unit("contended", "native", port="socket://bench:4001"), timeout_s=60):
            [ours] = open_registry().holders(unit_key("contended"))
            assert ours.record is not None
            assert ours.record.pid == os.getpid()
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    killed = {racer.pid for racer in victims}
    holder, turns = None, {racer.pid: 0 for racer in racers}
    for line in log.read_text().splitlines():
        what, pid = line.split()[0], int(line.split()[1])
        if what == "begin":
            assert holder is None or holder in killed, f"two at a time, seed {seed}"
            holder = pid
            turns[pid] += 1
        else:
            assert holder == pid, f"two at a time, seed {seed}"
            holder = None
    assert holder is None or holder in killed
    assert all(turns[racer.pid] == TURNS for racer in racers[1::2])
    assert sum(turns[pid] for pid in killed) > 0
