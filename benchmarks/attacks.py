"""Run every test that is marked as an attack, and write docs/attacks.md.

    python -m benchmarks.attacks            # all, in some minutes; exit code 1 unless all held
    python -m benchmarks.attacks FILE...    # of these files of tests; the other rows stay

A row is what the mark of a test says, ``@pytest.mark.attack(area, tried, promised)``, so a test
that is renamed or removed takes its row with it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/attacks.md"
AREAS = (
    "Arguments and scripts",
    "Texts",
    "Files",
    "Flashing",
    "Link and servers",
    "Host and signals",
    "Leases",
    "Nights and history",
    "Clocks and logs",
)

INTRODUCTION = """# Attacks and faults

This page lists attacks and faults that could make the harness report wrong results, crash, hang,
lose results or damage a board. For each of them it states the expected behaviour and the result of
a test. `python -m benchmarks.attacks` runs the tests and writes this page; each row comes from the
mark `attack` of a test. A case is one input of a test. A property test is one case and tries many
inputs.

All boards are simulated: processes of the host, QEMU, and models of chips. No attack was tried on
a real board.
"""


class Test(NamedTuple):
    """A test function: the file, relative to the project, and its name."""

    file: str
    name: str


class Attack(NamedTuple):
    """One test with the mark.

    Attributes:
        area: Title of its table.
        tried: The attack or fault.
        promised: What has to happen.
        file: The file of the test, relative to the project.
        test: Name of the test function.
    """

    area: str
    tried: str
    promised: str
    file: str
    test: str

    @property
    def where(self) -> Test:
        """Its test function."""
        return Test(self.file, self.test)


def declared() -> list[Attack]:
    """All attacks, by area and file; nothing is imported."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    found = [attack for file in files for attack in marked(file)]
    return sorted(found, key=lambda attack: AREAS.index(attack.area))


def marked(file: Path) -> Iterator[Attack]:
    text = file.read_text()
    if "mark.attack(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.attack":
                area, tried, promised = (str(ast.literal_eval(word)) for word in mark.args)
                assert isinstance(node, ast.FunctionDef)
                name = file.relative_to(ROOT).as_posix()
                yield Attack(area, tried, promised, name, node.name)


def run(attacks: Sequence[Attack]) -> dict[Test, Counter[str]]:
    """How many cases of each test passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-o", "junit_family=xunit1"]
        tests = [f"{attack.file}::{attack.test}" for attack in attacks]
        subprocess.run([*command, f"--junit-xml={report}", *tests], cwd=ROOT, check=False)
        cases = ET.parse(report).iter("testcase")
        outcomes: dict[Test, Counter[str]] = defaultdict(Counter)
        for case in cases:
            test = Test(str(case.get("file")), str(case.get("name")).partition("[")[0])
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            outcomes[test][kinds.pop() if kinds else "passed"] += 1
    return outcomes


def happened(outcome: Counter[str]) -> str:
    if broken := outcome["failure"] + outcome["error"]:
        return f"**did not hold** in {broken} of {outcome.total()} cases"
    if not outcome["passed"]:
        return "not run: a required program is missing"
    return "held" if outcome["passed"] == 1 else f"held in {outcome['passed']} cases"


def page(attacks: Sequence[Attack], results: Mapping[Test, str]) -> str:
    held = sum(results[attack.where].startswith("held") for attack in attacks)
    broken = sum("not hold" in results[attack.where] for attack in attacks)
    lines = [
        INTRODUCTION,
        f"Of {len(attacks)} attacks and faults, {held} had the expected result, {broken} did not, "
        f"and {len(attacks) - held - broken} were not run.",
    ]
    for area, rows in groupby(attacks, key=lambda attack: attack.area):
        lines += ["", f"## {area}", ""]
        lines += ["| attack or fault | expected behaviour | result | test |", "|---|---|---|---|"]
        for attack in rows:
            what = (attack.tried, attack.promised, results[attack.where])
            lines.append(f"| {' | '.join(what)} | `{attack.test}` in `{attack.file}` |")
    return "\n".join(lines) + "\n"


def earlier_results() -> Iterator[tuple[Test, str]]:
    """What happened, as the page says it."""
    text = PAGE.read_text() if PAGE.exists() else ""
    for result, test, file in re.findall(r"\| ([^|]+) \| `(\w+)` in `(\S+)` \|$", text, re.M):
        yield Test(file, test), result


def main() -> int:
    attacks = declared()
    files = [Path(name).resolve().relative_to(ROOT).as_posix() for name in sys.argv[1:]]
    chosen = [attack for attack in attacks if not files or attack.file in files]
    outcomes = run(chosen)
    now = {attack.where: happened(outcomes[attack.where]) for attack in chosen}
    results = dict.fromkeys((attack.where for attack in attacks), "not run") | {
        **dict(earlier_results()),
        **now,
    }
    PAGE.write_text(page(attacks, results))
    for where, result in now.items():
        if not result.startswith("held"):
            print(f"{where.file}::{where.name}: {result}")
    return not all(result.startswith("held") for result in now.values())


if __name__ == "__main__":
    sys.exit(main())
