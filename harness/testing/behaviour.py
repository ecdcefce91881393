"""Behaviour: how a simulated board is made, what its model computes, and how it misbehaves."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field

from harness.link.wire import Status

MODEL_MAGIC = b"FAKE"
"""How a model of this board begins; the rest may be any bytes."""


def output_of(data: bytes) -> bytes:
    """Return what the model computes from its input."""
    return bytes(byte ^ 0x5A for byte in data)


def trace_of(model: bytes, count: int, size: int) -> bytes:
    """Return the log of ``count`` executions of ``model``: bytes that depend on both."""
    blocks = -(-size // 32)
    seed = hashlib.sha256(model + struct.pack("<I", count)).digest()
    return b"".join(
        hashlib.sha256(seed + bytes((i & 255, i >> 8))).digest() for i in range(blocks)
    )[:size]


@dataclass
class Behaviour:
    """How a simulated board is made, and how it misbehaves. Times are seconds.

    Attributes:
        mtu: Longest frame that it takes, bytes.
        boot_s: Time from a reset until it listens.
        execute_s: Time per execution.
        latency_s: Delay of the line in each direction.
        bytes_per_s: Rate of the line.
        input_size: Bytes of the model's one input, and of its output.
        trace_size: Bytes of the log of a run.
        model_capacity: Bytes of the largest model.
        deaf_while_sending: It loses what arrives while it sends.
        deaf_while_executing: It loses what arrives during an execution, as a UART without a FIFO
            does; after such an execution it listens for a while.
        in_order_only: It takes the parts of an upload in order only.
        hang_in_execution: The execution, from 1, in which it hangs.
        restart_in_execution: The execution, from 1, in which it restarts.
        run_outcome: Status, detail and message with which a run ends.
        silent: Requests that it never answers.
        malformed: Requests whose responses are malformed.
        text_after_execution: Console text after each execution.
    """

    mtu: int = 512
    boot_s: float = 0.0
    execute_s: float = 0.01
    latency_s: float = 0.0
    bytes_per_s: float = float("inf")
    input_size: int = 1960
    trace_size: int = 20_000
    model_capacity: int = 1 << 20
    deaf_while_sending: bool = False
    deaf_while_executing: bool = False
    in_order_only: bool = False
    hang_in_execution: int | None = None
    restart_in_execution: int | None = None
    run_outcome: tuple[int, int, bytes] = (Status.OK, 0, b"")
    silent: set[int] = field(default_factory=set)
    malformed: set[int] = field(default_factory=set)
    text_after_execution: bytes = b""
