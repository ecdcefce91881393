"""Follow the advice of the fall-back X-ray in five networks each, and compare what it saves.

    .venv-oracle/bin/python -m benchmarks.fallback

Each network is exported to XNNPACK as somebody wrote it, and as the X-ray advises; both run on
``native-executorch``, in turns. The predicted saving is that of the first export's X-ray, for all
operators with advice; the measured one is the difference of the executions. Of both exports the run
with the shortest execution counts, so that the figures hold on a busy computer, too.

Five networks are exported to Ethos-U likewise. There is no Ethos-U here, so what is compared are
the estimated instructions of the CPU around it, of both exports. Writes the tables of
``docs/fallback.md``.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import harness
from harness.extensions.fallback.xray import FallbackXray, describe, measure

PAGE = Path(__file__).resolve().parent.parent / "docs/fallback.md"
BEGIN, END = "<!-- measured: benchmarks/fallback.py{} -->", "<!-- end -->"
BOARD = "native-executorch"
RUNS = 40
"""Executions of a run."""
TURNS = 7
"""Runs of each export; the shortest execution counts, as others were disturbed."""

Function = Callable[[torch.Tensor], torch.Tensor]


class Convolved(nn.Module):
    """A convolution, what is examined, and a convolution or a linear layer."""

    def __init__(self, channels: int, middle: Function, last: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.middle, self.last = middle, last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the three one after the other."""
        found: torch.Tensor = self.last(self.middle(torch.relu(self.first(x))))
        return found


class Advised(NamedTuple):
    """A network as written and as advised.

    Attributes:
        name: What falls back.
        channels: Channels of the first convolution.
        size: Height and width of the input.
        written: What the X-ray finds outside.
        advised: The same as the X-ray's advice says it.
        last: Makes the last layer.
    """

    name: str
    channels: int
    size: int
    written: Function
    advised: Function
    last: Callable[[int], nn.Module]


def _head(channels: int) -> nn.Module:
    return nn.Linear(channels, 10)


def _pointwise(channels: int) -> nn.Module:
    return nn.Conv2d(channels, 8, 1)


NETWORKS = (
    Advised(
        "mean without keepdim",
        *(64, 80),
        lambda x: x.mean((2, 3)),
        lambda x: x.mean((2, 3), keepdim=True).flatten(1),
        _head,
    ),
    Advised(
        "softmax over channels",
        *(16, 96),
        lambda x: torch.softmax(x, 1),
        lambda x: torch.softmax(x.transpose(1, -1), -1).transpose(1, -1),
        _pointwise,
    ),
    Advised(
        "pow(x, 3)",
        *(24, 80),
        lambda x: torch.pow(x, 3),
        lambda x: x * x * x,
        _pointwise,
    ),
    Advised(
        "avg_pool2d with padding",
        *(24, 56),
        lambda x: functional.avg_pool2d(x, 3, 2, padding=1),
        lambda x: functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2),
        _pointwise,
    ),
    Advised(
        "log_softmax",
        *(16, 96),
        lambda x: torch.log_softmax(x, -1),
        lambda x: torch.log(torch.softmax(x, -1)),
        _pointwise,
    ),
)


class Saving(NamedTuple):
    """What advice saved, in nanoseconds of an execution.

    Attributes:
        name: The network.
        before: The execution as written.
        predicted: What the X-ray predicted to save.
        after: The execution as advised.
        outside: Operators outside as advised.
    """

    name: str
    before: float
    predicted: float
    after: float
    outside: int

    @property
    def measured(self) -> float:
        """What it saved."""
        return self.before - self.after

    @property
    def error(self) -> float:
        """Difference of the prediction, as a part of what it saved."""
        return self.predicted / self.measured - 1 if self.measured else float("inf")


def export(network: Advised, middle: Function, path: Path) -> Path:
    """Export a network to XNNPACK."""
    torch.manual_seed(0)
    module = Convolved(network.channels, middle, network.last(network.channels)).eval()
    inputs = (torch.randn(1, 3, network.size, network.size),)
    lowered = to_edge_transform_and_lower(
        torch.export.export(module, inputs), partitioner=[XnnpackPartitioner()]
    )
    path.write_bytes(lowered.to_executorch().buffer)
    return path


def xray(model: Path, directory: Path, runs: int) -> FallbackXray:
    """Return the X-ray of a run."""
    run = harness.run(model, board=BOARD, runs=runs, output=directory)
    assert run.result.model is not None
    return measure(run.result.model.sections["fallback"], run.subject)


def saving(network: Advised, directory: Path, runs: int = RUNS, turns: int = TURNS) -> Saving:
    """Export and run a network as written and as advised, in turns."""
    models = [
        export(network, middle, directory / f"{name}.pte")
        for name, middle in (("written", network.written), ("advised", network.advised))
    ]
    found = [[xray(model, directory / model.stem, runs) for model in models] for _ in range(turns)]
    before, after = (min(row, key=lambda x: x.execution or 0.0) for row in zip(*found, strict=True))
    predicted = sum(item.saving or 0.0 for item in before.operators)
    return Saving(
        *(network.name, before.execution or 0.0, predicted),
        *(after.execution or 0.0, len(after.operators)),
    )


class Compiled(NamedTuple):
    """How a network is exported to Ethos-U.

    Attributes:
        middle: What is examined.
        size: Height and width of the input.
        target: The accelerator.
        integers: Its inputs and outputs are integers.
    """

    middle: Function
    size: int
    target: str = "ethos-u55-128"
    integers: bool = False


def _pool(size: int) -> Function:
    return lambda x: functional.avg_pool2d(x, size)


def _pool_twice(size: int) -> Function:
    return lambda x: functional.avg_pool2d(functional.avg_pool2d(x, 2), size // 2)


def _where(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0.5, x, -x)


ON_ETHOS_U = {
    "avg_pool2d by 4": (Compiled(_pool(4), 32), Compiled(_pool_twice(4), 32)),
    "avg_pool2d by 6": (Compiled(_pool(6), 48), Compiled(_pool_twice(6), 48)),
    "float32 inputs and outputs": (
        Compiled(torch.relu, 32),
        Compiled(torch.relu, 32, integers=True),
    ),
    "avg_pool2d by 4, float32 inputs and outputs": (
        Compiled(_pool(4), 48),
        Compiled(_pool_twice(4), 48, integers=True),
    ),
    "where": (Compiled(_where, 32), Compiled(_where, 32, "ethos-u85-256")),
}
"""Networks for Ethos-U, as written and as advised."""

BORDER = "integers at the border"


def compile_for_ethos_u(network: Compiled) -> FallbackXray:
    """Export a network to Ethos-U, and return its X-ray."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, network.size, network.size),)
    inputs = (inputs[0].to(memory_format=torch.channels_last),)
    spec = EthosUCompileSpec(network.target)
    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_quantization_config())
    module = Convolved(8, network.middle, _pointwise(8)).eval()
    prepared = prepare_pt2e(
        torch.export.export(module, inputs).module(check_guards=False), quantizer
    )
    prepared(*inputs)
    edge = to_edge_transform_and_lower(
        torch.export.export(convert_pt2e(prepared), inputs),
        partitioner=[EthosUPartitioner(spec)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    if network.integers:
        edge = edge.transform([QuantizeInputs(edge, [0]), QuantizeOutputs(edge, [0])])
    found = describe(harness.read_program(bytes(edge.to_executorch().buffer)).methods[0], ["*"])
    assert found is not None
    return found


def instructions_saved(written: Compiled, advised: Compiled) -> Saving:
    """Return what advice saves of the CPU's estimated instructions."""
    before, after = compile_for_ethos_u(written), compile_for_ethos_u(advised)
    borders = advised.integers
    chosen = [item for item in before.operators if borders or item.rule != BORDER]
    if written.middle is advised.middle and borders:
        chosen = [item for item in chosen if item.rule == BORDER]
    predicted = sum(item.instructions or 0 for item in chosen if item.attempt)
    sums = [sum(item.instructions or 0 for item in each.operators) for each in (before, after)]
    return Saving("", sums[0], predicted, sums[1], len(after.operators))


def table(savings: Sequence[Saving], headers: Sequence[str], unit: int) -> Iterator[str]:
    """Yield the lines of a table, with numbers in a unit."""
    yield f"| network | {' | '.join(headers)} | off by |"
    yield "|---|--:|--:|--:|--:|"
    for row in savings:
        numbers = (row.before, row.predicted, row.measured)
        cells = " | ".join(f"{value / unit:,.0f}" for value in numbers)
        yield f"| {row.name} | {cells} | {100 * row.error:+.1f} % |"


TIMES = ("execution [us]", "predicted saving [us]", "measured saving [us]")
COUNTS = ("instructions of the CPU", "predicted saving", "saving")


def main() -> None:
    """Measure all, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="only print the tables")
    options = parser.parse_args()
    counts = [instructions_saved(*pair)._replace(name=name) for name, pair in ON_ETHOS_U.items()]
    times = []
    for network in NETWORKS:
        with tempfile.TemporaryDirectory() as directory:
            times.append(saving(network, Path(directory)))
    text = PAGE.read_text()
    for where, lines in (("", table(times, TIMES, 1000)), (", Ethos-U", table(counts, COUNTS, 1))):
        begin, written = BEGIN.format(where), "\n".join(lines)
        print(written)
        middle = f"{begin}\n\n{written}\n\n{END}"
        text = re.sub(f"{begin}.*?{END}", lambda _, new=middle: new, text, flags=re.DOTALL)
    if not options.print:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
