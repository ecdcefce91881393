"""A gdbserver without a board: memory, a state, and ways to misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field


@dataclass
class FakeGdbserver:
    """Serves one client after the other, as real ones do.

    Attributes:
        memory: What can be read, from address 0x1000.
        running: Whether the board runs.
        features: Reply to ``qSupported``.
        chunk: Bytes that are sent at once.
        chatter: Text to print precedes each reply, as OpenOCD sends it.
        encode: Replies are run-length encoded.
        damage: The first so many replies arrive damaged, and are sent again when asked for.
        unasked: A stop reply is sent on connection, as QEMU does.
        commands: Replies to commands (``monitor``); detaching resumes the board unless there is
            one to ``resume``, as with OpenOCD.
        counter: The program counter.
        registers: Whether a single register can be read.
        no_breakpoints: All breakpoints are in use.
        silent: Packets that are never answered, by their beginning; ``halt`` for the halt.
        timeout_s: How long a client waits for an answer, seconds.
        log: Packets received, without acknowledgements.
    """

    memory: bytearray = field(default_factory=lambda: bytearray(4096))
    running: bool = True
    features: bytes = b"PacketSize=400"
    chunk: int = 1 << 20
    chatter: bool = False
    encode: bool = False
    damage: int = 0
    unasked: bool = False
    commands: dict[str, bytes] = field(default_factory=dict)
    counter: int = 0x1000
    registers: bool = True
    no_breakpoints: bool = False
    silent: tuple[bytes, ...] = ()
    timeout_s: float = 30.0
    log: list[bytes] = field(default_factory=list)

    BASE = 0x1000
    PC = 15

    def __enter__(self) -> FakeGdbserver:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(10)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread, unlike close
        self._server.close()
        self._thread.join(10)

    @property
    def address(self) -> str:
        return f"gdb://127.0.0.1:{self._server.getsockname()[1]}?timeout={self.timeout_s}"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                with client, contextlib.suppress(OSError):
                    client.settimeout(10)
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        self._acknowledge = True
        received = b""
        self.running = False  # a connection halts it
        if self.unasked:
            self._send(client, b"T02thread:p01.01;")
        while data := client.recv(65536):
            received += data
            while received:
                if received[:1] == b"\x03":
                    received = received[1:]
                    self.log.append(b"halt")
                    if b"halt" not in self.silent:
                        self.running = False
                        self._send(client, b"S02")
                elif received[:1] in (b"+", b"-"):
                    if received[:1] == b"-":
                        self._send(client, self._last)
                    received = received[1:]
                elif b"#" in received and len(received) >= received.index(b"#") + 3:
                    end = received.index(b"#")
                    body, received = received[1:end], received[end + 3 :]
                    self._packet(client, body)
                else:
                    break

    def _packet(self, client: socket.socket, body: bytes) -> None:
        self.log.append(body)
        if self._acknowledge:
            client.sendall(b"+")
        if any(body.startswith(name) for name in self.silent):
            return
        reply = self._reply(body)
        if reply is not None:
            if self.chatter:
                self._send(client, b"O")
                self._send(client, b"O" + b"halted\n".hex().encode())
            self._send(client, reply)
        if body == b"QStartNoAckMode":
            self._acknowledge = False

    def _reply(self, body: bytes) -> bytes | None:
        kind, rest = body[:1], body[1:]
        if kind == b"?":
            return b"S05"
        if body.startswith(b"qSupported"):
            return self.features
        if body == b"QStartNoAckMode":
            return b"OK"
        if kind == b"D":
            self.running = self.running or "resume" not in self.commands
            return b"OK"
        if kind == b"c":
            self.running = True
            return None
        if kind in (b"m", b"M"):
            place, _, data = rest.partition(b":")
            address, size = (int(number, 16) for number in place.split(b","))
            begin = address - self.BASE
            if begin < 0 or begin + size > len(self.memory):
                return b"E14"
            if kind == b"M":
                self.memory[begin : begin + size] = bytes.fromhex(data.decode())
                return b"OK"
            return bytes(self.memory[begin : begin + size]).hex().encode()
        return self._reply_of_core(kind, body)

    def _reply_of_core(self, kind: bytes, body: bytes) -> bytes:
        """Reply about commands, registers and breakpoints."""
        if body.startswith(b"qRcmd,"):
            command = bytes.fromhex(body[6:].decode()).decode()
            self.running = self.running or (command == "resume" and command in self.commands)
            return self.commands.get(command, b"")
        if body == b"p%x" % self.PC and self.registers:
            return self.counter.to_bytes(4, "little").hex().encode()
        if kind == b"g":
            return (
                (bytes(4 * self.PC) + self.counter.to_bytes(4, "little") + bytes(8)).hex().encode()
            )
        if body[:2] in (b"Z1", b"z1") and not self.no_breakpoints:
            return b"OK"
        return b""

    def _send(self, client: socket.socket, body: bytes) -> None:
        self._last = body
        coded = _run_lengths(body) if self.encode else body
        packet = b"%s#%02x" % (coded, _sum(coded))
        if self.damage and self._acknowledge:
            self.damage -= 1
            packet = packet[:-2] + b"%02x" % (_sum(coded) ^ 1)
        packet = b"$" + packet
        for begin in range(0, len(packet), self.chunk):
            client.sendall(packet[begin : begin + self.chunk])
            if self.chunk < len(packet):
                time.sleep(0.0005)


def _sum(body: bytes) -> int:
    return sum(body) & 0xFF


def _run_lengths(body: bytes) -> bytes:
    """Encode runs as the protocol has it: a character, ``*`` and a count, never ``#`` or ``$``."""
    coded, at = bytearray(), 0
    while at < len(body):
        run = 1
        while at + run < len(body) and body[at + run] == body[at] and run < 98:
            run += 1
        while run > 3 and run - 1 + 29 in b"#$+-":
            run -= 1
        if run > 3:
            coded += bytes((body[at], ord("*"), run - 1 + 29))
        else:
            coded += body[at : at + run]
        at += run
    return bytes(coded)
