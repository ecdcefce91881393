"""Have a night of 64 units with eight hours' worth of steps, and write its part of docs/nights.md.

    python -m benchmarks.long_night [--units 64] [--hours 8]      # hours
    python -m benchmarks.long_night --no-history                  # without adding 30,000 results

On a rack a step takes about a minute: flashing, a model over a serial line, some executions. Here a
step is a process that copies the run directory of one true run, made by the native board at the
beginning, under an id of its own. The rest is as it is: ``etharness nightly`` with its journal,
leases, threads, child processes, deadlines, logs, history and summary. So time is accelerated only
where the night itself waits for boards.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from msgspec.structs import replace

from benchmarks.decoding import machine
from harness.extensions.lab.nightly.journal import JOURNAL
from harness.records.result import digest_of, encode
from harness.runs.directory import RunDirectory
from harness.runs.request import RunRequest
from harness.runs.run import run_model

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/nights.md"
MODEL = ROOT / "firmware_stub/models/small_int8.pte"
HEADING = "## A long nightly run in accelerated time\n"
NEXT = "## Measured\n"
STEP_S = 60
"""How long a step takes on a rack, as assumed here."""
JOBS = 8
EVERY = 50
"""Samples of memory; of the disk there is one per five of these, as it is walked through."""
MEBIBYTE = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STAND_IN = """\
#!/bin/sh
# Takes the place of `python -m harness run ... --output=DIRECTORY` and copies a run there.
set -e
for word; do
    case $word in
    --output=*) out=${{word#--output=}} ;;
    --unit=*) unit=${{word#--unit=}} ;;
    esac
done
mkdir -p "$out"
cp -R {template}/. "$out"
repeat=${{out##*/}}
cp {results}/"$unit-${{repeat%-*}}.json" "$out/result.json"
"""
NOTES = (
    "Slopes are from the second half, because at first modules are loaded and units start. The",
    "journal and the run directories grow with every attempt; memory keeps a count of attempts.",
    "The plan limits all three: its number of steps, times one plus the retries. The number of",
    "units limits open files and threads; resources and waiting processes limit lease files.",
)
NIGHT = """\
import sys
from harness.cli import main
sys.executable = sys.argv[1]
sys.exit(main(sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the night takes when so many steps have ended; ``disk`` and ``locks`` are rare."""

    ended: int
    memory: int
    files: int
    threads: int
    journal: int
    disk: int | None = None
    locks: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_night")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--no-history", action="store_true", help="add no result to a history")
    parser.add_argument("--keep", type=Path, help="where the night is to stay")
    given = parser.parse_args()
    repeats = max(2, round(given.hours * 3600 / STEP_S))
    with tempfile.TemporaryDirectory() as scratch:
        home = given.keep or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        night = LongNight(home, given.units, repeats, history=not given.no_history)
        night.run()
    command = f"python -m benchmarks.long_night --units {given.units} --hours {given.hours:g}"
    command += " --no-history" * given.no_history
    before, _, rest = PAGE.read_text().partition(HEADING)
    after = (rest or before).partition(NEXT)[2]
    section = "\n".join(night.section(command))
    PAGE.write_text(f"{before.partition(NEXT)[0]}{HEADING}{section}\n\n{NEXT}{after}")
    print(section)


class LongNight:
    """One night, and what its process took on the way."""

    def __init__(self, home: Path, units: int, repeats: int, *, history: bool) -> None:
        self.home, self.units, self.repeats, self.history = home, units, repeats, history
        self.samples: list[Sample] = []
        self.seconds = self.finish_s = 0.0
        self.run_bytes = 0
        self.finish_memory = 0

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.units * self.repeats

    def run(self) -> None:
        """Have the night, and take samples of its process."""
        stand_in = self._prepare()
        environment = {**os.environ, "ETHARNESS_LOCK_DIR": str(self.home / "locks")}
        command = [sys.executable, "-c", NIGHT, str(stand_in), "nightly", "plan.toml"]
        log = self.home / "night.log"
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--units=units.toml", "--no-progress", "-q"],
                cwd=self.home,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            try:
                self._watch(process, began)
            finally:
                process.kill()
        if process.wait():
            raise SystemExit(f"the night ended with {process.returncode}:\n{log.read_text()}")
        self.finish_s = time.monotonic() - began - self.seconds

    def _prepare(self) -> Path:
        """Write the plan, the units and the stand-in; return the stand-in."""
        template, results = self.home / "template", self.home / "results"
        run_model(RunRequest("native", MODEL, 2, template))
        self.run_bytes = sum(file.stat().st_size for file in template.rglob("*"))
        names = [f"unit-{number}" for number in range(1, self.units + 1)]
        results.mkdir()
        result = RunDirectory(template).read_result()
        for number, (name, repeat) in enumerate(product(names, range(1, self.repeats + 1))):
            own = {"id": f"{number:032x}", "unit": name, "session": f"long/{repeat}", "digest": ""}
            other = replace(result, **own)
            signed = replace(other, digest=digest_of(encode(other)))
            (results / f"{name}-{repeat}.json").write_bytes(encode(signed))
        stand_in = self.home / "stand-in"
        stand_in.write_text(
            STAND_IN.format(template=shlex.quote(str(template)), results=shlex.quote(str(results)))
        )
        stand_in.chmod(0o755)
        shutil.copy(MODEL, self.home)
        units = [f'[[unit]]\nid = "{name}"\nboard = "native"\n' for name in names]
        (self.home / "units.toml").write_text("schema = 1\n" + "".join(units))
        history = 'history = "results.sqlite"\n' * self.history
        (self.home / "plan.toml").write_text(
            f'schema = 1\noutput = "nights"\nrepeats = {self.repeats}\njobs = {JOBS}\n'
            f'{history}reports = ["night.html"]\n'
            f'[[board]]\nboard = "native"\nunits = {names}\n'
            f'[[model]]\nfile = "{MODEL.name}"\n'
        )
        return stand_in

    def _watch(self, process: subprocess.Popen[bytes], began: float) -> None:
        journal, read, ended = None, 0, 0
        while process.poll() is None:
            time.sleep(0.02)
            journal = journal or next((self.home / "nights").glob(f"*/{JOURNAL}"), None)
            if journal is None:
                continue
            with journal.open("rb") as file:
                file.seek(read)
                new = file.read().rpartition(b"\n")
            read += len(new[0]) + len(new[1])
            ended += new[0].count(b'"what":"ended"')
            with suppress(OSError, ValueError, IndexError):  # it ends while it is looked at
                if ended >= self.steps:
                    self.seconds = self.seconds or time.monotonic() - began
                    self.finish_memory = max(self.finish_memory, memory_of(process.pid))
                elif not self.samples or ended >= self.samples[-1].ended + EVERY:
                    self.samples.append(self._sample(process.pid, ended, read))

    def _sample(self, pid: int, ended: int, journal: int) -> Sample:
        place = Path(f"/proc/{pid}")
        files, threads = (len(list((place / name).iterdir())) for name in ("fd", "task"))
        memory = memory_of(pid)
        if len(self.samples) % 5:
            return Sample(ended, memory, files, threads, journal)
        disk = subprocess.run(
            ["du", "-sb", "nights"], cwd=self.home, capture_output=True, text=True, check=False
        )
        locks = len(list((self.home / "locks").iterdir()))
        size = int(disk.stdout.split()[0])
        return Sample(ended, memory, files, threads, journal, size, locks)

    def section(self, command: str) -> Iterator[str]:
        """Yield the lines of the page."""
        hours = self.repeats * STEP_S / 3600
        times = self.steps * STEP_S / self.units / self.seconds
        yield ""
        yield f"Written by `benchmarks/long_night.py` on {machine()}."
        yield ""
        yield f"{self.units} units and {self.steps} steps stand for {hours:.2g} hours, at {STEP_S}"
        yield "s per step on each unit. Here a step only copies a run of the native board"
        yield f"({self.run_bytes / 1000:.1f} kB). The rest is a real nightly run. The steps"
        what = "history, report and summary" if self.history else "report and summary (no history)"
        yield f"took {self.seconds:.0f} s, at {times:.0f} times real time; {what}"
        yield f"took {self.finish_s:.0f} s and at most {self.finish_memory / MEBIBYTE:.0f} MiB."
        yield f"To repeat it: `{command}`."
        yield ""
        yield "| resource | start | maximum | end | per 1000 steps |"
        yield "|---|---|---|---|---|"
        memory = [(s.ended, s.memory / MEBIBYTE) for s in self.samples]
        yield row("memory, MiB", memory, ".2f")
        yield row("open files", [(s.ended, float(s.files)) for s in self.samples], ".1f")
        yield row("threads", [(s.ended, float(s.threads)) for s in self.samples], ".1f")
        yield row("journal, kB", [(s.ended, s.journal / 1000) for s in self.samples], ".1f")
        disk = [(s.ended, s.disk / 1e6) for s in self.samples if s.disk is not None]
        yield row("folder of the nightly run, MB", disk, ".2f")
        locks = [(s.ended, float(s.locks)) for s in self.samples if s.locks is not None]
        yield row("lease files", locks, ".1f")
        yield ""
        yield from NOTES


def row(what: str, points: Sequence[tuple[int, float]], form: str) -> str:
    values = [value for _, value in points]
    half = points[len(points) // 2 :]
    slope = 0.0
    if len(half) > 1:
        slope = 1000 * statistics.linear_regression(*zip(*half, strict=True)).slope
    cells = [format(value, form) for value in (values[0], max(values), values[-1])]
    return f"| {what} | {' | '.join(cells)} | {slope:+.2f} |"


def memory_of(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


if __name__ == "__main__":
    main()
