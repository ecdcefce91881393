"""Compare two runs operator by operator; the largest regression comes first."""

import harness

baseline = harness.run("kws_int8", board="native", runs=5)
candidate = harness.run("kws_int8", board="native", runs=5)

comparison = candidate.compare(baseline)
for change in comparison.operators[:5]:
    if change.time.ratio is not None:
        print(f"{change.time.ratio:6.2f}x  {change.name}, instruction {change.instruction}")
print(f"{len(comparison.appeared)} operators appeared, {len(comparison.vanished)} vanished")
