"""How many simulated units one host serves: a part of docs/scaling.md.

A unit is a thread that runs the command line again and again, as a night does, with a board of its
own that the command starts.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import build_firmware
from harness.config.board import load_board

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "firmware_stub/models/kws_int8.pte"
UNITS = {"native": (1, 2, 4, 8, 16, 32), "qemu-mps2-an385": (1, 2, 4, 8, 16)}
"""How many at once; an emulated board takes more CPU than one that is a process."""
EXECUTIONS = 20


def measure() -> dict[str, Any]:
    """Run every number of units once on every kind of board."""
    found: dict[str, Any] = {}
    for name, counts in UNITS.items():
        build_firmware(load_board(name)[0])
        found[name] = {"memory": memory(name), "units": {}}
        for units in counts:
            sample = of_units(name, units, max(12, units))
            found[name]["units"][str(units)] = sample
            print(f"{name}, {units}: {sample}", flush=True)
    return found


def command(board: str, directory: Path) -> list[str]:
    run = ["run", "--board", board, "--model", str(MODEL), "--runs", str(EXECUTIONS)]
    return [sys.executable, "-m", "harness", *run, "-q", "-o", str(directory)]


def of_units(board: str, units: int, runs: int) -> dict[str, float]:
    """So many runs by so many units at once: seconds, and seconds of CPU of all of them."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(runs):
        waiting.put(number)
    spent: list[float] = []
    failed: list[int] = []

    def unit(scratch: Path) -> None:
        with suppress(queue.Empty):
            while True:
                directory = scratch / str(waiting.get_nowait())
                process = subprocess.Popen(command(board, directory), stdout=subprocess.DEVNULL)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                spent.append(usage.ru_utime + usage.ru_stime)
                failed.extend([process.returncode] if process.returncode else [])

    with tempfile.TemporaryDirectory() as scratch:
        threads = [threading.Thread(target=unit, args=(Path(scratch),)) for _ in range(units)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        passed_s = time.perf_counter() - began
    return {"runs": runs, "s": passed_s, "cpu_s": sum(spent), "failed": len(failed)}


def memory(board: str) -> int:
    """Bytes that one run takes at most, with the board that it starts; shared pages are shared."""
    most = 0
    with tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen(command(board, Path(scratch) / "run"), stdout=subprocess.DEVNULL)
        while process.poll() is None:
            most = max(most, sum(map(proportional, family(process.pid))))
            time.sleep(0.01)
    return most


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in children for each in family(int(child)))]
    return [pid]


def proportional(pid: int) -> int:
    """Bytes in memory, what several processes share divided among them."""
    with suppress(OSError, IndexError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0
