"""A model in the firmware image: named in HELLO, loaded by its digest, never uploaded."""

from __future__ import annotations

import ctypes as ct

import pytest

from harness import Region
from harness.testing import MIN_MTU, Op, Reset, State, Status, messages, wire
from tests.support.c_server import CServer
from tests.support.prepared_server import INPUTS, MODEL, OUTPUTS, digest_of
from tests.support.tiny_model import relu_model

OTHER = relu_model([5])
COMMIT = messages.CommitBody(Region.MODEL, 0, digest_of(MODEL)).encode()


@pytest.fixture
def server(etstub: ct.CDLL) -> CServer:
    return CServer(etstub, model=0, placed=MODEL)


def run(server: CServer) -> list[bytes]:
    for index, data in enumerate(INPUTS):
        assert server.upload(Region.INPUT, index, data) == b"\0"
    server.run(server.status().run_id + 1)
    assert server.status().state == State.DONE
    return [server.fetch(Region.OUTPUT, index) for index in range(len(OUTPUTS))]


@pytest.mark.parametrize("mtu", [MIN_MTU, 512])
def test_hello_names_the_placed_model(etstub: ct.CDLL, mtu: int) -> None:
    server = CServer(etstub, model=0, mtu=mtu, placed=MODEL)
    info = messages.TargetInfo.parse(server.ask(Op.HELLO, messages.HelloBody(1).encode()))
    assert info.placed == messages.PlacedModelInfo(digest_of(MODEL)[:8], "placed.pte")
    assert info.holds(digest_of(MODEL))
    assert not info.holds(digest_of(OTHER))
    assert info.model_capacity == 0


@pytest.mark.parametrize("board", ["b" * length for length in (1, 60, 90)])
def test_the_answer_is_read_by_a_host_that_does_not_know_the_mtu(
    etstub: ct.CDLL, board: str
) -> None:
    server = CServer(etstub, model=0, mtu=2 * MIN_MTU, placed=MODEL)
    server._target.board = board.encode()
    body = server.ask(Op.HELLO, messages.HelloBody(1).encode())
    assert len(body) <= MIN_MTU - wire.HEADER_SIZE - wire.CRC_SIZE
    info = messages.TargetInfo.parse(body)
    assert info.board == board
    room = MIN_MTU - wire.HEADER_SIZE - wire.CRC_SIZE - len(body)
    if info.placed is None:
        assert room < 2 + 8
    else:
        assert info.holds(digest_of(MODEL))
        assert "placed.pte".startswith(info.placed.name)
        assert info.placed.name == "placed.pte" or room == 0


def test_without_one_hello_names_none(etstub: ct.CDLL) -> None:
    info = messages.TargetInfo.parse(CServer(etstub).ask(Op.HELLO, messages.HelloBody(1).encode()))
    assert info.placed is None
    assert not info.holds(digest_of(MODEL))


def test_its_digest_loads_it_without_an_upload(server: CServer) -> None:
    for _ in range(2):
        assert server.ask(Op.COMMIT, COMMIT)[0] == Status.OK
        assert run(server) == OUTPUTS
    server.ask(Op.RESET, messages.ResetBody(Reset.SESSION).encode())
    assert server.status().state == State.IDLE
    assert server.ask(Op.COMMIT, COMMIT)[0] == Status.OK
    assert run(server) == OUTPUTS


def test_firmware_without_a_buffer_takes_no_other_model(server: CServer) -> None:
    outcome = server.refusal(Op.OPEN, messages.OpenBody(Region.MODEL, 0, len(OTHER)).encode())
    assert (outcome.status, outcome.detail) == (Status.TOO_LARGE, 0)
    other = messages.CommitBody(Region.MODEL, 0, digest_of(OTHER)).encode()
    assert server.refusal(Op.COMMIT, other).status == Status.WRONG_STATE
    assert server.ask(Op.COMMIT, COMMIT)[0] == Status.OK
    assert server.refusal(Op.COMMIT, other).status == Status.DIGEST_MISMATCH


def test_uploaded_and_placed_models_take_turns(etstub: ct.CDLL) -> None:
    server = CServer(etstub, placed=MODEL)
    for _ in range(2):
        assert server.upload(Region.MODEL, 0, OTHER)[0] == Status.OK
        assert len(messages.ModelInfo.parse(server.ask(Op.COMMIT, commit(OTHER))).inputs) == 1
        assert server.ask(Op.COMMIT, COMMIT)[0] == Status.OK
        assert run(server) == OUTPUTS


def commit(model: bytes) -> bytes:
    return messages.CommitBody(Region.MODEL, 0, digest_of(model)).encode()


def test_it_is_chosen_also_while_an_upload_is_open(etstub: ct.CDLL) -> None:
    server = CServer(etstub, placed=MODEL)
    assert server.ask(Op.OPEN, messages.OpenBody(Region.MODEL, 0, len(OTHER)).encode()) == b"\0"
    assert server.ask(Op.COMMIT, COMMIT)[0] == Status.OK
    write = messages.WriteBody(Region.MODEL, 0, 0, OTHER).encode()
    assert server.refusal(Op.WRITE, write).status == Status.WRONG_STATE
    assert run(server) == OUTPUTS


def test_flash_that_lost_a_bit_is_noticed(server: CServer) -> None:
    ct.memset(server.flash.address + len(MODEL) // 2, 0xA5, 1)
    assert server.refusal(Op.COMMIT, COMMIT).status == Status.DIGEST_MISMATCH
    assert server.status().state == State.IDLE
