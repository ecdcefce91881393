"""Whole sessions with the firmware, as a process and under QEMU."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import DeviceRefusedError, Region, TargetError
from harness.testing import Reset, State
from tests.conftest import MODELS, NATIVE_PRESET
from tests.support.boards import INT8_MODELS_THAT_FIT, KWS, Bench, native_board, once, started
from tests.support.examples import sampled

pytestmark = pytest.mark.sim

BOARDS = ["native", "qemu-mps2-an385"]
"""Those that the rest is tried on; starting again is the port's business and tried on all."""


@pytest.mark.parametrize("name", sampled(BOARDS, "native"))
def test_a_board_that_refused_models_runs_the_next_one(name: str) -> None:
    good = KWS.read_bytes()
    bad = [good[:20_000], good.replace(b"cortex_m::softmax", b"cortex_m::hardmax"), b"", b"junk"]
    with started(name) as bench:
        for model in bad:
            with pytest.raises(DeviceRefusedError):
                bench.session.load_model(model)
            assert bench.session.status().state is State.IDLE
        [tensor] = bench.session.load_model(good).inputs
        bench.session.set_input(0, bytes(tensor.nbytes))
        assert bench.session.run(2, timeout_s=60).completed == 2


@pytest.mark.parametrize("name", sampled(BOARDS, "native"))
def test_a_model_that_the_board_holds_is_not_uploaded_again(name: str) -> None:
    model, other = KWS.read_bytes(), (MODELS / "small_int8.pte").read_bytes()

    def sent_for(data: bytes) -> int:
        before = bench.session.statistics.bytes_sent
        info = bench.session.load_model(data)
        bench.session.set_input(0, bytes(info.inputs[0].nbytes))
        assert bench.session.run(1, timeout_s=60).completed == 1
        outputs.append(bench.session.read(Region.OUTPUT))
        return bench.session.statistics.bytes_sent - before

    outputs: list[bytes] = []
    with started(name, deadline_s=60) as bench:
        first, second = sent_for(model), sent_for(model)
        assert first > len(model)
        assert second < first - len(model)
        assert outputs[0] == outputs[1]
        assert sent_for(other) > len(other)
        assert sent_for(model) > len(model)
        assert outputs[3] == outputs[0]
        bench.session.reset(Reset.SESSION)
        assert sent_for(model) > len(model)


@pytest.mark.parametrize("name", ["native", "qemu-mps2-an385", *INT8_MODELS_THAT_FIT])
def test_a_board_that_reboots_on_purpose_is_greeted_again(name: str) -> None:
    with started(name) as bench:
        bench.session.load_model((MODELS / "small_int8.pte").read_bytes())
        bench.session.reset(Reset.REBOOT)
        bench.session.hello(10)
        assert bench.session.status().state is State.IDLE


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_that_restarts_behind_our_back_is_noticed(name: str) -> None:
    with started(name) as bench:
        bench.session.load_model(KWS.read_bytes())
        other = bench.new_session()
        other.hello(10)
        other.reset(Reset.REBOOT)
        time.sleep(0.2)
        with pytest.raises(TargetError, match=f"{name}: the board restarted by itself"):
            bench.session.set_input(0, bytes(1960))


@pytest.mark.parametrize("name", BOARDS)
def test_pings_follow_the_boards_clock(name: str) -> None:
    with started(name) as bench:
        first = bench.session.ping()
        time.sleep(0.05)
        second = bench.session.ping()
    assert first.epoch == second.epoch
    assert first.host_before_ns < first.host_after_ns < second.host_before_ns
    assert second.ticks > first.ticks


def test_the_firmware_greets_on_the_console() -> None:
    with started("qemu-mps2-an385") as bench:
        info = bench.session.target
        assert info is not None
        assert info.build_id.encode() in bench.console


def test_a_process_greets_again_after_a_reboot(tmp_path: Path) -> None:
    with started(str(native_board(tmp_path, NATIVE_PRESET))) as bench:
        bench.console.clear()
        bench.session.reset(Reset.REBOOT)
        info = bench.session.hello(10)
        assert f"etdump stub {info.build_id} on native\n".encode() in bench.console


class TestMisbehaviour:
    """What a target does wrong is the target's fault: exit code 4."""

    @pytest.fixture
    def native(self) -> Iterator[Bench]:
        with started("native", deadline_s=0.2) as bench:
            bench.session.load_model(KWS.read_bytes())
            bench.session.set_input(0, bytes(1960))
            yield bench

    def test_a_hang_in_a_run(self, native: Bench) -> None:
        stop = once(lambda: os.kill(native.target.pid, signal.SIGSTOP), at=3)
        began = time.monotonic()
        with pytest.raises(TargetError) as caught:
            native.session.run(100_000, timeout_s=1, progress=stop)
        assert caught.value.exit_code == 4
        assert "native: the device hangs: execution" in caught.value.message
        assert "of 100000 did not end within 1 s" in caught.value.message
        assert time.monotonic() - began > 1

    def test_death_in_a_run(self, native: Bench) -> None:
        kill = once(lambda: os.kill(native.target.pid, signal.SIGKILL))
        # Noticed by the line: the deadline is later than the end of this test.
        with pytest.raises(TargetError, match="the firmware of native was killed by SIGKILL"):
            native.session.run(100_000, timeout_s=1000, progress=kill)

    def test_death_in_an_upload(self, native: Bench) -> None:
        kill = once(lambda: os.kill(native.target.pid, signal.SIGKILL))
        with pytest.raises(TargetError, match="was killed by SIGKILL"):
            native.session.load_model((MODELS / "ic_int8.pte").read_bytes(), progress=kill)

    def test_death_in_a_download(self, native: Bench) -> None:
        native.session.run(200, timeout_s=10)
        kill = once(lambda: os.kill(native.target.pid, signal.SIGKILL))
        with pytest.raises(TargetError, match="was killed by SIGKILL"):
            native.session.read(Region.TRACE, progress=kill, window=4096)

    def test_death_of_qemu(self) -> None:
        with started("qemu-mps2-an385") as bench:
            kill = once(lambda: os.kill(bench.target.pid, signal.SIGKILL))
            with pytest.raises(TargetError, match=r"qemu-system-arm .* was killed by SIGKILL"):
                bench.session.load_model(KWS.read_bytes(), progress=kill)

    def test_a_hung_target_is_ended_all_the_same(self) -> None:
        with started("native") as bench:
            os.kill(bench.target.pid, signal.SIGSTOP)
        assert not Path(f"/proc/{bench.target.pid}").exists()
