"""Export a run for https://ui.perfetto.dev, and write a report of it as Markdown.

The export needs `pip install 'etdump-harness[export]'`.
"""

from pathlib import Path

import harness

run = harness.run("kws_int8", board="native", runs=3)
for note in run.export("run.pftrace", "perfetto"):
    print(f"note: {note}")
print(f"run.pftrace: {Path('run.pftrace').stat().st_size:,} bytes")

report = run.report("run.md")
print(f"{report.name}: {report.stat().st_size:,} bytes")
