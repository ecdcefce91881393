"""InstructionRecord: an instruction of a program, with its work, as a result records it."""

from __future__ import annotations

from typing import Literal

import msgspec

CallName = Literal["kernel", "delegate", "move", "jump_false", "free"]
"""Kinds of instructions."""


class InstructionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instruction of the program: a kernel's ``operator.overload``, or a delegate's backend.

    ``target`` is the instruction that a jump goes to, else -1. ``macs`` are a kernel's
    multiply-accumulates, ``bytes_read`` and ``bytes_written`` the sizes of its tensors, as
    ``etharness inspect`` states them; 0 for other instructions and where they are unknown.
    """

    call: CallName
    name: str = ""
    target: int = -1
    macs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
