"""Telnet: no byte is lost or invented, however the stream is cut and whatever stands between."""

from __future__ import annotations

import itertools
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serial.rfc2217 import PortManager

from harness.extensions.remote.rfc2217 import (
    Item,
    Negotiation,
    Options,
    Setting,
    Subnegotiation,
    TelnetCommand,
    TelnetDecoder,
    TelnetError,
    baud_value,
    escape,
    negotiation,
    port_answer,
    port_request,
    read_port_answer,
    subnegotiation,
)

COM_PORT = 44
MAX_SUBNEGOTIATION = 1 << 10

NEGOTIATING = [TelnetCommand.WILL, TelnetCommand.WONT, TelnetCommand.DO, TelnetCommand.DONT]
DATA = st.binary(max_size=60) | st.lists(st.sampled_from([255, 255, 240, 250, 0])).map(bytes)
OPTIONS = st.integers(0, 255)
ITEMS: st.SearchStrategy[Item] = st.one_of(
    DATA,
    st.builds(Negotiation, st.sampled_from(NEGOTIATING), OPTIONS),
    st.builds(Subnegotiation, OPTIONS, DATA),
)
MEANINGLESS = st.sampled_from([b"", b"\xff\xf1", b"\xff\xf9", b"\xff\xf0", b"\xff\xfa\xff\xf0"])


def on_the_line(item: Item) -> bytes:
    match item:
        case Negotiation(command, option):
            return negotiation(command, option)
        case Subnegotiation(option, body):
            return subnegotiation(option, body)
    return escape(item)


def joined(items: list[Item]) -> list[Item]:
    """The same with neighbouring data as one, and without empty data."""
    whole: list[Item] = []
    for item in items:
        if isinstance(item, bytes) and whole and isinstance(whole[-1], bytes):
            whole[-1] += item
        elif item != b"":
            whole.append(item)
    return whole


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(stream) + 1) for place in places})
    return [stream[a:b] for a, b in itertools.pairwise([0, *ends, len(stream)])]


@given(st.lists(st.tuples(ITEMS, MEANINGLESS)), st.lists(st.integers(0, 10_000), max_size=8))
def test_what_was_sent_arrives_in_any_pieces(
    sent: list[tuple[Item, bytes]], places: list[int]
) -> None:
    stream = b"".join(on_the_line(item) + noise for item, noise in sent)
    decoder = TelnetDecoder()
    heard = [item for piece in cut(stream, places) for item in decoder.feed(piece)]
    assert joined(heard) == joined([item for item, _ in sent])


@given(DATA, st.lists(st.integers(0, 10_000), max_size=4))
def test_pyserial_and_we_read_each_other(data: bytes, places: list[int]) -> None:
    port = SimpleNamespace(cts=False, dsr=False, ri=False, cd=False, baudrate=9600)
    sent: list[bytes] = []
    server: Any = PortManager(port, SimpleNamespace(write=sent.append))
    sent.clear()
    # What they take of us, and what we take of them, data and a confirmed rate, in any pieces.
    asked = port_request(Setting.BAUDRATE, baud_value(0xFFFF_FF00))
    taken = [byte for piece in cut(escape(data) + asked, places) for byte in server.filter(piece)]
    assert b"".join(taken) == data
    assert port.baudrate == 0xFFFF_FF00
    stream = b"".join(server.escape(data)) + b"".join(sent)
    decoder = TelnetDecoder()
    heard = [item for piece in cut(stream, places) for item in decoder.feed(piece)]
    confirmed = Subnegotiation(COM_PORT, b"\x65\xff\xff\xff\x00")
    assert joined(heard) == ([data] if data else []) + [confirmed]
    assert read_port_answer(confirmed.body) == (Setting.BAUDRATE, b"\xff\xff\xff\x00")


@given(st.binary(max_size=300), st.lists(st.integers(0, 10_000), max_size=4))
def test_garbage_is_read_the_same_in_any_pieces_or_refused(
    garbage: bytes, places: list[int]
) -> None:
    def read(pieces: list[bytes]) -> list[Item] | str:
        decoder = TelnetDecoder()
        try:
            return joined([item for piece in pieces for item in decoder.feed(piece)])
        except TelnetError as error:
            return error.message

    whole = read([garbage])
    assert read(cut(garbage, places)) == whole or isinstance(whole, str)


@pytest.mark.attack(
    "Link and servers",
    "an RFC 2217 server that begins an endless answer",
    "refused; no memory is allocated",
)
def test_a_subnegotiation_without_end_is_refused_and_takes_no_memory() -> None:
    decoder = TelnetDecoder()
    tracemalloc.start()
    decoder.feed(b"\xff\xfa\x2c")
    for _ in range(MAX_SUBNEGOTIATION // 64 - 1):
        assert decoder.feed(b"x" * 64) == []
    with pytest.raises(TelnetError, match=f"did not end within {MAX_SUBNEGOTIATION} bytes"):
        decoder.feed(b"x" * 64)
    assert tracemalloc.get_traced_memory()[1] < 20_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"abc\xff\x01", "byte 1 after a 255"),
        (b"\xff\xfa\x2c\x01\xff\xfb\x00", "a command within"),
        (b"\xff\xfa" + bytes(2000) + b"\xff\xf0\xff\x00", "byte 0 after a 255"),
    ],
)
def test_what_is_no_telnet_is_refused(stream: bytes, why: str) -> None:
    with pytest.raises(TelnetError, match=why) as caught:
        TelnetDecoder().feed(stream)
    assert caught.value.exit_code == 75


SIDES = st.sets(st.integers(0, 4))


@given(SIDES, SIDES, SIDES, SIDES, st.randoms())
def test_two_ends_agree_and_fall_silent(
    ours: set[int], theirs: set[int], others_ours: set[int], others_theirs: set[int], random: Any
) -> None:
    ends = (Options(ours, theirs), Options(others_ours, others_theirs))
    lines = [ends[0].requests(), ends[1].requests()]
    for _ in range(200):
        if not any(lines):
            break
        talks = random.choice([i for i in (0, 1) if lines[i]])
        command, lines[talks] = lines[talks][:3], lines[talks][3:]
        [heard] = TelnetDecoder().feed(command)
        assert isinstance(heard, Negotiation)
        lines[1 - talks] += ends[1 - talks].receive(heard)
    else:
        pytest.fail("they never stop talking")
    # An option is on where one end wants to do it and the other wants it done, and both know.
    assert ends[0].ours == ends[1].theirs == ours & others_theirs
    assert ends[1].ours == ends[0].theirs == others_ours & theirs
    assert ends[0].refused == (ours - others_theirs) | (theirs - others_ours)


@given(st.lists(st.builds(Negotiation, st.sampled_from(NEGOTIATING), st.integers(0, 3))))
def test_no_end_says_more_than_it_hears(heard: list[Negotiation]) -> None:
    options = Options({0, 1}, {0, 2})
    for each in heard:
        answer = options.receive(each)
        assert len(answer) in (0, 3)
        assert options.ours <= {0, 1}
        assert options.theirs <= {0, 2}


@given(st.binary(max_size=6))
def test_no_answer_of_a_server_is_too_short_to_be_read(body: bytes) -> None:
    read = read_port_answer(body)
    if body and 100 <= body[0] <= 112:
        assert read == (Setting(body[0] - 100), body[1:])
        assert port_answer(*read) == subnegotiation(COM_PORT, body)
    else:
        assert read is None
