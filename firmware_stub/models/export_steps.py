"""Export networks with a state, and what PyTorch computes of a sequence of inputs.

pip install torch==2.13.0 executorch==1.5.1
cd firmware_stub/models
python export_steps.py DIR      # DIR/NAME.bpte: the program, and a test set for each step
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import (
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
)
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from networks import SEED
from torch import nn

Tensors = tuple[torch.Tensor, ...]


class Block(nn.Module):
    """A layer of a Llama: attention with rotary positions to cached keys and values, SwiGLU."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        size = width // heads
        self.register_buffer("frequencies", 1.0 / 100.0 ** (torch.arange(0, size, 2) / size))
        self.register_buffer("keys", torch.zeros(1, heads, length, size))
        self.register_buffer("values", torch.zeros(1, heads, length, size))

    def rotate(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        angles = position * self.frequencies
        left, right = x.unflatten(-1, (-1, 2)).unbind(-1)
        cosine, sine = angles.cos(), angles.sin()
        both = (left * cosine - right * sine, left * sine + right * cosine)
        return torch.stack(both, -1).flatten(-2)

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        split = (1, 1, self.heads, -1)
        query, key, value = (
            layer(y).reshape(split).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        self.keys[:, :, position] = self.rotate(key, position)
        self.values[:, :, position] = value
        past = (torch.arange(self.length) <= position)[None, None, None]
        query = self.rotate(query, position)
        y = F.scaled_dot_product_attention(query, self.keys, self.values, past)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder that takes one token and its position, and gives the scores of the next one."""

    def __init__(self, tokens: int = 24, width: int = 16, length: int = 12) -> None:
        super().__init__()
        self.tokens = tokens
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, 2, length) for _ in range(2))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.embedding(token)
        for block in self.blocks:
            x = block(x, position)
        return self.head(self.norm(x))

    def sequence(self) -> Iterator[Tensors]:
        """Yield the tokens of a text, each with its position."""
        for position in range(8):
            yield torch.randint(0, self.tokens, (1, 1)), torch.tensor([position])


class Stream(nn.Module):
    """A causal convolution and a GRU over frames, which keep their past and a smoothed level."""

    def __init__(self, width: int = 6, size: int = 3) -> None:
        super().__init__()
        self.conv, self.cell = nn.Conv1d(width, 8, size), nn.GRUCell(8, 10)
        self.head = nn.Linear(10, 4)
        self.register_buffer("past", torch.zeros(1, width, size - 1))
        self.register_buffer("hidden", torch.zeros(1, 10))
        self.register_buffer("level", torch.full((1,), 0.5))

    def forward(self, frame: torch.Tensor) -> Tensors:
        window = torch.cat([self.past, frame[:, :, None]], 2)
        self.past.copy_(window[:, :, 1:])
        self.level.mul_(0.9).add_(0.1 * frame.abs().mean())
        features = torch.relu(self.conv(window / self.level))[:, :, 0]
        self.hidden.copy_(self.cell(features, self.hidden))
        return self.head(self.hidden), self.level * 1.0

    def sequence(self) -> Iterator[Tensors]:
        """Yield frames of a signal."""
        for _ in range(6):
            yield (torch.randn(1, 6),)


INITIALIZED = {"llama": [], "stream": ["level"]}
"""Buffers whose first contents are in the file; others begin as zeros."""


def make(name: str) -> Llama | Stream:
    """The network with random weights, in its first state."""
    torch.manual_seed(SEED)
    return {"llama": Llama, "stream": Stream}[name]().eval().requires_grad_(False)


def export(name: str) -> ExecutorchProgramManager:
    """The network's program."""
    model = make(name)
    first = next(model.sequence())
    edge = to_edge(
        torch.export.export(model, first),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    passes = [InitializedMutableBufferPass(INITIALIZED[name])] if INITIALIZED[name] else []
    return edge.to_executorch(ExecutorchBackendConfig(passes=passes))


def bundle(name: str) -> bytes:
    """The network's program with its steps as test sets."""
    cases = [MethodTestCase(list(inputs), list(outputs)) for inputs, outputs in steps(name)]
    bundled = BundledProgram(export(name), [MethodTestSuite("forward", cases)])
    return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))


def steps(name: str) -> Iterator[tuple[Tensors, Tensors]]:
    """Yield the inputs and the outputs of each step, from the first state."""
    model = make(name)
    for inputs in list(model.sequence()):
        outputs = model(*inputs)
        yield inputs, outputs if isinstance(outputs, tuple) else (outputs,)


def main() -> None:
    """Write all bundled programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in INITIALIZED:
        (folder / f"{name}.bpte").write_bytes(bundle(name))


if __name__ == "__main__":
    main()
