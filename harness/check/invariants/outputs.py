"""Compares outputs with their references (I11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.check.subject import ModelOutput, Subject
from harness.records.verdict import Check, check

TOLERANCES: Final = {2: 1e-2, 4: 1e-4, 8: 1e-9}
"""Tolerance for floating-point elements, relative plus absolute, by size of the type in bytes.

Kernels sum in another order than the reference. For float32, 1,000 products give up to 1,000
roundings of 6e-8. Half-precision types are mostly summed in a wider type and rounded once, so 20
roundings of 5e-4. For float64 the differences between math libraries dominate."""


def output_checks(subject: Subject) -> Iterator[Check]:
    """Compare every output that has a reference with it."""
    for output in subject.outputs:
        differing, reason = compare_output(output)
        yield check(
            "I11",
            rule="outputs match their references",
            subject=output.name,
            measured=None if differing is None else float(differing),
            limit=0.0,
            unit="elements",
            passed=differing == 0,
            reason=reason,
        )


def compare_output(output: ModelOutput) -> tuple[int | None, str]:
    """Return how many elements differ, None if not comparable, and the reason of the check."""
    value, reference = output.value, output.reference
    if value.dtype != reference.dtype or value.shape != reference.shape:
        return None, f"the output is {_kind(value)}, the reference is {_kind(reference)}"
    if not value.size:
        return 0, "both are empty"
    rtol, atol = _tolerances(output)
    off = _differences(value, reference)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = atol + rtol * np.abs(reference.astype(np.float64))
    allowed = np.where(np.isfinite(allowed), allowed, 0.0)
    differs = off > allowed
    count = int(np.count_nonzero(differs))
    within = f"rtol {rtol:g}, atol {atol:g}" if rtol or atol else "exactly"
    if not count:
        return 0, f"all {value.size:,} elements match ({within}); largest error {off.max():.3g}"
    first = int(np.argmax(differs.ravel()))
    worst = int(np.argmax(np.where(differs, off, -1.0).ravel()))
    return count, (
        f"{count:,} of {value.size:,} elements differ ({within}): first "
        f"{_element(output, first)}; worst {_element(output, worst)}, "
        f"error {off.ravel()[worst]:.6g}, allowed {allowed.ravel()[worst]:.3g}"
    )


def _tolerances(output: ModelOutput) -> tuple[float, float]:
    """Return relative and absolute tolerance: as given, or the default for the type."""
    dtype = output.value.dtype
    usual = TOLERANCES.get(dtype.itemsize, 0.0) if dtype.kind == "f" else 0.0
    rtol = usual if output.rtol is None else output.rtol
    return rtol, usual if output.atol is None else output.atol


def _differences(value: npt.NDArray[Any], reference: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return absolute differences; NaN equals NaN and is infinitely far from any number."""
    if value.dtype.kind == "f":
        same = (value == reference) | (np.isnan(value) & np.isnan(reference))
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(value.astype(np.float64) - reference.astype(np.float64))
        return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
    larger, smaller = np.maximum(value, reference), np.minimum(value, reference)
    # Modular arithmetic is exact for integers of any width and sign. NumPy converts arrays without
    # dimensions to scalars, and warns when those overflow.
    with np.errstate(over="ignore"):
        apart = larger.astype(np.uint64) - smaller.astype(np.uint64)
    return np.asarray(apart.astype(np.float64))


def _element(output: ModelOutput, place: int) -> str:
    index = [int(number) for number in np.unravel_index(place, output.value.shape)]
    value, reference = output.value.ravel()[place], output.reference.ravel()[place]
    return f"{index}: {value}, expected {reference}"


def _kind(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"
