"""A share is the median over executions of the share of each, in every view."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import harness


def test_the_share_of_each_operator_is_a_median_over_executions(
    etharness: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = etharness(
        *("run", "--board", "native", "--model", "small_int8", "--runs", "9", "-o", out),
        *("--report", tmp_path / "run.json"),
    )
    assert done.code == 0
    [run] = json.loads((tmp_path / "run.json").read_text("utf-8"))["runs"]
    trace = harness.load(out).trace
    times: dict[tuple[str, int], list[int]] = {}
    ends = accumulate(block.count for block in trace.blocks)
    for block, end in zip(trace.blocks, ends, strict=True):
        for row in range(end - block.count, end if block.name == "Execute" else 0):
            name = trace.text(int(trace.name[row])) or ""
            key = name, int(trace.instruction[row])
            times.setdefault(key, []).append(int(trace.end[row]) - int(trace.start[row]))
    [whole] = [took for (name, _), took in times.items() if name == "Method::execute"]
    tree = json.loads(etharness("decode", out, "--tree", "--json").out)["tree"]
    nodes = {(node["name"], node["instruction"]): node["share"] for node in tree}
    assert run["operators"]
    for operator in run["operators"]:
        key = operator["name"], operator["instruction"]
        parts = [one / all_of for one, all_of in zip(times[key], whole, strict=True)]
        assert abs(operator["share"] - statistics.median(parts)) < 1e-9
        assert nodes[key] == operator["share"]
