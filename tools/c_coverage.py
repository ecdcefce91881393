"""Which lines of the device's C code the tests executed.

    tools/c_coverage.py erase     remove the build that counts
    tools/c_coverage.py report    tables by file and by room; exit code 1 below the floor

gcov counts in the build of the CMake preset `coverage`, which the tests call when
ETHARNESS_NATIVE_PRESET says so, as in `make coverage` and `make oracle`; their counts add up.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from harness.files import data_directory
from harness.target.build import build_directory

FLOOR = 90.0
"""Percent of lines, for each room and for all together."""


def main() -> int:
    source = data_directory("firmware_stub")
    counts = build_directory(source, "coverage")
    match sys.argv[1:]:
        case ["erase"]:
            # Not only the counts: notes of sources and targets that are gone contradict today's.
            shutil.rmtree(counts, ignore_errors=True)
            return 0
        case ["report"]:
            return report(rooms(count_lines(source, counts)))
    print(__doc__)
    return 2


def count_lines(source: Path, counts: Path) -> list[dict[str, int | str]]:
    """Print gcovr's table and return its summary of each file."""
    if not any(counts.rglob("*.gcda")):
        sys.exit(f"nothing was counted in {counts}: run 'make coverage' first")
    with tempfile.TemporaryDirectory() as scratch:
        summary = Path(scratch) / "summary.json"
        command = [sys.executable, "-m", "gcovr", "--root", source, "--filter", f"{source}/src/"]
        subprocess.run([*command, "--txt", "-", "--json-summary", summary, counts], check=True)
        files: list[dict[str, int | str]] = json.loads(summary.read_text())["files"]
    return files


def rooms(files: list[dict[str, int | str]]) -> dict[str, tuple[int, int]]:
    """Lines and executed lines by folder of ``src/``, and of all."""
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for file in files:
        for room in (str(Path(*Path(str(file["filename"])).parts[:2])), "all"):
            lines, executed = totals[room]
            totals[room] = (
                lines + int(file["line_total"]),
                executed + int(file["line_covered"]),
            )
    return dict(totals)


def report(totals: dict[str, tuple[int, int]]) -> int:
    below = []
    for room, (lines, executed) in sorted(totals.items()):
        percent = 100 * executed / lines
        print(f"{room:20}{lines:6} lines{executed:6} executed{percent:7.1f}%")
        if percent < FLOOR:
            below.append(room)
    if below:
        print(f"line coverage is below {FLOOR:.0f}% in {', '.join(below)}", file=sys.stderr)
    return bool(below)


if __name__ == "__main__":
    sys.exit(main())
