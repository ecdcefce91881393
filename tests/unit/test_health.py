"""Health: whose a failure is by what was seen, and how it is shown."""

from __future__ import annotations

import errno
import io
from collections import Counter

import pytest
from rich.console import Console

from harness import (
    BusyError,
    LinkError,
    LinkStatistics,
    Owner,
    PortError,
    TransportClosedError,
    UsbPort,
)
from harness.extensions.lab.health import (
    Healing,
    Health,
    HealthFinding,
    owner_of_port,
    owner_of_silence,
    show_health,
)
from harness.runs.line_quality import RateQuality
from harness.target.ports import SerialPort
from harness.testing import CorruptReason

WANTED = UsbPort(0x0483, 0x374E, "A")
THERE = SerialPort("/dev/ttyACM0", 0x0483, 0x374E, "A", 2, "1-4")


def port_error(number: int | None = None) -> PortError:
    error = PortError("cannot open it")
    error.__cause__ = OSError(number, "because") if number else None
    return error


@pytest.mark.parametrize(
    ("plugged_in", "number", "owner"),
    [
        ([], None, Owner.BOARD),
        ([THERE, THERE], None, Owner.TEST),
        ([THERE], errno.EACCES, Owner.HOST),
        ([THERE], errno.EBUSY, Owner.HOST),
        ([THERE], errno.ENXIO, Owner.BOARD),
        ([THERE], errno.EIO, Owner.LINK),
    ],
)
def test_whose_it_is_that_a_port_does_not_open(
    plugged_in: list[SerialPort],
    number: int | None,
    owner: Owner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.extensions.lab.health.list_ports", lambda: plugged_in)
    assert owner_of_port(port_error(number), WANTED) is owner


def test_a_port_of_another_host_is_the_lines() -> None:
    assert owner_of_port(port_error(errno.ECONNREFUSED), "socket://rack:1") is Owner.LINK
    assert owner_of_port(BusyError("held"), "socket://rack:1") is Owner.HOST


def heard(*, received: int = 0, frames: int = 0, corrupt: int = 0) -> LinkStatistics:
    counts = Counter({next(iter(CorruptReason)): corrupt})
    return LinkStatistics(bytes_received=received, frames_received=frames, corrupt=counts)


@pytest.mark.parametrize(
    ("seen", "console", "owner"),
    [
        (heard(), b"", Owner.BOARD),
        (heard(received=30), b"Hello from something else\r\n", Owner.FLASH),
        (heard(received=256), bytes(range(256)), Owner.LINK),
        (heard(received=30, frames=1), b"", Owner.LINK),
        (heard(received=30, corrupt=1), b"text, too", Owner.LINK),
    ],
)
def test_whose_it_is_that_nobody_answers(
    seen: LinkStatistics, console: bytes, owner: Owner
) -> None:
    assert owner_of_silence(LinkError("no answer"), seen, console) is owner


def test_a_line_that_ends_is_not_a_board_that_is_silent() -> None:
    assert owner_of_silence(TransportClosedError("gone"), heard(), b"") is Owner.LINK


def test_what_comes_on_top_of_earlier_counts() -> None:
    before, after = heard(received=5, corrupt=1), heard(received=9, frames=2, corrupt=3)
    assert after.since(before) == heard(received=4, frames=2, corrupt=2)


def shown(health: Health, verbosity: int = 0) -> str:
    out = io.StringIO()
    show_health(Console(file=out, width=200), health, verbosity=verbosity)
    return out.getvalue()


def test_a_unit_that_is_not_well_says_whose_that_is_and_what_to_try() -> None:
    health = Health(
        *("u1", "native", "/dev/ttyACM0", False, 75, Owner.LINK),
        findings=(
            HealthFinding("port", "ok", "opens", 0.1),
            HealthFinding("line", "fail", "9.00% of 100 frames were lost", 2.0, Owner.LINK, "look"),
        ),
        rates=(
            RateQuality(115_200, True, "", 20, (900.0, 1200.0), 11_000.0, 11_100.0, 100, 0.09, 2),
            RateQuality(921_600, False, "stays at 115200"),
        ),
        advised_baud=115_200,
        healing=(Healing("power cycle", "plug 3 off; plug 3 on", False, 5.0),),
    )
    assert shown(health).splitlines() == [
        "u1, native on /dev/ttyACM0",
        "      part  found",
        "ok    port  opens",
        "FAIL  line  9.00% of 100 frames were lost",
        "",
        "Line",
        "  baud  round trip [us]  longest  up [kB/s]  down [kB/s]  frames  loss [%]  overruns",
        "115200              900     1200       11.0         11.1     100      9.00         2",
        "921600                -        -          -            -       0      0.00         0"
        "  stays at 115200",
        "",
        "best for units.toml: baud = 115200",
        "power cycle: plug 3 off; plug 3 on; it was still not well then",
        "u1 is NOT well (link): 9.00% of 100 frames were lost",
        "  try: look",
    ]
    assert shown(health, -1).splitlines() == [
        "u1 is NOT well (link): 9.00% of 100 frames were lost",
        "  try: look",
    ]
