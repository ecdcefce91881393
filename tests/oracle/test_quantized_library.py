"""Operators of ExecuTorch's quantized library against what it has for PyTorch to call."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, ints, oracle, ordered, seeds, shapes
from tests.support.kernels import Out, Tensor, run

torch = pytest.importorskip("torch")
PATTERNS = "executorch.exir.passes._quant_patterns_and_replacements"
pytest.importorskip(PATTERNS, reason="needs executorch")  # defines operators for PyTorch
pytest.importorskip("executorch.kernels.quantized")  # gives them outputs
pytestmark = pytest.mark.oracle
scales = st.floats(0.0078125, 2.0, width=32)


@oracle
@given(shapes(0, 3), st.data())
def test_adding(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    """Each tensor has a scale and a zero point, and sums saturate."""
    a, b = (ints(data.draw(seeds), shape, np.uint8) for _ in range(2))
    limits = st.integers(0, 255)
    sides = []
    for _ in range(3):
        low, high = sorted([data.draw(limits), data.draw(limits)])
        sides.append([data.draw(scales), data.draw(limits), low, high])
    expected = torch.zeros(shape, dtype=torch.uint8)
    arguments = [torch.from_numpy(a), *sides[0], torch.from_numpy(b), *sides[1], *sides[2]]
    torch.ops.quantized_decomposed.add.out(*arguments, out=expected)
    order = data.draw(ordered(len(shape)))
    given_ = [Tensor(a, order), *sides[0], Tensor(b, order), *sides[1], *sides[2]]
    found = run(etstub, "quantized_decomposed::add", *given_, Out(shape, np.uint8, order))
    np.testing.assert_array_equal(found, expected.numpy())


@oracle
@given(st.integers(1, 4), st.integers(1, 3), st.booleans(), st.sampled_from([2, 4]), st.data())
def test_packed_embeddings(
    etstub: ct.CDLL, rows: int, groups: int, zeros: bool, bits: int, data: st.DataObject
) -> None:
    """Rows of two or four elements per byte, with a scale and a zero point per group."""
    columns = groups * data.draw(st.sampled_from([8, 16])) * bits // 8
    table = ints(data.draw(seeds), (rows, columns), np.uint8)
    steps = np.abs(floats(data.draw(seeds), (rows, groups))) + np.float32(0.1)
    offsets = floats(data.draw(seeds), (rows, groups)) if zeros else None
    rng = np.random.default_rng(data.draw(seeds))
    indices = np.asarray(rng.integers(0, rows, data.draw(shapes(1, 2))))
    half = 2 ** (bits - 1)
    tensors = [None if x is None else torch.from_numpy(x) for x in (table, steps, offsets)]
    operator = getattr(torch.ops.quantized_decomposed, f"embedding_{bits}bit").default
    expected = operator(*tensors, -half, half - 1, torch.from_numpy(indices)).numpy()
    arguments = [table, steps, offsets, -half, half - 1, indices, Out(expected.shape)]
    name = f"quantized_decomposed::embedding_{bits}bit"
    np.testing.assert_allclose(run(etstub, name, *arguments), expected, rtol=1e-6)
