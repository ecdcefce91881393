"""An export format of your own. Installed by a package, it works in `etharness export`, too.

A package names it in its pyproject.toml:

    [project.entry-points."etharness.exporters"]
    stacks = "my_package:STACKS"

This script stands in for that package: it writes the metadata that pip would write.
"""

import sys
from pathlib import Path

PACKAGE = '''
from harness import Exported, ExportFormat, Subject, merged_tree


def write_stacks(trace, request):
    """Folded stacks, one line each, for flame graph tools."""
    lines, stack = [], []
    for node in merged_tree(Subject(trace).tree):
        stack[node.depth :] = [node.name]
        lines.append(f"{';'.join(stack)} {node.own_ticks}")
    return Exported("\\n".join(lines).encode() + b"\\n")


STACKS = ExportFormat("Folded stacks, in ticks.", write_stacks)
'''

site = Path("site")
metadata = site / "my_package-1.0.dist-info"
metadata.mkdir(parents=True, exist_ok=True)
(site / "my_package.py").write_text(PACKAGE)
(metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
(metadata / "entry_points.txt").write_text("[etharness.exporters]\nstacks = my_package:STACKS\n")
sys.path.insert(0, str(site))

import harness  # noqa: E402  after the package has been "installed"

run = harness.run("kws_int8", board="native", runs=2)
run.export("own.stacks", "stacks")
print(Path("own.stacks").read_text())
