"""Several tracers: placed by what their logs say, or the verdict fails and says why."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.strategies import DeviceLog

Etharness = Callable[..., Any]
HZ, OWN_HZ = 1_000_000_000, 10_000_000
LATE = 30 * HZ
"""A time in ticks of clock 0: seven wraps of 32 bits."""


WRAP_NS = 2**32 * HZ // OWN_HZ
"""Time in which the other counter wraps, which is ticks of clock 0, too."""


def tracer(number: int, *records: tuple[int, ...], dropped_runs: int = 0) -> DeviceLog:
    """A log: ``(start, end)`` is an event, ``(hz, own, reference)`` a pair of readings.

    ``(hz,)`` only declares the counter, ``()`` begins a block.
    """
    log = DeviceLog()
    log.tracer, log.dropped_runs = number, dropped_runs
    log.block("Execute")
    for record in records:
        if not record:
            log.block("Execute")
        elif len(record) == 2:
            log.profile("work", *record)
        else:
            log.clock(*record)
    return log


FIRST = tracer(0, (0, 4, 4), (100, 120), (0, 300, 300))


def saved(folder: Path, *logs: DeviceLog) -> Path:
    path = folder / "x.etlog"
    path.write_bytes(b"".join(log.image() for log in logs))
    return path


def tracers_check(etharness: Etharness, path: Path, *options: str) -> dict[str, Any] | None:
    """What the command ``check`` says of the tracers; its exit code agrees."""
    ended = etharness("check", path, "--json", *(options or ("--clock-hz", str(HZ))))
    checks = json.loads(ended.out)["checks"]
    found = [check for check in checks if check["code"] == "I30"]
    assert (ended.code == 0) == all(check["passed"] for check in found)
    return dict(found[0]) if found else None


def starts(etharness: Etharness, path: Path) -> list[int]:
    """When the events of all tracers began, in nanoseconds, by the timeline of exports."""
    options = ("-f", "csv", "-o", path.with_suffix(".csv"), "--clock-hz", str(HZ))
    assert etharness("export", path, *options).code == 0
    with path.with_suffix(".csv").open() as file:
        return [int(row["start_ns"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("logs", "why"),
    [
        ([tracer(0, (10, 20)), tracer(1, (10, 20))], "tracer 1: no CLOCK record says which"),
        ([FIRST, tracer(1, (OWN_HZ,), (1, 2))], "tracer 1: no CLOCK record has a pair"),
        (
            [tracer(0, (1, 2)), tracer(1, (0, 5, 5), (9, 9), (0, 9, 9))],
            "tracer 0: no CLOCK record has a pair",
        ),
        (
            [FIRST, tracer(1, (OWN_HZ, 0, 0), (1, 2), (OWN_HZ, 10_000, 2_000_000))],
            "tracer 1: pairs of readings contradict each other, or the rate",
        ),
        (
            [FIRST, tracer(1, (OWN_HZ, 9, 10_000_000), (10, 12), (OWN_HZ, 20, 0))],
            "tracer 1: pairs of readings contradict",
        ),
        (  # the core slept for a wrap, before its event or after it
            [FIRST, tracer(1, (OWN_HZ, 0, 0), (1, 2), (OWN_HZ, 3, 2**32 * 100 + 300))],
            "tracer 1: the log misses 1 wrap between two pairs of readings",
        ),
        (
            [FIRST, tracer(1, (OWN_HZ, 0, 0), (1, 2), (OWN_HZ, 3, 2**47))],
            "tracer 1: pairs of readings",
        ),
        (
            [FIRST, tracer(1, (0, 7, 7), (9, 9), (0, 9, 9 + 2**32))],
            "tracer 1: the log misses 1 wrap between two pairs of readings",
        ),
        (  # that another tracer has dropped runs is no reason for it
            [
                tracer(0, (0, 4, 4), (100, 120), (), (150, 160), (0, 300, 300), dropped_runs=1),
                tracer(1, (OWN_HZ, 0, 0), (1, 2), (), (3, 4), (OWN_HZ, 5, 2**32 * 100 + 500)),
            ],
            "tracer 1: the log misses 1 wrap between two pairs of readings",
        ),
        (  # a pair on one side says nothing of a pause on the other
            [FIRST, tracer(1, (0, 7, 7), (9, 9))],
            "tracer 1: no pair of readings after its last event",
        ),
        (
            [FIRST, tracer(1, (9, 9), (OWN_HZ, 15, 1500))],
            "tracer 1: no pair of readings before its first event",
        ),
        (  # "this is clock 0", of a counter that is plainly another one
            [FIRST, tracer(1, (0, 12_345, LATE), (12_350, 12_360), (0, 12_370, LATE + 25))],
            "tracer 1: the readings of a pair are of two counters, but rate 0 says that both are",
        ),
        (  # one beside pairs that only declares clock 0
            [
                tracer(0, (OWN_HZ, 4, 4), (100, 120), (OWN_HZ, 300, 29_604)),
                tracer(1, (0,), (10, 20)),
            ],
            "tracer 1: no CLOCK record has a pair",
        ),
        ([FIRST, tracer(1, (0,), (10, 20))], "tracer 1: no CLOCK record has a pair"),
        (  # no pairs at all, and one is longer than half a wrap
            [tracer(0, (10, 20), (2**31, 2**31 + 11)), tracer(1, (0,), (10, 20))],
            "tracer 1: with tracer 0 it lasts more than half a wrap (2,147,483,649 ticks), and no",
        ),
        (
            [tracer(0, (10, 20)), tracer(1, (0,), (10, 20), (2**31, 2**31 + 11))],
            "tracer 1: with tracer 0 it lasts more than half a wrap",
        ),
        (
            [tracer(0, (10, 20), (), (90, 95), dropped_runs=1), tracer(1, (0,), (10, 20))],
            "tracer 1: parts of the logs are missing, and no CLOCK record has a pair",
        ),
    ],
)
@pytest.mark.extension("exports")
def test_what_is_not_placed_fails_and_is_said_alike(
    logs: list[DeviceLog], why: str, tmp_path: Path, etharness: Etharness
) -> None:
    path = saved(tmp_path, *logs)
    check = tracers_check(etharness, path)
    assert check is not None
    assert not check["passed"]
    assert check["reason"].startswith(why)
    shown = etharness("decode", path, "--clock-hz", str(HZ))
    assert shown.code == 0
    assert f"clocks: {check['reason']}" in shown.out
    document = json.loads(etharness("decode", path, "--clock-hz", str(HZ), "--json").out)
    assert any(line.startswith(check["reason"]) for line in document["tracers"])
    for kind in ("perfetto", "csv"):
        options = ("-f", kind, "-o", tmp_path / kind, "--clock-hz", str(HZ))
        exported = etharness("export", path, *options)
        assert all(why in exported.out + exported.err for why in check["reason"].split("; "))
    assert not harness.load(path, clock_hz=HZ).verdict.passed


def test_one_tracer_alone_needs_no_record(tmp_path: Path, etharness: Etharness) -> None:
    path = saved(tmp_path, tracer(3, (10, 20)))
    assert tracers_check(etharness, path) is None
    assert "tracers" not in json.loads(etharness("decode", path, "--json").out)


@pytest.mark.extension("exports")
def test_tracers_that_declare_the_same_counter_begin_within_half_a_wrap(
    tmp_path: Path, etharness: Etharness
) -> None:
    path = saved(tmp_path, tracer(0, (10, 20)), tracer(1, (0, 0, 2**48 - 1), (2**31, 2**31 + 5)))
    check = tracers_check(etharness, path)
    assert check is not None
    assert check["passed"]
    assert starts(etharness, path) == [0, 2**31 - 10]


@pytest.mark.extension("exports")
def test_logs_without_pairs_are_drawn_by_their_begins(tmp_path: Path, etharness: Etharness) -> None:
    """Not by the ends of their first events, which are half a wrap apart here."""
    operator, task = (1000, 2**31 + 2000), (1000, 1500)
    path = saved(tmp_path, tracer(0, operator), tracer(1, (0,), task, (2**31, 2**31 + 500)))
    assert starts(etharness, path) == [0, 0, 2**31 - 1000]
    assert not (tracers_check(etharness, path) or {})["passed"]


def test_two_logs_of_one_number_are_told_apart_by_a_number(
    tmp_path: Path, etharness: Etharness
) -> None:
    ended = etharness("decode", saved(tmp_path, tracer(0, (10, 20)), tracer(0, (10, 20))))
    assert ended.code != 0
    assert "chunk 0 of tracer 0 is duplicated" in ended.err
    assert "etd_set_tracer_number" in ended.err


@pytest.mark.parametrize(
    "second",
    [
        tracer(
            1,
            (0, (LATE + 5) % 2**32, LATE + 5),
            ((LATE + 100) % 2**32, (LATE + 120) % 2**32),
            (0, (LATE + 200) % 2**32, LATE + 200),
        ),
        tracer(1, (OWN_HZ, 1000, LATE - 900), (1010, 1012), (OWN_HZ, 1015, LATE + 600)),
    ],
)
@pytest.mark.extension("exports")
def test_logs_of_30_s_apart_are_30_s_apart(
    second: DeviceLog, tmp_path: Path, etharness: Etharness
) -> None:
    path = saved(tmp_path, FIRST, second)
    check = tracers_check(etharness, path)
    assert check is not None
    assert check["passed"], check["reason"]
    assert starts(etharness, path) == [0, LATE]


@pytest.mark.extension("exports")
def test_a_core_may_be_idle_for_wraps_where_pairs_say_so(
    tmp_path: Path, etharness: Etharness
) -> None:
    """For two before its event, between two pairs, and for three after it."""
    woken, done = 2 * WRAP_NS, 5 * WRAP_NS
    pairs = [(OWN_HZ, 1000, 100), (OWN_HZ, 1000, 100 + woken), (OWN_HZ, 1050, 5100 + done)]
    path = saved(tmp_path, FIRST, tracer(1, *pairs[:2], (1010, 1012), (2000, 2010), pairs[2]))
    assert not (tracers_check(etharness, path) or {})["passed"]  # between two events, perhaps
    path = saved(tmp_path, FIRST, tracer(1, *pairs[:2], (1010, 1012), (OWN_HZ, 1015, 1600 + woken)))
    assert (tracers_check(etharness, path) or {})["passed"]
    assert starts(etharness, path) == [0, 1000 + woken]


@pytest.mark.extension("exports")
def test_runs_after_dropped_ones_are_placed_by_the_pair_behind_them(
    tmp_path: Path, etharness: Etharness
) -> None:
    """The pair that the tracer had logged in a dropped run stands before the gap now."""
    gone = 5 * 2**32 + 1000
    second = tracer(
        1,
        *[(OWN_HZ, 0, 0), (10, 12), (OWN_HZ, 50, 5000), ()],
        *[(gone % 2**32, gone % 2**32 + 5), (OWN_HZ, (gone + 50) % 2**32, (gone + 50) * 100)],
        dropped_runs=7,
    )
    path = saved(tmp_path, FIRST, second)
    check = tracers_check(etharness, path)
    assert check is not None
    assert check["passed"], check["reason"]
    assert starts(etharness, path) == [0, 10 * 100 - 100, gone * 100 - 100]


def test_without_the_rate_of_clock_0_another_counter_is_not_placed(
    tmp_path: Path, etharness: Etharness
) -> None:
    path = saved(tmp_path, FIRST, tracer(1, (OWN_HZ, 0, 0), (1, 2)))
    check = tracers_check(etharness, path, "-v")
    assert check is not None
    assert "--clock-hz" in check["reason"]


def test_records_that_contradict_each_others_rate_are_refused(
    tmp_path: Path, etharness: Etharness
) -> None:
    ended = etharness("decode", saved(tmp_path, tracer(1, (5, 0, 0), (6, 0, 0))))
    assert ended.code != 0
    assert "CLOCK rate" in ended.err


@pytest.mark.extension("exports")
def test_a_budget_may_say_that_an_older_log_is_of_one_counter(
    tmp_path: Path, etharness: Etharness
) -> None:
    path = saved(tmp_path, tracer(0, (10, 20)), tracer(1, (15, 18)))
    budget = tmp_path / "budget.toml"
    budget.write_text('schema = 1\n\n[severity]\nI30 = "off"\n')
    assert tracers_check(etharness, path) is not None
    options = ("--clock-hz", str(HZ), "--budget", str(budget))
    assert tracers_check(etharness, path, *options) is None
    assert starts(etharness, path) == [0, 5]


@pytest.mark.extension("exports")
def test_an_ed00_file_has_all_events_in_ticks_of_clock_0(
    tmp_path: Path, etharness: Etharness
) -> None:
    """It has one clock: so each event lasts as long as it did, and begins where it did."""
    path, copy = saved(tmp_path, FIRST, tracer(1, (OWN_HZ, 1000, LATE), (1010, 1012))), "x.etdp"
    options = ("--flavour", "inspector", "-o", tmp_path / copy, "--clock-hz", str(HZ))
    assert etharness("export", path, "-f", "ed00", *options).code == 0
    trace = harness.load(tmp_path / copy, clock_hz=HZ).trace
    assert trace.start.tolist() == [100, LATE + 1000]
    assert (trace.end - trace.start).tolist() == [20, 200]
