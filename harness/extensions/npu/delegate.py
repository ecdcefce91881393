"""Reads a delegate of EthosUBackend: its operators, memory traffic and scratch memory."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from harness.decode.program import CompiledDelegate
from harness.extensions.npu.command_stream import PRODUCTS, Operation, read_commands
from harness.extensions.npu.cycles import estimate_cycles
from harness.extensions.npu.vela_stream import read_stream
from harness.records.result import DelegateOperator, DelegateWork
from harness.report.words import counted

_REGIONS: Final = {0: "constants", 1: "scratch", 2: "fast scratch", 5: "state"}
"""Memory regions by number, as ExecuTorch's backend passes them to the driver."""

_PLACED: Final = {
    "Sram_Only": ("SRAM", "SRAM", "SRAM"),
    "Shared_Sram": ("{far}", "SRAM", "SRAM"),
    "Dedicated_Sram": ("{far}", "{far}", "SRAM"),
}
"""Memories of the first three regions in Vela's memory modes; the others are variants of these."""

_FAR: Final = {
    "Ethos_U55": "flash",
    "Ethos_U65_Embedded": "flash",
    "Ethos_U65": "DRAM",
    "SYS_Flash": "flash",
    "SYS_DRAM": "DRAM",
}
"""Memories behind the second port, by a part of the name of Vela's system configuration."""


def read_delegate(delegate: CompiledDelegate) -> DelegateWork:
    """Return what a delegate of EthosUBackend does.

    Raises:
        FormatError: The blob is damaged, or of an NPU that is not known.
    """
    stream = read_stream(delegate.blob, delegate.named)
    notes = [f"its block {name!r} is not known and was skipped" for name in stream.unknown]
    if stream.outside:
        outside = ", ".join(stream.outside)
        notes.append(f"its data {outside} is outside the program, in a .ptd file (--data)")
    options = _options(delegate.specs)
    if "cmd_data" in stream.outside:
        product = re.fullmatch(r"ethos-(u\d+)-(\d+)", options.get("accelerator-config", ""))
        target = f"Ethos-{product[1].upper()}, {product[2]} MACs per cycle" if product else ""
        return DelegateWork(target=target, scratch_bytes=stream.scratch, notes=tuple(notes))
    commands = read_commands(stream.commands, stream.commands_at)
    memories = _memories(options)
    estimate = estimate_cycles(commands.operations, options, memories)
    notes += [estimate.note] if estimate.note else []
    if commands.unknown:
        listed = ", ".join(f"0x{number:x}" for number in sorted(commands.unknown))
        skipped = counted(sum(commands.unknown.values()), "unknown command")
        notes.append(f"{skipped} skipped ({listed})")
    if commands.branches:
        jumps = counted(commands.branches, "jump")
        notes.append(f"operations between its {jumps} count once")
    return DelegateWork(
        target=f"Ethos-{PRODUCTS[commands.product]}, {commands.macs_per_cycle} MACs per cycle",
        operators=tuple(
            _operator(operation, memories, cycles)
            for operation, cycles in zip(commands.operations, estimate.cycles, strict=True)
        ),
        constant_bytes=stream.constants or 0,
        scratch_bytes=stream.scratch,
        estimated_by=estimate.tool,
        notes=tuple(notes),
    )


def _operator(
    operation: Operation, memories: dict[int, str], cycles: int | None
) -> DelegateOperator:
    read, written = Counter[str](), Counter[str]()
    for region, loaded, stored in operation.traffic():
        if region >= 0:
            name = memories.get(region, f"region {region}")
            read[name] += loaded
            written[name] += stored
    return DelegateOperator(
        name=operation.name,
        operands=operation.operands,
        macs=operation.macs,
        weight_bytes=operation.weights + operation.scales,
        dma_bytes=sum(transfer.length for transfer in operation.transfers),
        read={name: size for name, size in sorted(read.items()) if size},
        written={name: size for name, size in sorted(written.items()) if size},
        cycles=cycles,
    )


def _options(specs: dict[str, bytes]) -> dict[str, str]:
    """Return Vela's options, as ExecuTorch keeps them beside the blob."""
    flags = specs.get("compile_flags", b"").decode("utf-8", "replace")
    return dict(re.findall(r"--([\w-]+)=(\S*)", flags))


def _memories(options: dict[str, str]) -> dict[int, str]:
    """Return the memories of regions, as the compiler's options place them.

    Where they really are is up to the firmware: without the options, or with those of an unknown
    configuration, they are named after what they contain.
    """
    mode = re.sub(r"_\d+KB$", "", options.get("memory-mode", ""))
    system = options.get("system-config", "")
    far = next((far for part, far in _FAR.items() if part in system), None)
    if mode not in _PLACED or far is None:
        return _REGIONS
    return _REGIONS | {number: name.format(far=far) for number, name in enumerate(_PLACED[mode])}
