"""The client of gdbservers, against one that has memory and faults, but no board."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import FormatError, HarnessError, ProbeError, TargetError, UsageError, open_port
from harness.extensions.probes.debug_probe import halted, open_probe
from harness.extensions.probes.memory import FirmwareElf
from harness.link.transports import port_identity, split_rtt
from harness.runs.request import probe_request
from tests.support.fake_gdbserver import FakeGdbserver

BASE = FakeGdbserver.BASE


@pytest.mark.attack(
    "Link and servers",
    "a gdbserver that damages, splits and repeats packets",
    "correct memory contents, or an error",
)
@settings(max_examples=50)
@given(
    st.data(),
    st.binary(min_size=600, max_size=900) | st.just(bytes(2000)),
    st.sampled_from([b"PacketSize=100", b"PacketSize=4000;QStartNoAckMode+", b""]),
    st.sampled_from([50, 1 << 20]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
)
def test_memory_arrives_whatever_the_server_does_to_packets(
    data: st.DataObject,
    memory: bytes,
    features: bytes,
    chunk: int,
    encode: bool,
    unasked: bool,
    chatter: bool,
    damage: int,
) -> None:
    first = data.draw(st.integers(0, len(memory) - 1))
    size = data.draw(st.integers(1, len(memory) - first))
    board = FakeGdbserver(bytearray(memory), features=features, chunk=chunk, encode=encode)
    board.unasked, board.chatter, board.damage = unasked, chatter, damage
    with board as server:
        with open_probe(server.address) as probe:
            assert probe.read(BASE + first, size) == memory[first : first + size]
            assert probe.statistics.bytes_read == size
            probe.write(BASE + first, bytes(reversed(memory[first : first + size])))
            assert probe.read(BASE + first, size)[::-1] == memory[first : first + size]
        assert server.running


def test_a_halt_ends_when_the_block_ends() -> None:
    with FakeGdbserver() as server, open_probe(server.address) as probe:
        probe.resume()
        with halted(probe):
            probe.read(BASE, 4)
            assert not server.running
        with pytest.raises(KeyboardInterrupt), halted(probe):
            raise KeyboardInterrupt
        assert probe.statistics.halts == 3
    assert server.running
    assert server.log[-1] == b"D"


@pytest.mark.attack(
    "Link and servers", "a debugger connection that ends at any point", "the board continues to run"
)
@pytest.mark.parametrize("failure", [ProbeError, KeyboardInterrupt, ZeroDivisionError])
def test_whatever_ends_a_connection_the_board_runs_on(failure: type[BaseException]) -> None:
    with FakeGdbserver() as server:
        with pytest.raises(failure), open_probe(server.address):
            raise failure("x")
        assert server.log[-1] == b"D"
        assert server.running


def test_a_server_that_leaves_a_board_halted_is_told_to_let_it_run() -> None:
    with FakeGdbserver(commands={"resume": b"OK"}) as server:
        with open_probe(server.address) as probe:
            probe.halt()
        assert server.log[-1] == b"D"
        assert server.running


def test_a_command_that_prints_instead_of_ok() -> None:
    texts = {"reset halt": "Resetting target with halt\n", "nonsense": "Error: unrecognized\n"}
    commands = {name: text.encode().hex().encode() for name, text in texts.items()}
    with FakeGdbserver(commands=commands) as server, open_probe(server.address) as probe:
        probe.reset("reset halt")
        with pytest.raises(ProbeError, match="refused the command 'nonsense': Error: unrecognized"):
            probe.reset("nonsense")


@pytest.mark.parametrize("registers", [True, False])
def test_the_program_counter_is_read_alone_or_among_all_registers(registers: bool) -> None:
    with (
        FakeGdbserver(registers=registers, counter=0x1234) as server,
        open_probe(server.address) as probe,
        pytest.raises(TargetError, match=r"did not reach 0x1100 within 0.05 s; it is at 0x1234"),
    ):
        probe.run_to(0x1100, 0.05)


def test_memory_that_cannot_be_accessed() -> None:
    with FakeGdbserver() as server, open_probe(server.address) as probe:
        with pytest.raises(ProbeError, match=r"cannot read 4 bytes of memory at 0x20: 'E14'"):
            probe.read(0x20, 4)
        with pytest.raises(ProbeError, match=r"cannot write 1 bytes of memory at 0x20: 'E14'"):
            probe.write(0x20, b"x")
        server.no_breakpoints = True
        with pytest.raises(ProbeError, match="cannot set a breakpoint at 0x40"):
            probe.run_to(0x40, 1.0)
        with pytest.raises(ProbeError, match="refused the command 'reset halt'"):
            probe.reset("reset halt")


@pytest.mark.attack(
    "Link and servers",
    "a gdbserver that accepts the connection and never answers",
    "exit code 75 at the deadline",
)
@pytest.mark.parametrize(
    ("silent", "message"),
    [
        ((b"?", b"halt"), "does not answer as a gdbserver within 0.3 s"),
        ((b"qSupported",), "did not answer 'qSupported"),
    ],
)
def test_a_server_that_does_not_answer(silent: tuple[bytes, ...], message: str) -> None:
    with (
        FakeGdbserver(silent=silent, timeout_s=0.3) as server,
        pytest.raises(ProbeError, match=message) as caught,
    ):
        open_probe(server.address)
    assert caught.value.exit_code == 75
    assert caught.value.hint


@pytest.mark.parametrize("size", [b"zz", b"-", b"\xff", b"0x"])
def test_a_packet_size_that_is_no_number(size: bytes) -> None:
    with (
        FakeGdbserver(features=b"PacketSize=" + size) as server,
        pytest.raises(ProbeError, match="sent 'PacketSize="),
    ):
        open_probe(server.address)


@pytest.mark.parametrize("printed", [b"Ozz", b"O4", b"O\xff\xfe", b"O4 41"])
def test_a_command_that_prints_no_hexadecimal(printed: bytes) -> None:
    commands = {"reset halt": printed}
    with (
        FakeGdbserver(commands=commands) as server,
        open_probe(server.address) as probe,
        pytest.raises(ProbeError, match="in hexadecimal"),
    ):
        probe.reset("reset halt")


@pytest.mark.attack(
    "Link and servers", "a gdbserver that answers with any bytes", "an error, no traceback"
)
@pytest.mark.long
@settings(max_examples=25)
@given(
    replies=st.lists(
        st.sampled_from([b"OK", b"E01", b"O", b"O41", b"Ozz", b"T05", b"S05", b"W00", b"zz", b"4*"])
        | st.binary(max_size=8).filter(lambda reply: not set(reply) & set(b"#$")),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_a_gdbserver_answers_is_an_error_of_ours(replies: list[bytes]) -> None:
    class Babbling(FakeGdbserver):
        def _reply(self, body: bytes) -> bytes | None:
            if body == b"?":
                return b"S05"
            return replies[len(self.log) % len(replies)]

    with (
        Babbling(timeout_s=0.3) as server,
        suppress(HarnessError),
        open_probe(server.address) as probe,
    ):
        probe.read(0x1000, 8)
        probe.reset("reset halt")
        probe.run_to(0x1000, 0.1)


def test_a_board_that_does_not_halt(caplog: pytest.LogCaptureFixture) -> None:
    silent = FakeGdbserver(silent=(b"halt",), timeout_s=3.0)
    with silent as server, open_probe(server.address) as probe:
        probe.resume()
        with caplog.at_level(logging.WARNING):
            with pytest.raises(ProbeError, match="did not halt within"):
                probe.halt()
            probe.close()
    assert "may be left halted" in caplog.text


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        number = closed.getsockname()[1]
    with pytest.raises(ProbeError, match="cannot connect to the gdbserver gdb://") as caught:
        open_probe(f"gdb://127.0.0.1:{number}")
    assert "OpenOCD" in caught.value.hint


def test_addresses_of_probes() -> None:
    assert port_identity("gdb://localhost:3333") == port_identity("gdb://127.0.0.1:3333?timeout=9")
    with pytest.raises(UsageError, match="is a debug probe, not a serial port"):
        open_port("gdb://localhost:3333", 115_200)
    for address in ("gdb://localhost", "gdb://:1", "gdb://a:1?timeout=x", "gdb://a:1/b"):
        with pytest.raises(UsageError, match="invalid port address"):
            open_probe(address)
    assert port_identity("pyocd://0123") == port_identity("pyocd://0123?target=stm32f407vg")
    assert port_identity("pyocd://0123") != port_identity("pyocd://0124")
    with pytest.raises(UsageError, match="is a debug probe, not a serial port"):
        open_port("pyocd://", 115_200)
    with pytest.raises(UsageError, match="not the address of a debug probe"):
        open_probe("/dev/ttyACM0")


def test_addresses_of_links_through_memory() -> None:
    address = "rtt+gdb://localhost:3333?address=0x20000000&size=4096&timeout=9"
    network, place, size = split_rtt(address)
    assert (network.port, network.timeout_s, place, size) == (3333, 9.0, 0x2000_0000, 4096)
    assert port_identity(address) == port_identity("gdb://127.0.0.1:3333")
    for query in ("", "?size=4096", "?address=x", "?address=-1", "?address=0&size=x"):
        with pytest.raises(UsageError, match="no valid address of the RTT control block"):
            open_port(f"rtt+gdb://localhost:3333{query}", 115_200)
    with pytest.raises(UsageError, match="unknown option 'x'"):
        open_port("rtt+gdb://localhost:3333?address=0&x=1", 115_200)


def test_options_that_belong_together(tmp_path: Path) -> None:
    elf = tmp_path / "firmware.elf"
    assert probe_request("/dev/ttyACM0", None, None) is None
    with pytest.raises(UsageError, match="need a debug probe as --port"):
        probe_request("/dev/ttyACM0", elf, None)
    with pytest.raises(UsageError, match="needs the firmware's symbols"):
        probe_request("gdb://localhost:3333", None, None)
    with pytest.raises(UsageError, match="has no baud rate"):
        probe_request("gdb://localhost:3333", elf, None, baud=9600)
    found = probe_request("gdb://localhost:3333", elf, "tracer")
    assert found is not None
    assert (found.elf, found.symbol) == (elf, "tracer")


def test_files_that_are_no_firmware(tmp_path: Path) -> None:
    file = tmp_path / "firmware.elf"
    with pytest.raises(UsageError, match="cannot read the firmware"):
        FirmwareElf(file)
    file.write_bytes(b"no ELF file")
    with pytest.raises(FormatError, match="is not an ELF file"):
        FirmwareElf(file)
    with pytest.raises(FormatError, match="32-bit little-endian"):
        FirmwareElf(Path("/bin/true"))
