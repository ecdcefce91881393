"""pyOCD's own host code for RTT, at a board behind a gdbserver; run with the Python that has pyOCD.

Finds the control block, reads the console text from it, and writes bytes that the board takes.
"""

from __future__ import annotations

import sys
import time

from pyocd.debug.rtt import GenericRTTControlBlock

from harness.extensions.probes.debug_probe import DebugProbe, halted, open_probe


class Memory:
    """What pyOCD wants of a target."""

    def __init__(self, probe: DebugProbe) -> None:
        self._probe = probe

    def read_memory_block8(self, address: int, size: int) -> list[int]:
        with halted(self._probe):
            return list(self._probe.read(address, size))

    def write_memory_block8(self, address: int, data: list[int]) -> None:
        with halted(self._probe):
            self._probe.write(address, bytes(data))

    def read_memory_block32(self, address: int, count: int) -> list[int]:
        data = bytes(self.read_memory_block8(address, 4 * count))
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def read32(self, address: int) -> int:
        return self.read_memory_block32(address, 1)[0]

    def write32(self, address: int, value: int) -> None:
        self.write_memory_block8(address, list(value.to_bytes(4, "little")))


def main(port: str, begin: str) -> None:
    with open_probe(port) as probe:
        block = GenericRTTControlBlock(Memory(probe), int(begin, 0), 0x10000)
        block.start()
        up, down = block.up_channels[0], block.down_channels[0]
        print(up.name, up.size, down.name, down.size)
        text = b""
        deadline = time.monotonic() + 20
        while b"\n" not in text and time.monotonic() < deadline:
            text += up.read()
        print(text.partition(b"\n")[0].decode())
        given = bytes(range(200))
        written = down.write(given)
        # pyOCD counts the byte that a ring keeps free only while the ring is not empty.
        while down.bytes_free < down.size and time.monotonic() < deadline:
            time.sleep(0.01)
        print(written, down.bytes_free == down.size)


main(*sys.argv[1:])
