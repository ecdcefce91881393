"""Measure how many reruns fail a suggested budget on a busy host, and update docs/budgets.md.

    python -m benchmarks.suggest    # ten minutes

Five runs on the native board make the suggestion. Then the same model runs again and again, and
each rerun is checked against it. Meanwhile a process that never waits keeps a core busy. Nothing
is repeated or left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import Budget, Subject, evaluate
from harness.extensions.budgets.suggest import suggest
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.runs.source import subject_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/budgets.md"
BEGIN, END = "<!-- benchmarks.suggest -->", "<!-- end -->"
MODEL = ROOT / "firmware_stub/models/kws_int8.pte"
MEASURED, RERUNS, EXECUTIONS = 5, 200, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reruns", type=int, default=RERUNS)
    reruns: int = parser.parse_args().reruns
    with tempfile.TemporaryDirectory() as scratch, busy():
        runs = executed(Path(scratch))
        measured = [next(runs) for _ in range(MEASURED)]
        file = Path(scratch) / "budget.toml"
        file.write_text(suggest(measured), encoding="utf-8")
        budget = Budget.load(file, "native", MODEL.name)
        broken: Counter[str] = Counter()
        failed = 0
        for _ in range(reruns):
            failures = evaluate(next(runs), budget).failures
            broken.update(f"{check.code} {check.subject}" for check in failures)
            failed += bool(failures)
    text = f"{failed} of {reruns} reruns failed the suggestion made from {MEASURED} runs"
    text += f" ({EXECUTIONS} executions each, {os.cpu_count()} cores, one kept busy)."
    print(text, *(f"{count} x {what}" for what, count in broken.items()), sep="\n")
    page = PAGE.read_text(encoding="utf-8")
    between = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    PAGE.write_text(between.sub(f"{BEGIN}\n\n{text}\n\n{END}", page), encoding="utf-8")


@contextmanager
def busy() -> Iterator[None]:
    """Keep a core busy."""
    other = multiprocessing.Process(target=_spin, daemon=True)
    other.start()
    try:
        yield
    finally:
        other.terminate()
        other.join()


def _spin() -> None:
    while True:
        pass


def executed(scratch: Path) -> Iterator[Subject]:
    """Run the model on the native board without end."""
    number = 0
    while True:
        number += 1
        outcome = run_model(RunRequest("native", MODEL, EXECUTIONS, scratch / f"run-{number}"))
        yield subject_of(outcome.trace, outcome.result)


if __name__ == "__main__":
    main()
