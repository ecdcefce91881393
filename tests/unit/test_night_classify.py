"""Whose a failure is: by the result, by how the process ended, by what the board says then."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness import Failure, Owner, Result, VerdictRecord
from harness.extensions.lab.nightly.worker import Cause, Ending, cause_of, command_failed, refine
from tests.support.reported import unmet
from tests.support.results import made

RESULT = made("1" * 32).result


def ending(code: int | None = 0, said: str = "", *, expired: bool = False) -> Ending:
    return Ending(code, expired, False, 1.0, said)


def failed(kind: str, owner: Owner | None, code: int) -> Result:
    return replace(RESULT, exit_code=code, failure=Failure(kind, "why", "do that", owner))


UNFINISHED = failed("Unfinished", Owner.HOST, 75)


@pytest.mark.parametrize(
    ("how", "result", "owner", "asks"),
    [
        (ending(4), failed("TargetError", Owner.PRODUCT, 4), Owner.PRODUCT, True),
        (ending(4), failed("TargetError", None, 4), Owner.PRODUCT, True),
        (ending(4), failed("WrongBoardError", Owner.BOARD, 4), Owner.BOARD, False),
        (ending(4), failed("WrongFirmwareError", Owner.FLASH, 4), Owner.FLASH, False),
        # The board of checks that failed has answered.
        (ending(1), failed("ChecksFailedError", Owner.PRODUCT, 1), Owner.PRODUCT, False),
        (ending(75), failed("LinkError", Owner.LINK, 75), Owner.LINK, True),
        (ending(75), failed("HostError", Owner.HOST, 75), Owner.HOST, False),
        (ending(75), failed("OldError", None, 75), Owner.HOST, False),
        (ending(2), failed("UsageError", Owner.TEST, 2), Owner.TEST, False),
        (ending(130), failed("KeyboardInterrupt", Owner.HOST, 130), Owner.HOST, False),
        (ending(143), failed("Terminated", Owner.HOST, 143), Owner.HOST, False),
        (ending(-15, expired=True), UNFINISHED, Owner.PRODUCT, True),
        (ending(-15, expired=True), None, Owner.HOST, False),
        (ending(-9), UNFINISHED, Owner.HOST, False),
        (ending(-11), None, Owner.HOST, False),
        (ending(1, "Traceback\nKeyError: 'x'"), UNFINISHED, Owner.HOST, False),
        (ending(1, "OSError: No space left on device"), None, Owner.HOST, False),
        (ending(2, "error: no such model\n  try: another"), None, Owner.TEST, False),
        (ending(3, "error: not comparable"), None, Owner.TEST, False),
        (ending(4, "error: it is broken"), None, Owner.PRODUCT, True),
        (ending(75, "error: it is held"), None, Owner.HOST, False),
        (ending(0), None, Owner.HOST, False),
        (ending(None), None, Owner.HOST, False),
    ],
)
def test_every_ending_has_an_owner(
    how: Ending, result: Result | None, owner: Owner, *, asks: bool
) -> None:
    cause = cause_of(how, result, 60.0)
    assert not cause.passed
    assert not cause.stopped
    assert cause.owner is owner
    assert cause.ask_board is asks
    assert cause.message
    assert cause.kind


def test_the_night_judges_what_a_run_that_looks_again_compares() -> None:
    def checked(*codes: str) -> Cause:
        checks = tuple(unmet(code, "s", "r") for code in codes)
        verdict = VerdictRecord(passed=False, budget="", checks=checks)
        return cause_of(ending(1), replace(RESULT, exit_code=1, verdict=verdict), 60.0)

    assert checked("H01", "H12").passed
    assert not checked("H12", "B01").passed


def test_a_complete_result_is_believed_whatever_became_of_its_process() -> None:
    assert cause_of(ending(0), RESULT, 60.0) == Cause(passed=True)
    late = cause_of(ending(75), RESULT, 60.0)
    assert late.passed
    assert late.evidence == ("the result was complete before the process ended with exit 75",)
    assert cause_of(ending(-9, expired=True), RESULT, 60.0).passed
    found = cause_of(None, RESULT, 0.0)
    assert found.passed
    assert found.evidence == ("the result was found when the nightly run resumed",)


def test_checks_that_failed_are_told() -> None:
    verdict = VerdictRecord(
        passed=False, budget="", checks=(unmet("B01", "one"), unmet("B01", "two"))
    )
    cause = cause_of(ending(1), replace(RESULT, exit_code=1, verdict=verdict), 60.0)
    assert cause.owner is Owner.PRODUCT
    assert cause.kind == "B01"
    assert "B01 one: " in cause.message
    assert "and 1 more check" in cause.message


@pytest.mark.parametrize("result", [None, UNFINISHED])
def test_what_was_under_way_when_the_night_ended_is_nobodys(result: Result | None) -> None:
    assert cause_of(None, result, 0.0).stopped
    assert cause_of(Ending(-15, False, True, 1.0, ""), result, 0.0).stopped
    interrupted = failed("KeyboardInterrupt", Owner.HOST, 130)
    assert cause_of(Ending(130, False, True, 1.0, ""), interrupted, 0.0).stopped


def test_what_a_command_printed_is_told() -> None:
    cause = cause_of(ending(2, "noise\nerror: no such model\n  try: another\n"), None, 60.0)
    assert (cause.message, cause.hint) == ("no such model", "another")
    assert "run out of memory" in cause_of(ending(-9), None, 60.0).hint
    assert cause_of(ending(-99), None, 60.0).kind == "signal 99"


ASKED = Cause(owner=Owner.LINK, ask_board=True, message="silence")


@pytest.mark.parametrize(
    ("first", "examined", "owner"),
    [
        (Owner.LINK, Cause(passed=True), Owner.LINK),
        (Owner.PRODUCT, Cause(passed=True), Owner.PRODUCT),
        (Owner.LINK, Cause(owner=Owner.BOARD, message="silent"), Owner.BOARD),
        (Owner.LINK, Cause(owner=None, message="silent"), Owner.BOARD),
        (Owner.PRODUCT, Cause(owner=Owner.BOARD, message="silent"), Owner.BOARD),
        (Owner.PRODUCT, Cause(owner=Owner.HOST, message="in use"), Owner.HOST),
        (Owner.PRODUCT, Cause(owner=Owner.LINK, message="noise"), Owner.PRODUCT),
        (Owner.LINK, Cause(owner=Owner.LINK, message="noise"), Owner.LINK),
        (Owner.LINK, Cause(owner=Owner.FLASH, message="text"), Owner.FLASH),
    ],
)
def test_the_board_says_the_rest(first: Owner, examined: Cause, owner: Owner) -> None:
    cause = refine(Cause(owner=first, ask_board=True, message="silence"), examined, 2)
    assert cause.owner is owner
    assert "after 2 power cycles" in cause.evidence[-1]
    assert cause.message == "silence"


@pytest.mark.parametrize(
    ("how", "owner"),
    [
        (ending(75, "error: the probe is gone"), Owner.FLASH),
        (ending(74, "error: the probe is gone"), Owner.FLASH),
        (ending(4, "error: another build id"), Owner.FLASH),
        (ending(2, "error: no such image"), Owner.TEST),
        (ending(75, "error: No space left on device"), Owner.HOST),
        (ending(-9), Owner.HOST),
        (ending(-15, expired=True), Owner.FLASH),
    ],
)
def test_flashing_fails_by_its_owner(how: Ending, owner: Owner) -> None:
    cause = command_failed(how, Owner.FLASH, "flashing x.elf", 60.0)
    assert cause is not None
    assert cause.owner is owner
    assert cause.message.startswith("flashing x.elf")
    assert not cause.ask_board


def test_flashing_that_worked_or_was_stopped_is_no_failure() -> None:
    assert command_failed(ending(0), Owner.FLASH, "flashing", 60.0) is None
    stopped = command_failed(Ending(-15, False, True, 1.0, ""), Owner.FLASH, "flashing", 60.0)
    assert stopped is not None
    assert stopped.stopped
