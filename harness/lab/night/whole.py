"""A whole night: what its boards do, then the history, the comparison, the reports, the end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.lab.night.commands import Commands
from harness.lab.night.journal import Record
from harness.lab.night.night import Night, Prepared, Stoppable, ended_attempts, open_night
from harness.lab.night.summary import counts_of, exit_code_of, outcomes_of, units_summary
from harness.report.night import NightDocument, Trouble
from harness.result import encode


def whole_night(
    prepared: Prepared,
    units_file: Path | None,
    *,
    fresh: bool = False,
    told: Callable[[Record], None] = lambda _: None,
    said: Callable[[str], None] = lambda _: None,
) -> NightDocument:
    """Go on with the night that was not finished or begin one, and bring it to its end.

    Args:
        prepared: What is to be done.
        units_file: The lab's units; None for the default place.
        fresh: Begin a new one in any case.
        told: Called with everything that is written into the journal.
        said: Called with what else people should know on the way.

    Raises:
        HarnessError: It cannot be begun, or its journal cannot be kept.
    """
    night = open_night(prepared, fresh=fresh, told=told)
    with night.journal:
        said(f"{night.name}: {'goes on' if night.resumed else 'begins'} in {night.directory}")
        if night.journal.dropped:
            said(f"{night.journal.dropped} bytes of a torn line of its journal were dropped")
        effects = Commands(
            prepared.plan, prepared.document, units_file, night.directory, night.name
        )
        return end_of(night, effects)


def end_of(night: Night, effects: Stoppable) -> NightDocument:
    """Do what is left of a night, and end it."""
    night.work(effects)
    document = summary_of(night)
    write_document(night.directory, document)
    night.finish(document.exit_code)
    return document


def summary_of(night: Night, troubles: tuple[Trouble, ...] = ()) -> NightDocument:
    """What came of a night, as far as it has come."""
    prepared = night.prepared
    outcomes = outcomes_of(prepared.all_steps, night.progress)
    units = units_summary(prepared.units, outcomes, night.progress)
    attempts = [ended.attempt for ended in ended_attempts(night)]
    interrupted = sum(attempt.outcome == "interrupted" for attempt in attempts)
    fails = prepared.plan.not_run == "fail"
    code = exit_code_of(outcomes, units, (), troubles, not_run_fails=fails)
    return NightDocument(
        name=prepared.plan.name,
        night=night.name,
        tool_version=__version__,
        directory=str(night.directory),
        started_utc=night.began_utc,
        ended_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        exit_code=code,
        passed=code == 0,
        steps=len(outcomes),
        attempts=len(attempts) - interrupted,
        interrupted=interrupted,
        counts=counts_of(outcomes),
        outcomes=outcomes,
        units=units,
        troubles=troubles,
    )


def write_document(directory: Path, document: NightDocument) -> None:
    """Write ``night.json``, whole or not at all."""
    partial = directory / ".night.json.partial"
    partial.write_bytes(encode(document))
    partial.replace(directory / "night.json")
