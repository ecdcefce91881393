"""The nRF51822, nRF52833 and nRF52840 as their manuals describe them, with the UART without DMA."""

from __future__ import annotations

from pathlib import Path

from unicorn import arm_const as arm

from tests.support.chips.core import Chip, Memory
from tests.support.chips.line import Line
from tests.support.chips.registers import Registers

UART_FIFO = 6


class Nrf(Chip):
    """Pins are counted over both ports."""

    vectors = 0
    irq = 2  # UART0
    send_pin: int
    receive_pin: int
    two_ports = True

    def __init__(self, image: Path, *, seed: int = 1) -> None:
        self._transmitting = self._receiving = False
        self._counted = self._began = self._captured = 0
        self._running = False
        self.restarts = 0
        super().__init__(image, Line(UART_FIFO), seed=seed)

    def describe(self, registers: Registers) -> None:
        self._clock(registers)
        self._uart(registers)
        self._timer(registers)
        for port in range(2 if self.two_ports else 1):
            base = 0x5000_0000 + 0x300 * port
            registers.add(base + 0x508, f"P{port}.OUTSET")
            registers.add(base + 0x518, f"P{port}.DIRSET")
            for pin in range(32):
                registers.add(
                    base + 0x700 + 4 * pin, f"P{port}.PIN_CNF[{pin}]", 0x0003_070F, reset=2
                )

    def _clock(self, registers: Registers) -> None:
        at = registers.add
        at(0x4000_0000, "TASKS_HFCLKSTART", 1)
        at(0x4000_0100, "EVENTS_HFCLKSTARTED", 1)
        if self.two_ports:
            at(0x4000_0400, "RESETREAS", 0x001F_000F, write=self._forget_reasons)
            at(0x4001_E540, "ICACHECNF", 0x101)

    def _forget_reasons(self, value: int) -> None:
        self.registers["RESETREAS"] = self._reasons = self._reasons & ~value

    _reasons = 0

    def _uart(self, registers: Registers) -> None:
        at = registers.add
        at(0x4000_2000, "STARTRX", 1, write=self._start_receiving)
        at(0x4000_2008, "STARTTX", 1, write=self._start_transmitting)
        at(0x4000_2108, "RXDRDY", 1)
        at(0x4000_211C, "TXDRDY", 1)
        at(0x4000_2304, "INTENSET", 0x0002_0287, write=self._let)
        at(0x4000_2308, "INTENCLR", 0x0002_0287, write=self._forbid)
        at(0x4000_2480, "ERRORSRC", 15)
        at(0x4000_2500, "ENABLE", 15)
        at(0x4000_250C, "PSELTXD", reset=0xFFFF_FFFF)
        at(0x4000_2514, "PSELRXD", reset=0xFFFF_FFFF)
        at(0x4000_2518, "RXD", 0, read=self._receive)
        at(0x4000_251C, "TXD", 0xFF, write=self._send)
        at(0x4000_2524, "BAUDRATE", reset=0x0400_0000)

    def _timer(self, registers: Registers) -> None:
        at = registers.add
        at(0x4000_8000, "TIMER.START", 1, write=self._start_timer)
        at(0x4000_8004, "TIMER.STOP", 1, write=self._stop_timer)
        at(0x4000_800C, "TIMER.CLEAR", 1, write=self._clear_timer)
        at(0x4000_8040, "TIMER.CAPTURE[0]", 1, write=self._capture)
        at(0x4000_8504, "TIMER.MODE", 3)
        at(0x4000_8508, "TIMER.BITMODE", 3)
        at(0x4000_8510, "TIMER.PRESCALER", 15, reset=4)
        at(0x4000_8540, "TIMER.CC[0]")

    # The UART.

    _allowed = 0

    def _let(self, value: int) -> None:
        self._allowed |= value

    def _forbid(self, value: int) -> None:
        self._allowed &= ~value

    def _start_receiving(self, _: int) -> None:
        self._receiving = True

    def _start_transmitting(self, _: int) -> None:
        self._transmitting = True

    def _ready(self) -> None:
        assert self.registers["ENABLE"] == 4, "uses a UART that is off"
        assert self.registers["PSELTXD"] == self.send_pin, "sends on another pin"
        assert self.registers["PSELRXD"] == self.receive_pin, "receives on another pin"
        assert self.registers["EVENTS_HFCLKSTARTED"] == 1, "sends without a crystal"
        port, pin = divmod(self.send_pin, 32)
        assert self.registers[f"P{port}.DIRSET"] == self.registers[f"P{port}.OUTSET"] == 1 << pin
        port, pin = divmod(self.receive_pin, 32)
        assert self.registers[f"P{port}.PIN_CNF[{pin}]"] & 3 == 0, "the pin does not receive"

    def _receive(self, _: int) -> int:
        self._ready()
        assert self._receiving
        byte = self.line.receive()
        self.line.arrive()
        if self.line.incoming:  # the next one moves up, and says so
            self.registers["RXDRDY"] = 1
        return byte

    def _send(self, value: int) -> None:
        self._ready()
        assert self._transmitting
        self.line.send(value)
        assert len(self.line.outgoing) == 1, "sends a byte before the last one has gone"

    def settle(self) -> None:
        if self.registers["TASKS_HFCLKSTART"]:
            self.registers["EVENTS_HFCLKSTARTED"] = 1
        if self.line.carry():
            self.registers["TXDRDY"] = 1
        had = bool(self.line.incoming)
        if self._receiving and self.line.arrive() and not had:
            self.registers["RXDRDY"] = 1

    def interrupting(self) -> bool:
        received = self._allowed & 1 << 2 and self.registers["RXDRDY"]
        return bool(received or (self._allowed & 1 << 7 and self.registers["TXDRDY"]))

    @property
    def baud(self) -> float:
        return 16e6 * self.registers["BAUDRATE"] / 2**32

    # The timer.

    def _start_timer(self, _: int) -> None:
        assert self.registers["TIMER.MODE"] == 0
        assert self.registers["TIMER.BITMODE"] == 3, "counts fewer than 32 bits"
        self._running, self._began = True, self.now()

    def _stop_timer(self, _: int) -> None:
        self._running = False

    def _clear_timer(self, _: int) -> None:
        self._began = self.now()  # and the prescaler
        self.restarts += 1

    def _capture(self, _: int) -> None:
        assert self._running
        self.registers["TIMER.CC[0]"] = (self.now() - self._began) >> self.registers[
            "TIMER.PRESCALER"
        ]

    @property
    def timer_hz(self) -> int:
        return 16_000_000 >> self.registers["TIMER.PRESCALER"]

    def after_reset(self) -> None:
        self._transmitting = self._receiving = self._running = False
        self._allowed = 0
        if self.two_ports:
            self._reasons |= 1 << 2  # SREQ
            self.registers["RESETREAS"] = self._reasons


class MicrobitV1(Nrf):
    model = arm.UC_CPU_ARM_CORTEX_M0
    memories = (Memory(0, 0x4_0000, False), Memory(0x2000_0000, 0x4000, True))
    regions = 0
    send_pin, receive_pin = 24, 25
    two_ports = False


class MicrobitV2(Nrf):
    model = arm.UC_CPU_ARM_CORTEX_M4
    dwt = True
    memories = (Memory(0, 0x8_0000, False), Memory(0x2000_0000, 0x2_0000, True))
    regions = 8
    send_pin, receive_pin = 6, 32 + 8


class Nrf52840Dk(Nrf):
    model = arm.UC_CPU_ARM_CORTEX_M4
    dwt = True
    memories = (Memory(0, 0x10_0000, False), Memory(0x2000_0000, 0x4_0000, True))
    regions = 8
    send_pin, receive_pin = 6, 8


class ArduinoNano33(Nrf52840Dk):
    """Its boot loader has started the image."""

    vectors = 0x1_0000
    send_pin, receive_pin = 32 + 3, 32 + 10
