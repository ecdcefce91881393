"""Run a packaged model on the native board and print its slowest operators."""

import harness

run = harness.run("kws_int8", board="native", runs=5)
print(f"{run}: {run.verdict!r}, kept in {run.directory}")

slowest_first = sorted(run.operators("native_call_*"), key=lambda op: op.p50, reverse=True)
for operator in slowest_first[:5]:
    print(f"{operator.p50!s:>12}  x{operator.count:<4} {operator.name}")

for allocator in run.allocators():
    print(f"{allocator.peak_bytes:>10,} B  {allocator.label}")
