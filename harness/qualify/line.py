"""Stages about the line and the firmware on the board: flash, link, reset, crash."""

from __future__ import annotations

import time
from typing import Final

from harness.config.board import NativeTarget, SerialTarget
from harness.decode.postmortem import Postmortem
from harness.errors import DeviceRefusedError, RestartedError
from harness.lab.flash_plan import FlashRequest
from harness.lab.flashing import flash_board
from harness.lab.health import GOOD_LOSS, measure_rates
from harness.lab.postmortem import fetch
from harness.link.values import RunOptions
from harness.link.wire import Reset, State, Status
from harness.qualify.bench import (
    Bench,
    Reached,
    StageOutcome,
    failed,
    not_offered,
    passed,
)
from harness.records.lab import RateQuality
from harness.records.qualification import StageFigure

_CRASH_RUNS: Final = 3
"""Executions of the run that crashes in its second one."""


def flash(bench: Bench) -> StageOutcome:
    """Flash the board; only the build id that it reports afterwards counts."""
    board = bench.board
    if board.flash is None or isinstance(board.target, NativeTarget):
        where = "starts with its image" if not bench.is_real else "has no [flash] in its file"
        return not_offered(f"{board.name} {where}")
    request = FlashRequest(
        bench.board_name, bench.output / "flash", bench.how, bench.port, leased=bench.leased
    )
    record = flash_board(request, lambda _, done, total: bench.progress(done, total))
    bench.build_id = record.build_id_after
    verified = "read back" if record.verified else "not read back"
    return passed(
        f"{record.tool} wrote {record.image_bytes:,} bytes ({verified}), and the board reports "
        f"build {record.build_id_after}, the image's",
        StageFigure("tool", f"{record.tool} {record.version}".strip()),
        StageFigure("image", record.image_bytes, "bytes"),
        StageFigure("image SHA-256", record.image_sha256),
        StageFigure("attempts", len(record.attempts)),
        StageFigure("time", record.duration_s, "s"),
    )


def link(bench: Bench) -> StageOutcome:
    """Measure losses and throughput at every rate."""
    with bench.opened(fast=False) as reached:
        bench.clear_postmortem(reached)
        session, info = reached.session, reached.info
        first = session.raise_baud(())
        deadlines, target = bench.board.deadlines, bench.board.target
        declared = {first, *target.bauds} if isinstance(target, SerialTarget) else {*info.bauds}
        offered = sorted({first, *info.bauds}) if first else [first]
        measured = measure_rates(
            session,
            info,
            offered,
            deadlines.boot_s,
            bench.execute_s,
            # A simulated line carries each rate alike.
            goodput_at=None if bench.is_real else offered[:1],
        )
        speeds = [rate.up_bytes_s for rate in measured if rate.heard and rate.up_bytes_s]
        bench.up_bytes_s = max(speeds, default=None)
    figures = [figure for rate in measured for figure in _figures(rate)]
    if first and (unknown := declared - {*offered}):
        return failed(
            f"the firmware does not offer {_rates(unknown)}, which the board file lists",
            "correct `target.bauds` in the board file, or the rates of the port",
            *figures,
        )
    bad = [text for rate in measured if (text := _fault(rate, declared))]
    if bad:
        return failed(
            "; ".join(bad),
            "try another cable, USB port or adapter, keep wires short and common ground good, "
            "and leave rates that the line does not carry out of the board file",
            *figures,
        )
    good = _rates({rate.baud for rate in measured if rate.heard})
    frames = sum(rate.frames for rate in measured)
    return passed(f"{good}: no losses in {frames:,} frames", *figures)


def _rates(bauds: set[int]) -> str:
    if bauds <= {0}:
        return "a line without a rate"
    return f"{', '.join(map(str, sorted(bauds)))} baud"


def _figures(rate: RateQuality) -> list[StageFigure]:
    name = f"{rate.baud} baud" if rate.baud else "line"
    if not rate.heard:
        return [StageFigure(name, f"not usable: {rate.message}")]
    found = [
        StageFigure(f"{name}: loss", rate.loss, f"of {rate.frames} frames"),
        StageFigure(f"{name}: UART overruns", rate.overruns),
    ]
    if rate.round_trip_us:
        found.append(StageFigure(f"{name}: median round trip", rate.round_trip_us[0], "us"))
    for way, speed in (("up", rate.up_bytes_s), ("down", rate.down_bytes_s)):
        if speed is not None:
            found.append(StageFigure(f"{name}: {way}", speed, "bytes/s"))
    return found


def _fault(rate: RateQuality, declared: set[int]) -> str:
    """Return what is wrong at a rate; "" for a good one, and for one that no file relies on."""
    at = f"at {rate.baud} baud" if rate.baud else "on the line"
    if not rate.heard:
        return f"the board does not answer {at}" if rate.baud in declared else ""
    if rate.overruns:
        return f"the board's UART lost bytes {rate.overruns} times {at}"
    if rate.loss > GOOD_LOSS:
        return f"{rate.loss:.2%} of {rate.frames} frames were lost or damaged {at}"
    return ""


def reset(bench: Bench) -> StageOutcome:
    """Reboot the board by the link: it must come back, without its model and without a crash."""
    with bench.opened() as reached:
        session = reached.session
        bench.clear_postmortem(reached)
        bench.small_model(reached)
        session.reset(Reset.REBOOT)
        began = time.monotonic()
        again = session.hello(bench.board.deadlines.boot_s)
        took = time.monotonic() - began
        status = session.status()
    figures = (StageFigure("answers after", round(took, 3), "s"),)
    if again.build_id != reached.info.build_id:
        return failed(
            f"after the reset it runs build {again.build_id}, not {reached.info.build_id}",
            "flash it again; a boot loader may keep two images",
            *figures,
        )
    if status.state != State.IDLE or status.run_id:
        return failed(
            "it answers, but has kept its model: the firmware did not start again",
            "check the port's `reboot`, or core_reset of its core",
            *figures,
        )
    if again.postmortem:
        return failed(
            "it takes the requested reset for a crash",
            "check that start-up leaves .noinit alone, and that its memory is initialized once",
            *figures,
        )
    return passed(f"answers {took:.2f} s after the reset, with nothing loaded", *figures)


def crash(bench: Bench) -> StageOutcome:
    """Let the board fault in a run; it must come back with a sound postmortem, and run again."""
    with bench.opened() as reached:
        bench.small_model(reached)
        session = reached.session
        try:
            session.run(_CRASH_RUNS, RunOptions(crash=True), timeout_s=bench.execute_s)
        except RestartedError:
            pass
        except DeviceRefusedError as error:
            if error.status != Status.BAD_REQUEST:
                raise
            return not_offered("its firmware cannot crash on request (etd_port.crash)")
        else:
            return failed(
                "a fault on purpose had no effect",
                "check that the port's fault handler calls etd_app_fault, and resets",
            )
        session.hello(bench.board.deadlines.boot_s)
        kept = fetch(session)
        if kept is None:
            return failed(
                "it came back from a fault without a postmortem",
                "check that .noinit is outside what start-up clears, that a reset keeps that "
                "memory, and that caches are written back",
            )
        message = kept.document.message
        wrong = _wrong(kept.found, reached)
        if wrong:
            return failed(f"its postmortem is wrong: {wrong} ({message})", _RECORD_REMEDY)
        bench.small_model(reached)
        after = bench.run(reached, 1)
    return passed(
        f"{message}; the board runs again after it",
        StageFigure("postmortem", message),
        StageFigure("registers", len(kept.document.registers)),
        StageFigure("events in the log of the crash", len(kept.found.trace or ())),
        StageFigure("events of the next run", len(after.trace)),
    )


_RECORD_REMEDY: Final = "see docs/postmortem.md, In a port"


def _wrong(found: Postmortem, reached: Reached) -> str:
    """Return what a postmortem of the requested crash gets wrong; "" if nothing."""
    if found.damage:
        return "; ".join(found.damage)
    if not found.running or found.completed != 1 or found.count != _CRASH_RUNS:
        return f"it does not name execution 2 of {_CRASH_RUNS}"
    if not found.fault:
        return "it names no fault"
    if found.trace is None or not len(found.trace):
        return "it has no log"
    return "" if reached.info.build_id.startswith(found.build_id) else "it names another build"
