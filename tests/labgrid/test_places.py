"""Places of a labgrid coordinator: acquired, kept, taken from the dead, given back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness import BusyError, InfrastructureError, PortError, Unit, UsageError
from harness.extensions.lab.labgrid import Client, Identity, LostPlaceError, hold_place, holder_of
from tests.support.labgrid import Coordinator, FakeCoordinator, expired, holder_at

UNIT = Unit(id="one", board="native", lease="labgrid")
ANY = replace(UNIT, match={"board": "native"})
_HOLD = (
    "import sys; from pathlib import Path; from harness.errors import BusyError\n"
    "from harness.extensions.lab.labgrid import hold_place\n"
    "from harness.config.unit import Unit\n"
    "while not Path(sys.argv[2]).exists(): pass\n"
    "try:\n"
    "    with hold_place(Unit(id=sys.argv[1], board='native', lease='labgrid'), 0) as held:\n"
    "        print('held', flush=True); sys.stdin.read()\n"
    "except BusyError as error: print('busy', error, flush=True)\n"
)


def another(unit: str, go: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLD, unit, str(go)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def end(process: subprocess.Popen[str], signal_: int = signal.SIGTERM) -> None:
    with process:
        process.send_signal(signal_)


def test_a_place_is_held_and_given_back(coordinator: Coordinator) -> None:
    with hold_place(UNIT, 0) as held:
        assert (held.name, held.port) == ("one", "socket://127.0.0.1:4001")
        client = Client(coordinator.address)
        mine = Identity.parse(held.identity)
        assert mine is not None
        client.prolong("one", mine, mine.until + 7)
        place = client.place("one")
        assert place.identity == mine
        assert mine.ends(place.allowed) == mine.until + 7
        assert holder_of(place).startswith(f"process {os.getpid()} of ")
        with (
            ThreadPoolExecutor() as threads,
            pytest.raises(BusyError, match=f"already in use by process {os.getpid()} of"),
        ):
            threads.submit(hold_place(UNIT, 0).__enter__).result()
    assert holder_at(coordinator, "one") == ""


def test_any_place_of_a_board_will_do(fake: FakeCoordinator) -> None:
    more, again = (replace(ANY, id=name) for name in ("more", "again"))
    with hold_place(ANY, 0) as first, hold_place(more, 0) as second:
        assert {first.name, second.name} == {"one", "two"}
        with pytest.raises(BusyError, match="none of the 2 places with board=native was free"):
            hold_place(again, 0).__enter__()
    with pytest.raises(UsageError, match="no place with the tags board=x") as caught:
        hold_place(replace(ANY, match={"board": "x"}), 0).__enter__()
    assert "board=native, board=nucleo-f446re" in caught.value.hint


def test_a_child_has_what_its_parent_holds(fake: FakeCoordinator) -> None:
    within = (
        "from tests.labgrid.test_places import UNIT, hold_place\n"
        "with hold_place(UNIT, 0) as held: print(held.identity, held.port)"
    )
    child = [sys.executable, "-c", within]
    with hold_place(UNIT, 0) as held:
        with hold_place(UNIT, 0) as same:
            assert same == held
        assert holder_at(fake, "one") == held.identity
        done = subprocess.run(child, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [held.identity, held.port]
        assert holder_at(fake, "one") == held.identity
        fake.restart()
        done = subprocess.run(child, capture_output=True, text=True, check=False)
        assert "lost labgrid place" in done.stderr
        fake.acquire("one", held.identity)
    assert "ETHARNESS_PLACES" not in os.environ


def test_what_a_parent_holds_is_read_or_refused(
    fake: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHARNESS_PLACES", "[]")
    with pytest.raises(UsageError, match=r"invalid \$ETHARNESS_PLACES"):
        hold_place(UNIT, 0).__enter__()


def test_of_two_that_race_exactly_one_has_it(coordinator: Coordinator, tmp_path: Path) -> None:
    racing = [another("one", tmp_path / "go") for _ in range(2)]
    (tmp_path / "go").touch()
    said = [process.stdout.readline() for process in racing if process.stdout]
    try:
        assert sorted(line.split()[0] for line in said) == ["busy", "held"]
        winner = racing[said.index("held\n")]
        assert f"~{winner.pid}~" in holder_at(coordinator, "one")
    finally:
        for process in racing:
            end(process)


@pytest.mark.attack(
    "Nights and history",
    "kill -9 of the holder of a labgrid place",
    "the place is free for the next",
)
def test_what_a_killed_process_held_is_free_for_the_next(
    coordinator: Coordinator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "go").touch()
    process = another("one", tmp_path / "go")
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    end(process, signal.SIGKILL)
    assert holder_at(coordinator, "one") != ""
    with hold_place(UNIT, 0) as held:
        assert f"~{os.getpid()}~" in held.identity
    assert f"process {process.pid} has ended" in caplog.text


def test_what_is_expired_is_free_for_the_next(coordinator: Coordinator) -> None:
    coordinator.acquire("one", str(expired()))
    with hold_place(UNIT, 0):
        pass
    assert holder_at(coordinator, "one") == ""


@pytest.mark.parametrize(
    "holder",
    [
        "bench/somebody",  # none of us: labgrid's own client has no expiry
        str(Identity("elsewhere", "me", 1, 1, "0" * 12, 5, 2**33, "0" * 8)),
        str(Identity("elsewhere", "me", 0, 0, "0" * 12, 5, 2**33, "0" * 8)),
    ],
)
def test_what_may_be_in_use_is_never_taken(fake: FakeCoordinator, holder: str) -> None:
    fake.acquire("one", holder)
    with pytest.raises(BusyError, match=r"was not free within 0 s .* is already in use by "):
        hold_place(UNIT, 0).__enter__()
    assert holder_at(fake, "one") == holder


def test_a_term_that_was_prolonged_is_not_over(fake: FakeCoordinator) -> None:
    other = expired()
    fake.acquire("one", str(other))
    Client(fake.address).prolong("one", other, int(time.time()) + 100)
    with pytest.raises(BusyError):
        hold_place(UNIT, 0).__enter__()
    assert holder_at(fake, "one") == str(other)


def test_who_holds_a_place_keeps_saying_so(fake: FakeCoordinator) -> None:
    with hold_place(UNIT, 0, term_s=0.3) as held:
        client = Client(fake.address)
        end_ = time.monotonic() + 600
        while not (allowed := client.place("one").allowed):
            assert time.monotonic() < end_
            time.sleep(0.05)
        mine = Identity.parse(held.identity)
        assert mine is not None
        assert mine.ends(allowed) >= mine.until


def test_a_waiting_process_gets_it_when_it_is_free(fake: FakeCoordinator, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    process = another("one", tmp_path / "go")
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "held\n"
    process.stdin.close()  # it ends in its own time
    with hold_place(UNIT, 60):
        pass
    process.wait()


def test_a_coordinator_that_was_started_again_has_forgotten_and_that_is_said(
    coordinator: Coordinator,
) -> None:
    with ExitStack() as stack:
        held = stack.enter_context(hold_place(UNIT, 0))
        coordinator.stop()
        with pytest.raises(
            InfrastructureError, match=f"cannot reach .* {coordinator.address}"
        ) as away:
            held.check()
        coordinator.restart()
        with pytest.raises(LostPlaceError, match="lost labgrid place one") as caught:
            stack.close()
    assert "LG_COORDINATOR" in away.value.hint
    assert "run again" in caught.value.hint
    assert caught.value.exit_code == 75


def test_a_loss_does_not_hide_what_went_wrong_before(
    fake: FakeCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    def lose() -> None:
        with hold_place(UNIT, 0):
            fake.restart()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lose()
    assert "lost labgrid place" in caplog.text


@pytest.mark.attack(
    "Nights and history", "a labgrid exporter that is not running", "exit code 75, with its name"
)
def test_an_exporter_that_is_gone_is_told(coordinator: Coordinator) -> None:
    with pytest.raises(PortError, match="has no matching remote resource") as caught:
        hold_place(replace(UNIT, place="bare"), 250).__enter__()
    assert "labgrid-exporter" in caught.value.hint


def test_no_such_place(fake: FakeCoordinator) -> None:
    with pytest.raises(UsageError, match="has no place 'nowhere'") as caught:
        hold_place(replace(UNIT, place="nowhere"), 0).__enter__()
    assert caught.value.hint == "its places: bare, one, other, two"


def test_a_coordinator_that_hangs_keeps_nobody_for_long(fake: FakeCoordinator) -> None:
    fake.hang(60)
    with pytest.raises(InfrastructureError, match=r"not answer `-v places` within 0\.2 s"):
        Client(fake.address, 0.2).places()


def test_an_acquisition_that_the_client_did_not_hear_of_is_ours(fake: FakeCoordinator) -> None:
    fake.change("one", fails_after=True)
    with hold_place(UNIT, 5):
        pass
    assert holder_at(fake, "one") == ""


def test_what_is_reserved_is_left_alone(fake: FakeCoordinator) -> None:
    fake.change("one", reservation="TOKEN")
    with pytest.raises(BusyError, match="already in use by reservation TOKEN"):
        hold_place(UNIT, 0).__enter__()


def test_labgrid_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_LABGRID", "/nowhere/labgrid-client")
    with pytest.raises(UsageError, match="is not installed") as caught:
        hold_place(UNIT, 0).__enter__()
    assert "etharness explain labgrid" in caught.value.hint
