"""Load a run from disk and check it against a budget; exit with 1 if a check fails."""

import sys
from pathlib import Path

import harness

BUDGET = """
schema = 1

[[time]]
event = "Method::execute"
limit_us = 9_000_000

[[allocator]]
name = "planned_1"
limit_bytes = 16_000
"""

if not Path("out/kws").exists():
    harness.run("kws_int8", board="native", runs=3, output="out/kws")
Path("budget.toml").write_text(BUDGET)

run = harness.load("out/kws", budget="budget.toml")
try:
    run.raise_for_verdict()
except harness.ChecksFailedError as error:
    sys.exit(str(error))
print(f"{run}: {run.verdict!r}")
