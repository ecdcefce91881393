"""Health of units: simulated boards that are well, and those with every kind of fault."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness import Owner, Unit, UsbPort, find_unit
from harness.extensions.lab.health import Health, best_rate, examine, heal
from harness.extensions.lab.holding import hold
from harness.runs.line_quality import RateQuality
from tests.conftest import CommandResult
from tests.sim.test_postmortem import crashed_native
from tests.support.boards import started
from tests.support.documents import document
from tests.support.rack import Kind, Rack, rack
from tests.support.rack.firmware import Image, images_in

pytestmark = pytest.mark.sim

Etharness = Callable[..., CommandResult]
BOARD = """\
schema = 1
name = "native"
description = "a native board that somebody else started"
cpu = "host"
timer = { source = "CLOCK_MONOTONIC", bits = 32, hz = HZ }
target = { kind = "serial", bauds = [921_600] }
deadlines = { boot_s = BOOT, reopen_s = 0.5, unit_s = 0.5 }
"""


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    with rack(tmp_path_factory.mktemp("rack"), units=2, seed=3) as running:
        yield running


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))


@pytest.fixture
def board(tmp_path: Path) -> str:
    return board_file(tmp_path)


@pytest.fixture
def mute_board(tmp_path: Path) -> str:
    """One that nobody waits for: it does not answer."""
    return board_file(tmp_path, boot_s=0.5)


def board_file(tmp_path: Path, hz: int = 1_000_000_000, boot_s: float = 20) -> str:
    path = tmp_path / "native.toml"
    path.write_text(BOARD.replace("HZ", str(hz)).replace("BOOT", str(boot_s)))
    return str(path)


@contextmanager
def device(says: bytes = b"") -> Iterator[str]:
    """A device that answers all it hears with that, and nothing else."""
    master, slave = os.openpty()
    tty.setraw(slave)

    def answer() -> None:
        with suppress(OSError):
            while os.read(master, 4096):
                os.write(master, says)

    threading.Thread(target=answer, daemon=True).start()
    try:
        yield os.ttyname(slave)
    finally:
        os.close(slave)
        os.close(master)


@contextmanager
def native() -> Iterator[str]:
    """The device of a native board that is up."""
    with started("native") as bench:
        bench.target.transport.close()
        yield bench.target.description.rpartition(" on ")[2]


def parts(health: Health) -> dict[str, str]:
    return {each.part: each.state for each in health.findings}


WELL = dict.fromkeys(("port", "answer", "identity", "crash", "line"), "ok")


def test_a_simulated_board_is_built_started_and_asked(etharness: Etharness, tmp_path: Path) -> None:
    units = tmp_path / "units.toml"
    units.write_text('schema = 1\n[[unit]]\nid = "n"\nboard = "native"\n')
    code, out, err = etharness("lab", "health", "--units", units, "--rates", "--json")
    assert code == 0, err
    [health] = document("lab-health", out)
    assert {each["part"]: each["state"] for each in health["findings"]} == WELL | {"firmware": "ok"}
    assert [rate["baud"] for rate in health["rates"]] == [115_200, 921_600, 3_000_000]
    assert all(rate["down_bytes_s"] > 0 and rate["up_bytes_s"] > 0 for rate in health["rates"])
    shown = etharness("lab", "health", "n", "--units", units).out
    assert shown.splitlines()[-1] == "n is well"
    assert etharness("lab", "health", "n", "--units", units, "-q").out == "n is well\n"
    assert etharness("lab", "health", "m", "--units", units).code == 2


def test_a_board_that_is_up_is_left_as_it_was(board: str) -> None:
    with native() as port:
        health = examine(Unit("n", board, port=port))
        assert parts(health) == WELL
        [rate] = health.rates
        assert (rate.baud, rate.pings, rate.up_bytes_s) == (921_600, 20, None)
        assert examine(Unit("n", board, port=port, baud=3_000_000)).rates[0].baud == 3_000_000
        assert examine(Unit("n", board, port=port), goodput=True).rates[0].down_bytes_s


def test_what_a_crash_has_left_is_told_and_stays(board: str) -> None:
    with started("native") as bench:
        crashed_native(bench)
        bench.target.transport.close()
        unit = Unit("n", board, port=bench.target.description.rpartition(" on ")[2])
        for _ in range(2):
            health = examine(unit, goodput=True)
            assert parts(health) == WELL | {"crash": "warn"}
            assert health.healthy
            [crash] = [each for each in health.findings if each.part == "crash"]
            assert crash.message.startswith("the board has the postmortem of a crash: ")
            assert crash.owner is Owner.PRODUCT
            assert health.rates[0].down_bytes_s is None, "a run would make it forget"


@pytest.mark.parametrize(
    ("says", "owner", "why"),
    [
        (b"", Owner.BOARD, "nothing was received"),
        (b"Hello from another program\r\n", Owner.FLASH, "bytes were received, but no frame"),
        (bytes(range(2, 256)), Owner.LINK, "bytes were received, but no frame"),
    ],
)
def test_a_device_that_does_not_answer(
    says: bytes, owner: Owner, why: str, mute_board: str
) -> None:
    with device(says) as port:
        health = examine(Unit("n", mute_board, port=port))
    assert (health.exit_code, health.owner) == (75, owner)
    assert health.failure is not None
    assert health.failure.part == "answer"
    assert why in health.failure.message


def test_a_unit_that_is_not_to_be_asked(board: str) -> None:
    with device() as port:
        health = examine(Unit("n", board, port=port, health="none"))
    assert health.healthy
    assert parts(health) == {"port": "ok", "answer": "ok"}


@pytest.mark.parametrize(
    ("port", "owner"),
    [
        ("/dev/serial/by-id/usb-nowhere", Owner.BOARD),
        (UsbPort(0xDEAD, 0xBEEF, "none"), Owner.BOARD),
        ("socket://127.0.0.1:1", Owner.LINK),
    ],
)
def test_a_port_that_is_not_there(port: UsbPort | str, owner: Owner, board: str) -> None:
    health = examine(Unit("n", board, port=port))
    assert (health.exit_code, health.owner) == (75, owner)
    assert parts(health) == {"port": "fail"}


def test_a_port_that_somebody_else_has_opened(board: str) -> None:
    import serial

    with device() as port, serial.Serial(port, exclusive=True):
        health = examine(Unit("n", board, port=port))
    assert health.owner is Owner.HOST


def test_a_unit_that_somebody_else_holds(board: str) -> None:
    held, leave = threading.Event(), threading.Event()

    def other() -> None:
        with hold(Unit("n", board)):
            held.set()
            leave.wait(600)

    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(600)
    with device() as port:
        health = examine(Unit("n", board, port=port))
        leave.set()
        thread.join()
    assert (health.exit_code, health.owner) == (75, Owner.HOST)
    assert health.failure is not None
    assert "already in use by" in health.failure.message


def test_a_board_with_another_clock(tmp_path: Path) -> None:
    with native() as port:
        health = examine(Unit("n", board_file(tmp_path, hz=8_000_000), port=port))
    assert (health.exit_code, health.owner) == (4, Owner.BOARD)
    assert health.failure is not None
    assert health.failure.part == "identity"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Kind.OTHER_BOARD, 4),
        (Kind.DEAD, 75),
    ],
)
@pytest.mark.long
def test_a_unit_on_the_rack_that_nothing_heals(units: Rack, kind: Kind, code: int) -> None:
    unit = find_unit("u01", units.units_file)
    assert examine(unit).healthy
    units.fault("u01", kind)
    examine(unit, goodput=True)  # a fault begins in a session with a model
    health = examine(unit)
    assert (health.exit_code, health.owner) == (code, Owner.BOARD), health.failure
    if kind is Kind.OTHER_BOARD:
        assert not heal(unit, health).healthy
    units.ask("cure", "u01")
    assert examine(unit).healthy


def test_a_unit_that_was_unplugged_is_healed_by_its_power(
    units: Rack, etharness: Etharness
) -> None:
    unit = find_unit("u02", units.units_file)
    units.fault("u02", Kind.UNPLUGGED)
    examine(unit, goodput=True)
    assert not examine(unit).healthy
    code, out, _ = etharness(
        "lab", "health", "u02", "--heal", "--units", units.units_file, "--json"
    )
    assert code == 0
    [health] = document("lab-health", out)
    steps = [(step["step"], step["healthy"]) for step in health["healing"]]
    assert steps == [("open again", False), ("power cycle", True)]


def test_a_unit_with_other_firmware_is_flashed(
    units: Rack, etharness: Etharness, tmp_path: Path
) -> None:
    image = images_in(units.directory)[Image.RIGHT]
    units.fault("u02", Kind.OLD_FIRMWARE)
    examine(find_unit("u02", units.units_file), goodput=True)
    ask = ("lab", "health", "u02", "--units", units.units_file, "--image", image)
    code, out, _ = etharness(*ask, "--json")
    assert code == 4
    [health] = document("lab-health", out)
    assert health["owner"] == "flash"
    code, out, _ = etharness(*ask, "--heal")
    assert code == 0, out
    assert f"flash: {image} flashed with command; it was well then" in out
    nothing = tmp_path / "nothing.elf"
    nothing.write_bytes(b"\x7fELF" + bytes(100))
    assert etharness(*ask[:-1], nothing).code == 2


def test_a_board_that_answers_is_reset_before_its_power_is_taken(tmp_path: Path) -> None:
    with native() as port:
        unit = Unit("n", board_file(tmp_path, hz=8_000_000), port=port)
        healed = heal(unit, examine(unit))
    assert [step.step for step in healed.healing] == ["open again", "reset"]
    assert healed.healing[1].outcome == "board reset, and answers again"
    assert not healed.healthy


def rate(baud: int, down: float, loss: float = 0.0, *, heard: bool = True) -> RateQuality:
    return RateQuality(baud, heard, down_bytes_s=down, loss=loss)


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ([], None),
        ([rate(115_200, 11_000)], None),
        ([rate(115_200, 11_000), rate(921_600, 80_000)], 921_600),
        ([rate(115_200, 11_000), rate(921_600, 80_000, loss=0.01)], 115_200),
        ([rate(115_200, 11_000), rate(921_600, 80_000), rate(3_000_000, 0, heard=False)], 921_600),
        ([rate(115_200, 9e6), rate(921_600, 9.1e6)], None),
        ([rate(115_200, 11_000, loss=0.5), rate(921_600, 80_000, loss=0.5)], None),
    ],
)
def test_the_best_rate_loses_next_to_nothing(rates: list[RateQuality], best: int | None) -> None:
    assert best_rate(rates) == best
