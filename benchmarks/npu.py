"""What is read in the blobs of EthosUBackend, against the tables of the compiler that wrote them.

    python -m benchmarks.npu                # 100 networks, and the tables of docs/npu.md
    python -m benchmarks.npu --networks 10

ExecuTorch lowers random int8 networks for eleven configurations of Ethos-U55, U65 and U85. Vela,
the compiler within, keeps a table of its operators (``--verbose-performance``), and the place of
each operation in the command stream. It needs what ``tools/setup oracle`` installs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import random
import runpy
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from ethosu.vela import stats_writer
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch import nn

from benchmarks.verdict_counts import write_section
from harness.decode.pte import read_delegates
from harness.extensions.npu.command_stream import Operation, read_commands
from harness.extensions.npu.delegate import read_delegate
from harness.extensions.npu.vela_stream import read_stream

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs/npu.md"

CONFIGURATIONS: Final = (
    ("ethos-u55-32", None, None),
    ("ethos-u85-256", "Ethos_U85_SYS_Flash_High", "Shared_Sram"),
    ("ethos-u65-256", None, None),
    ("ethos-u55-128", None, None),
    ("ethos-u85-1024", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    ("ethos-u65-512", "Ethos_U65_Embedded", "Shared_Sram"),
    ("ethos-u55-256", "Ethos_U55_Deep_Embedded", "Sram_Only"),
    ("ethos-u85-2048", None, None),
    ("ethos-u55-64", None, None),
    ("ethos-u85-128", None, None),
    ("ethos-u85-512", None, None),
)
"""NPUs, with Vela's system configuration and memory mode; None for ExecuTorch's choice."""

_KINDS: Final = (
    *("conv", "conv", "pointwise", "depthwise", "residual", "dilated", "cat"),
    *("max pool", "average pool", "sigmoid", "hardswish", "scale", "upsample", "relu6"),
)
_MEMORIES: Final = {"Sram": "SRAM", "OnChipFlash": "SRAM", "OffChipFlash": "flash", "Dram": "DRAM"}


class RandomNetwork(nn.Module):
    """Two to seven layers of random kinds and sizes, and perhaps a classifier."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        channels = chance.choice([1, 3, 8])
        self.size, self.channels = chance.choice([8, 16, 24, 32]), channels
        self.kinds = [chance.choice(_KINDS) for _ in range(chance.randint(2, 7))]
        self.layers = nn.ModuleList()
        for kind in self.kinds:
            layer, channels = _layer(kind, channels, chance)
            self.layers.append(layer)
        self.head = chance.choice(["none", "linear", "softmax"])
        self.classifier = nn.Linear(channels, chance.choice([2, 10, 33]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layers that the size of the image permits."""
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            x = _applied(kind, layer, x)
        if self.head == "none":
            return x
        x = self.classifier(x.mean((2, 3)))
        return x.softmax(-1) if self.head == "softmax" else x


def _layer(kind: str, channels: int, chance: random.Random) -> tuple[nn.Module, int]:
    """Return a layer, and the channels behind it."""
    width, size = chance.choice([4, 8, 12, 16, 24, 32, 48]), chance.choice([2, 3, 5])
    stride = chance.choice([1, 2])
    match kind:
        case "conv":
            return nn.Conv2d(channels, width, size, stride=stride, padding=size // 2), width
        case "pointwise":
            return nn.Conv2d(channels, width, 1), width
        case "dilated":
            return nn.Conv2d(channels, width, 3, padding=2, dilation=2), width
        case "cat":
            return nn.Conv2d(channels, width, 1), channels + width
        case "depthwise":
            layer = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels)
            return layer, channels
        case "residual":
            return nn.Conv2d(channels, channels, 3, padding=1), channels
    return nn.Identity(), channels


def _applied(kind: str, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    match kind:
        case "max pool":
            return nn.functional.max_pool2d(x, 2) if x.shape[-1] >= 4 else x
        case "average pool":
            return nn.functional.avg_pool2d(x, 2) if x.shape[-1] >= 4 else x
        case "upsample":
            return nn.functional.interpolate(x, scale_factor=2) if x.shape[-1] <= 32 else x
        case "residual":
            return torch.relu(x + layer(x))
        case "sigmoid":
            return torch.sigmoid(x)
        case "hardswish":
            return nn.functional.hardswish(x)
        case "relu6":
            return nn.functional.relu6(x)
        case "cat":
            return torch.cat([x, layer(x)], 1)
        case "scale":
            return x * torch.sigmoid(x.mean((2, 3), keepdim=True))
    return torch.relu(layer(x))


@dataclass(frozen=True, slots=True)
class VelaTables:
    """What Vela states of one delegate.

    Attributes:
        rows: Its operators by number, with the columns of its table.
        places: Numbers of operators by the byte offset of their operations in the stream.
        weights: Bytes of all encoded weights.
        cycles: Its estimate of all cycles.
        moved: Bytes that are read and written, by memory.
    """

    rows: dict[int, dict[str, str]]
    places: dict[int, int]
    weights: int
    cycles: int
    moved: dict[str, int]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A network that ExecuTorch has lowered: its program, and Vela's tables of each delegate."""

    target: str
    program: bytes
    tables: tuple[VelaTables, ...]


def lower(seed: int) -> Lowered:
    """Export a random network for one of the configurations."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    model = RandomNetwork(chance).eval()
    target, system, mode = CONFIGURATIONS[seed % len(CONFIGURATIONS)]
    image = torch.randn(1, model.channels, model.size, model.size)
    inputs = (image.to(memory_format=torch.channels_last),)
    spec = EthosUCompileSpec(target, system, mode, extra_flags=["--verbose-performance"])
    export = runpy.run_path(str(ROOT / "firmware_stub/models/export_ethos_u.py"))["lower"]
    with contextlib.redirect_stdout(io.StringIO()), _tables() as tables:
        program = export(model, inputs, spec)
    return Lowered(target, program, tuple(tables))


@contextlib.contextmanager
def _tables() -> Iterator[list[VelaTables]]:
    """Collect Vela's tables while it compiles."""
    found: list[VelaTables] = []

    def keep(
        _arch: object, report: Any, _name: object, _file: object, database: Any, *_: object
    ) -> None:
        tables = database.tables
        columns = tables["perf"].header
        moved = Counter[str]()
        for name, memory in report.memories.items():
            for access in memory.accesses.values():
                moved[_MEMORIES.get(name, name)] += access.bytesRead + access.bytesWritten
        found.append(
            VelaTables(
                {int(row[0]): dict(zip(columns, row, strict=True)) for row in tables["perf"].data},
                {int(row[0]): int(row[3]) for row in tables["queue"].data},
                report.encodedWeights,
                report.totalCycles,
                dict(moved),
            )
        )

    printed = stats_writer.print_regor_performance_metrics
    stats_writer.print_regor_performance_metrics = keep
    try:
        yield found
    finally:
        stats_writer.print_regor_performance_metrics = printed


@dataclass(slots=True)
class Agreement:
    """How what is read agrees with Vela's tables, of one network or of many.

    Attributes:
        delegates: Number of delegates.
        operations: Operations of the command streams.
        without_row: Operations that belong to no row of Vela's, and places without an operation.
        rows: Rows with operations.
        macs: Rows whose multiply-accumulates are equal.
        transposes: Rows of transposes, whose multiply-accumulates Vela does not count.
        unequal: Names of Vela's operators in all other rows.
        weights: Delegates whose encoded weights are equal.
        traffic: Bytes read here per byte that Vela estimates, by memory.
        cycles: Cycles here per cycle that Vela estimated when it compiled.
    """

    delegates: int = 0
    operations: int = 0
    without_row: int = 0
    rows: int = 0
    macs: int = 0
    transposes: int = 0
    unequal: list[str] = field(default_factory=list)
    weights: int = 0
    traffic: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cycles: list[float] = field(default_factory=list)

    def add(self, other: Agreement) -> None:
        """Add those of another network."""
        for name in ("delegates", "operations", "without_row", "rows", "macs", "transposes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.weights += other.weights
        self.unequal += other.unequal
        self.cycles += other.cycles
        for memory, factors in other.traffic.items():
            self.traffic[memory] += factors


def compare(lowered: Lowered) -> Agreement:
    """Compare what is read in a program with Vela's tables."""
    agreement = Agreement()
    delegates = read_delegates(lowered.program)["forward"]
    for delegate, tables in zip(delegates, lowered.tables, strict=True):
        operations = read_commands(read_stream(delegate.blob, {}).commands).operations
        work = read_delegate(delegate)
        assert not work.notes, work.notes
        by_row = defaultdict[int, list[Operation]](list)
        for operation in operations:
            if operation.at in tables.places:
                by_row[tables.places[operation.at]].append(operation)
        placed = sum(map(len, by_row.values()))
        agreement.delegates += 1
        agreement.operations += len(operations)
        agreement.without_row += len(operations) - placed + abs(len(tables.places) - placed)
        _compare_rows(agreement, tables, by_row)
        agreement.weights += sum(each.weights for each in operations) == tables.weights
        moved = Counter[str]()
        for each in work.operators:
            moved.update(each.read)
            moved.update(each.written)
        for memory, size in tables.moved.items():
            if size and memory in ("SRAM", "flash", "DRAM"):
                agreement.traffic[memory].append(moved[memory] / size)
        if work.estimated_by and tables.cycles:
            agreement.cycles.append(
                sum(each.cycles or 0 for each in work.operators) / tables.cycles
            )
    return agreement


def _compare_rows(
    agreement: Agreement, tables: VelaTables, by_row: dict[int, list[Operation]]
) -> None:
    for number, operations in by_row.items():
        row = tables.rows[number]
        equal = sum(each.macs for each in operations) == int(row["mac_count"])
        agreement.rows += 1
        agreement.macs += equal
        if not equal and row["operator"] == "Transpose":
            agreement.transposes += 1
        elif not equal:
            agreement.unequal.append(row["operator"])


def section(networks: dict[str, int], total: Agreement) -> Iterator[str]:
    """Return the table of the page."""
    listed = ", ".join(f"{target} {count}" for target, count in sorted(networks.items()))
    yield f"{sum(networks.values())} random int8 networks that ExecuTorch lowered ({listed}):"
    yield ""
    yield "| compared with Vela's table of operators | result |"
    yield "|---|---|"
    placed = f"{total.operations - total.without_row:,} of {total.operations:,}"
    yield f"| operations with exactly one row | {placed} |"
    yield f"| rows with equal MACs | {total.macs:,} of {total.rows:,} |"
    yield f"| others: transposes, whose MACs Vela does not count | {total.transposes:,} |"
    others = Counter(total.unequal)
    named = f" ({', '.join(f'{name} {count}' for name, count in others.items())})" if others else ""
    yield f"| others | {len(total.unequal):,}{named} |"
    yield f"| delegates with equal bytes of weights | {total.weights:,} of {total.delegates:,} |"
    for memory, factors in sorted(total.traffic.items()):
        yield f"| bytes of {memory}, per byte of Vela's estimate | {_spread(factors)} |"
    if total.cycles:
        what = "cycles of U55 and U65, per cycle of Vela's estimate as it compiled"
        yield f"| {what} | {_spread(total.cycles)} |"


def _spread(factors: Sequence[float]) -> str:
    low, *_, high = (
        statistics.quantiles(factors, n=20, method="inclusive") if len(factors) > 1 else factors * 2
    )
    return (
        f"{statistics.median(factors):.2f} (90 % within {low:.2f} and {high:.2f}, "
        f"all within {min(factors):.2f} and {max(factors):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=100)
    arguments = parser.parse_args()
    total, networks, failed = Agreement(), Counter[str](), 0
    for seed in itertools.count():
        if sum(networks.values()) == arguments.networks:
            break
        try:
            lowered = lower(seed)
        except Exception as error:  # ExecuTorch's passes raise whatever they meet
            print(f"{seed}: ExecuTorch cannot lower it: {str(error)[:200]}", flush=True)
            failed += 1
            assert failed <= arguments.networks / 5, "too many networks cannot be lowered"
            continue
        total.add(compare(lowered))
        networks[lowered.target] += 1
        print(seed, lowered.target, total.rows, total.macs, total.unequal, flush=True)
    lines = list(section(networks, total))
    print("\n".join(lines))
    if arguments.networks >= 100:
        write_section("benchmarks/npu.py", lines, PAGE)


if __name__ == "__main__":
    main()
