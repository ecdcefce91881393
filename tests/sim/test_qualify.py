"""Qualifications: sound boards qualify, and each defect is found by the stage that is about it."""

from __future__ import annotations

import ctypes as ct
import json
import os
import re
import struct
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import harness
from harness import Board, Firmware, Target, UsageError, start_target
from harness.extensions.qualify import stages
from harness.extensions.qualify.bench import reference_of
from harness.extensions.qualify.qualification import STAGE_NAMES, qualify, read_qualification
from harness.extensions.qualify.record import Qualification
from harness.flash.plan import HowToFlash
from harness.target.selection import Chosen
from harness.testing import (
    RESPONSE,
    FaultFilter,
    Faults,
    Frame,
    FrameDecoder,
    Op,
    Transport,
    encode_frame,
)
from tests.conftest import BOARDS, FIXTURES, MODELS, CommandResult
from tests.support.counters import Counters, MadeUp
from tests.support.debugger import Debugger
from tests.support.documents import document
from tests.support.examples import sampled
from tests.support.flash import no_usb, running_native, serial_native
from tests.support.line import Line, Wire, WiredServer
from tests.support.rack.firmware import Image, make_images

QUALIFICATION = "qualification.json"

# Boards with a defect each, for qualifications that must find it.
_MTU = 4096
_PING = struct.Struct("<B3xIQ")
"""The answer to PING: status, epoch, ticks."""

OpenTarget = Callable[..., Target]


class DefectiveTarget:
    """A target with another transport in front of its own."""

    def __init__(self, target: Target, transport: Transport) -> None:
        self._target, self.transport = target, transport
        self.description = target.description
        self.check_alive = target.check_alive
        self.close = target.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OtherTicks:
    """A transport on which every reading of the device's clock is another one."""

    def __init__(self, inner: Transport, ticks: Callable[[int], int]) -> None:
        self._inner, self._ticks = inner, ticks
        self._decoder = FrameDecoder(_MTU)
        self.write, self.close = inner.write, inner.close

    def read(self, timeout: float) -> bytes:
        items = self._decoder.feed(self._inner.read(timeout))
        return b"".join(map(self._pass, items))

    def _pass(self, item: Any) -> bytes:
        if not isinstance(item, Frame):
            return b""
        body = item.body
        if item.type == Op.PING | RESPONSE:
            status, epoch, ticks = _PING.unpack(body)
            body = _PING.pack(status, epoch, self._ticks(ticks) & 0xFFFFFFFF)
        return encode_frame(item.type, item.sequence, body)


def opening(transport_of: Callable[[Transport], Transport]) -> OpenTarget:
    """Open boards with ``transport_of`` in front."""

    def open_target(board: Board, firmware: Firmware | None, *, port: Any = None) -> Any:
        target = start_target(board, firmware, port=port)
        return DefectiveTarget(target, transport_of(target.transport))

    return open_target


def with_clock(ticks: Callable[[int], int]) -> OpenTarget:
    """Open boards whose clock reads ``ticks`` of what it should."""
    return opening(lambda inner: OtherTicks(inner, ticks))


def with_rate(share: float) -> OpenTarget:
    """Open boards whose clock runs at a share of its declared rate, across its wraps."""
    read = passed = 0

    def slow(ticks: int) -> int:
        nonlocal read, passed
        passed += (ticks - read) % 2**32
        read = ticks
        return int(passed * share)

    return with_clock(slow)


def with_line(**faults: Any) -> OpenTarget:
    """Open boards on a line with faults."""
    return opening(lambda inner: FaultFilter(inner, Faults(seed=1, **faults)))


WIRED = """\
schema = 1
name = "test board"
description = "the device's server in this process"
cpu = "host"
timer = { source = "test clock", bits = 32, hz = 1000 }
target = { kind = "serial" }
tested = "no"
"""


@dataclass
class WiredTarget:
    """The device's own server as a target."""

    transport: Line
    description: str = "the device's server"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """It cannot die without this process."""

    def close(self) -> None:
        self.transport.close()


def wired(library: ct.CDLL, directory: Path, **memory: Any) -> tuple[str, OpenTarget]:
    """Return the file of a board that is the device's server on a line, and what opens it."""
    file = directory / "test board.toml"
    file.write_text(WIRED)

    def open_target(*_: Any, **__: Any) -> Any:
        return WiredTarget(Line(WiredServer(library, Wire(), **memory)))

    return str(file), open_target


pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

IN_FULL = ("native", "qemu-lm3s6965evb")
OTHERS = tuple(
    name
    for name in BOARDS
    if harness.Board.load(name).build is not None
    and not harness.Board.load(name).untested
    and not harness.Board.load(name).links_executorch
    and name not in IN_FULL
)
EVERY = "ETHARNESS_EVERY_BOARD" in os.environ
# Boards that count instructions differ from those of the same core by their counter alone, and RTL
# is slow. rp2040js is installed for tests/tools.
_LEFT_OUT = ("-instructions", "rtl-cv32e40p", "rtl-vexriscv", "rpi-pico")
QUICKLY = [name for name in OTHERS if EVERY or not name.endswith(_LEFT_OUT)]
NOT_OFFERED = {
    "native": {"flash", "counters"},
    "qemu-lm3s6965evb": {"rate", "counters"},
}
every_board = pytest.mark.skipif(not EVERY, reason="make measure qualifies every board in full")


def states(record: Qualification) -> dict[str, str]:
    return {stage.name: stage.state for stage in record.stages}


def found_by(stage: str, directory: Path, open_target: OpenTarget, board: str = "native") -> str:
    """What a stage alone says about a board with a defect."""
    record = qualify(Chosen(board), directory, only=(stage,), open_target=open_target)
    assert (record.qualified, record.exit_code, record.tested) == (False, 1, "")
    found = record.stage(stage)
    assert found.state == "failed", found.message
    assert found.remedy
    return found.message


@pytest.mark.parametrize("board", IN_FULL)
def test_a_sound_board_qualifies(board: str, tmp_path: Path, etharness: Etharness) -> None:
    code, out, err = etharness(
        *("qualify", "--board", board, "-o", tmp_path, "--note", 'a "quick" one', "--json")
    )
    record = document("qualify", out)
    assert code == 0, err + out
    found = {stage["name"]: stage["state"] for stage in record["stages"]}
    assert tuple(found) == STAGE_NAMES
    absent = {name for name, state in found.items() if state == "not offered"}
    assert absent == NOT_OFFERED[board]
    assert set(found.values()) == {"passed", "not offered"}
    assert json.loads((tmp_path / QUALIFICATION).read_text()) == record
    tested = tomllib.loads(record["tested"])["tested"]
    assert tested.startswith('qualified on a "quick" one, ')
    assert "small_int8" in tested
    shown = (tmp_path / "qualification.md").read_text()
    assert shown.startswith(f"# QUALIFIED: {board}")
    assert record["tested"] in shown
    assert "Figures" in shown


@pytest.mark.parametrize("board", sampled(QUICKLY, "qemu-mps2-an385"))
def test_other_simulated_boards_qualify_quickly(
    board: str, tmp_path: Path, etharness: Etharness
) -> None:
    code, out, err = etharness("qualify", "--quick", "--board", board, "-o", tmp_path, "--json")
    record = document("qualify", out)
    assert code == 0, err + out
    found = {stage["name"]: stage["state"] for stage in record["stages"]}
    assert found.pop("wrap") == "skipped"
    assert set(found.values()) <= {"passed", "not offered"}
    assert (record["quick"], record["qualified"], record["tested"]) == (True, True, "")
    assert "quickly" in (tmp_path / "qualification.md").read_text().splitlines()[0]
    with pytest.raises(UsageError, match="is of a quick qualification"):
        qualify(Chosen(board), tmp_path, resume=True)


@pytest.mark.parametrize("quick", [False, True])
def test_a_network_is_compared_or_the_stage_is_not_run(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the networks are expected to be: that they do not fit is another matter."""
    monkeypatch.setattr(stages, "_PER_EXECUTION_S", 100.0)  # beyond _QUICK_S
    record = qualify(Chosen("native"), tmp_path, only=("networks",), quick=quick)
    stage = record.stage("networks")
    of_all = re.match(r"(\d+) of (\d+) networks that fit match", stage.message)
    assert of_all is not None, stage.message
    assert (int(of_all[1]) == 1) is quick
    monkeypatch.setattr(stages, "_PER_EXECUTION_S", 1e6)
    record = qualify(Chosen("native"), tmp_path, only=("networks",), quick=quick)
    stage = record.stage("networks")
    assert stage.state == "not run"
    assert re.match("time was over before any of the .* networks that fit was", stage.message)


@every_board
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("board", OTHERS)
def test_every_other_simulated_board_qualifies(board: str, tmp_path: Path) -> None:
    record = qualify(Chosen(board), tmp_path, limit_s=1500)
    assert record.qualified, [(stage.name, stage.message) for stage in record.failed]


def test_a_slow_clock_is_found_by_its_rate(tmp_path: Path) -> None:
    message = found_by("rate", tmp_path, with_rate(0.999))
    assert message.startswith("the clock is off by -")


def test_a_clock_that_stands_still_is_found_by_its_rate(tmp_path: Path) -> None:
    message = found_by("rate", tmp_path, with_clock(lambda _: 77))
    assert message.startswith("the counter does not move: all ")


def test_a_counter_of_fewer_bits_is_found_at_its_wrap(tmp_path: Path) -> None:
    message = found_by("wrap", tmp_path, with_clock(lambda ticks: ticks & 0xFFFFFFF))
    assert message.startswith("the counter stepped back, from ")


def test_a_wrap_is_found_on_a_host_that_reads_too_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two readings more than half a period passes: which way the counter went is open."""
    monkeypatch.setattr(stages, "_PING_S", 0.25)
    found = qualify(Chosen("qemu-lm3s6965evb"), tmp_path, only=("wrap",)).stage("wrap")
    assert found.state == "passed", found.message


@pytest.mark.parametrize("fault", ["drop", "flip"])
def test_a_line_that_swallows_bytes_is_found_by_its_link(fault: str, tmp_path: Path) -> None:
    message = found_by("link", tmp_path, with_line(**{fault: 2e-4}))
    assert "frames were lost or damaged on the line" in message


def test_wrong_references_are_found_by_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reference(name: str) -> tuple[list[np.ndarray], list[np.ndarray], int]:
        inputs, outputs, runs = reference_of(name)
        if name == "small_int8":
            outputs[0] = outputs[0] + np.float32(0.01)
        return inputs, outputs, runs

    monkeypatch.setattr(stages, "reference_of", reference)
    message = found_by("networks", tmp_path, with_line())
    assert message.startswith("small_int8: 4 of 4 elements differ (exactly)")
    assert "kws_int8" not in message


def test_a_dead_hardware_counter_is_found_by_counters(etstub: ct.CDLL, tmp_path: Path) -> None:
    def counted(loads: int) -> tuple[str, OpenTarget, Counters]:
        made_up = [
            MadeUp(b"cycles", step=9),
            MadeUp(b"loads", step=loads),
            MadeUp(b"x_stall", step=0),
        ]
        source = Counters(etstub, made_up)
        return *wired(etstub, tmp_path, counters=source.address), source

    board, dead, _source = counted(loads=0)
    assert found_by("counters", tmp_path, dead, board) == "loads did not move in any event"
    board, sound, _other = counted(loads=2)
    record = qualify(Chosen(board), tmp_path, only=("counters",), open_target=sound)
    assert record.stage("counters").message == (
        "2 of 3 counters moved; x_stall stayed at 0, as they may"
    )


def test_a_port_that_cannot_crash_is_no_pass(etstub: ct.CDLL, tmp_path: Path) -> None:
    board, open_target = wired(etstub, tmp_path)
    record = qualify(Chosen(board), tmp_path, only=("crash",), open_target=open_target)
    assert states(record)["crash"] == "not offered"
    assert not record.qualified


@every_board
def test_a_counter_that_was_inhibited_is_dead(tmp_path: Path) -> None:
    board = "qemu-riscv32-virt"
    stop = Debugger(
        *(board, tmp_path, "etd_server_start_run"), stops=1, then="set $mcountinhibit = 4"
    )
    record = qualify(Chosen(str(stop.board_file)), tmp_path / "out", only=("counters",))
    assert record.stage("counters").message == "instret did not move in any event"


def test_a_board_that_says_nothing_is_asked_once(tmp_path: Path) -> None:
    board = tmp_path / "native.toml"
    text = (FIXTURES.parents[1] / "boards/native.toml").read_text()
    board.write_text(text.replace("boot_s = 10", "boot_s = 0.3").replace("budget", "# budget"))
    out, silent = tmp_path / "out", with_line(drop=1.0)
    record = qualify(Chosen(str(board)), out, skip=("flash",), open_target=silent)
    assert "no answer to HELLO" in record.stage("link").message
    assert {state for name, state in states(record).items() if name not in ("flash", "link")} == {
        "not run"
    }


def test_it_goes_on_where_it_was(tmp_path: Path, etharness: Etharness) -> None:
    with running_native() as port:
        arguments = ("qualify", "--board", serial_board(tmp_path), "--port", port, "-o", tmp_path)
        one = etharness(*arguments, "--only", "reset", "--json")
        assert one.code == 1
        code, out, _ = etharness(*arguments, "--resume", "--only", "overflow", "--json")
        assert code == 1
        again = json.loads(out)
        assert len(again["resumed_utc"]) == 1
        first = json.loads(one.out)["stages"]
        done = [stage for stage in again["stages"] if stage["state"] == "passed"]
        assert [stage["name"] for stage in done] == ["overflow", "reset"]
        assert done[1] in first
        shown = etharness(*arguments, "--resume", "--only", "stream").out
        assert "NOT QUALIFIED" in shown.splitlines()[-1]
        assert etharness(*arguments, "--limit", "0.000001", "-q").code == 75


def test_firmware_that_was_not_written_is_found_by_flash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a board on a port, whose flashing tool only says that it wrote the image."""
    no_usb(monkeypatch, tmp_path)
    writing = 'order = ["command"]\noptions.command = { write = ["true"] }'
    board = str(serial_native(tmp_path, writing))
    images = make_images(tmp_path)
    with running_native() as port:

        def flashed(image: Image) -> Qualification:
            how = HowToFlash(images[image], attempts=1)
            return qualify(Chosen(board, port), tmp_path / "out", how=how, only=("flash", "reset"))

        right, other = flashed(Image.RIGHT), flashed(Image.OTHER_BUILD)
    assert (states(right)["flash"], states(right)["reset"]) == ("passed", "passed")
    assert states(other)["flash"] == "failed"
    assert "expected '0ddf1e1d0000'" in other.stage("flash").message


def test_an_interrupt_keeps_what_was_proven(tmp_path: Path) -> None:
    board = str(serial_board(tmp_path))

    def interrupt(stage: str, done: int, _total: int) -> None:
        if stage == "crash and postmortem" and done:
            raise KeyboardInterrupt

    with running_native() as port:
        chosen, out, only = Chosen(board, port), tmp_path / "out", ("reset", "crash")
        with pytest.raises(KeyboardInterrupt):
            qualify(chosen, out, interrupt, only=only)
        kept = read_qualification(tmp_path / "out" / QUALIFICATION)
        assert (kept.stage("reset").state, kept.stage("crash").state) == ("passed", "not run")
        again = qualify(chosen, out, only=only, resume=True)
    assert again.stage("reset") == kept.stage("reset")
    assert again.stage("crash").state == "passed"


def serial_board(directory: Path) -> Path:
    """A native board that somebody else started, as one on a serial port."""
    path = directory / "native.toml"
    path.write_text(
        'schema = 1\nname = "native"\ndescription = "a native board"\ncpu = "host"\n'
        'timer = { source = "CLOCK_MONOTONIC", bits = 32, hz = 1_000_000_000 }\n'
        'target = { kind = "serial", bauds = [921_600] }\n'
    )
    return path


def test_a_record_of_another_board_file_is_not_resumed(tmp_path: Path) -> None:
    board = serial_board(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        qualify(Chosen(str(board)), tmp_path / "out", resume=True)
    with running_native() as port:
        record = qualify(Chosen(str(board), port), tmp_path / "out", only=("reset",))
        assert record.stage("reset").state == "passed"
    board.write_text(board.read_text() + "# changed\n")
    with pytest.raises(UsageError, match="another board file"):
        qualify(Chosen(str(board)), tmp_path / "out", resume=True)
    with pytest.raises(UsageError, match="no such stage: 'links'"):
        qualify(Chosen(str(board)), tmp_path / "out", only=("links",))


def test_every_packaged_model_has_a_reference() -> None:
    """Of its first case in the fixtures that ExecuTorch made."""
    compared = 0
    for file in sorted(MODELS.glob("*.pte")):
        inputs, outputs, runs = reference_of(file.stem)
        fixture = np.load(FIXTURES / f"{file.stem}.npz")
        assert inputs
        assert runs >= 1
        if "inputs" in fixture:
            assert inputs[0].tobytes() == fixture["inputs"][0].tobytes()
            assert outputs[0].tobytes() == fixture["outputs"][0].tobytes()
        else:
            case = fixture.files[0].partition(".")[0]
            wanted = [key for key in fixture.files if key.startswith(f"{case}.output")]
            assert [array.tobytes() for array in outputs] == [
                fixture[key].tobytes() for key in sorted(wanted)
            ]
        compared += 1
    assert compared == 31
