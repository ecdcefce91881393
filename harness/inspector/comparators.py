"""Distances between a logged value and its reference.

Tensors may be of torch or NumPy. Distances are computed in float64 with NaN as 0, as in
ExecuTorch's comparators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from harness.inspector.inspector import Inspector

DebugHandle = tuple[int, ...]
"""Debug handles of the operators of a value."""

IntermediateOutputMapping = dict[tuple[DebugHandle, Any], tuple[DebugHandle, Any]]
"""Values of the exported program, each with its logged value."""

Names = dict[DebugHandle, list[str]]


class NumericalComparatorBase(ABC):
    """Base class of the distances of ``calculate_numeric_gap``.

    Attributes:
        inspector: The Inspector that compares, set by it; for use in ``preprocessing``.
    """

    def __init__(self, inspector: Inspector | None = None) -> None:
        """Compare for ``inspector``."""
        self.inspector = inspector

    @abstractmethod
    def element_compare(self, a: Any, b: Any) -> float:
        """Return the distance of the logged value ``b`` from the computed value ``a``."""

    def preprocessing(self, mapping: IntermediateOutputMapping) -> IntermediateOutputMapping:
        """Convert values before the comparison, such as their layout; unchanged by default."""
        return mapping

    def compare(
        self, mapping: IntermediateOutputMapping, aot_names: Names, runtime_names: Names
    ) -> Any:
        """Return a pandas DataFrame with a row per pair of values.

        Pairs without a value on one side, or with several values of the program, are left out.

        Raises:
            TypeError: ``preprocessing`` did not return a mapping of pairs to pairs.
            ValueError: Only one side is a list, or the lists have different lengths.
        """
        from harness.inspector.table import pandas

        processed = self.preprocessing(mapping)
        _check(processed)
        rows = []
        for (aot_handle, aot), (runtime_handle, runtime) in processed.items():
            if aot is None or runtime is None or (_is_list(aot) and len(aot) > 1):
                continue
            rows.append(
                {
                    "aot_debug_handle": aot_handle,
                    "aot_ops": _within(aot_handle, aot_names),
                    "aot_intermediate_output": aot,
                    "runtime_ops": _within(runtime_handle, runtime_names),
                    "runtime_debug_handle": runtime_handle,
                    "runtime_intermediate_output": runtime,
                    "gap": self._gaps(aot, runtime),
                }
            )
        return pandas().DataFrame(rows)

    def _gaps(self, aot: Any, runtime: Any) -> list[float]:
        if _is_list(aot) != _is_list(runtime):
            raise ValueError("a list of values cannot be compared with one value")
        if not _is_list(aot):
            return [self.element_compare(aot, runtime)]
        if len(aot) != len(runtime):
            raise ValueError(f"{len(runtime)} values were logged, the program has {len(aot)}")
        return [self.element_compare(a, b) for a, b in zip(aot, runtime, strict=True)]


class MSEComparator(NumericalComparatorBase):
    """Mean of squared differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """The mean over all elements."""
        return float(np.mean(np.square(as_floats(a) - as_floats(b))))


class L1Comparator(NumericalComparatorBase):
    """Sum of absolute differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """The sum over all elements."""
        return float(np.abs(as_floats(a) - as_floats(b)).sum())


class SNRComparator(NumericalComparatorBase):
    """Signal-to-noise ratio in decibels; infinite for equal values."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Ten times the decimal logarithm of the ratio of mean squares."""
        signal, logged = as_floats(a), as_floats(b)
        return ratio_in_decibels(np.mean(np.square(signal)), np.mean(np.square(signal - logged)))


COMPARATORS: Final[dict[str, type[NumericalComparatorBase]]] = {
    "MSE": MSEComparator,
    "L1": L1Comparator,
    "SNR": SNRComparator,
}


def ratio_in_decibels(signal: Any, noise: Any) -> float:
    """Return ``10 log10(signal / noise)``; inf without noise, NaN without both."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(signal) / np.float64(noise)))


def as_floats(value: Any) -> npt.NDArray[np.float64]:
    """Return a number or tensor as float64, with NaN as 0.

    Raises:
        ValueError: The value is neither a number nor a tensor.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    try:
        return np.nan_to_num(np.asarray(value, np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{type(value).__name__} is neither a number nor a tensor") from None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence)


def _within(handle: DebugHandle, names: Names) -> list[str]:
    """Return the operators with all handles in ``handle``."""
    return [name for key, found in names.items() if {*key} <= {*handle} for name in found]


def _check(mapping: Any) -> None:
    if not isinstance(mapping, dict):
        raise TypeError(f"preprocessing() returned {type(mapping).__name__}, not a dict")
    for pair in (side for item in mapping.items() for side in item):
        if (
            not isinstance(pair, tuple)
            or len(pair) != 2
            or not isinstance(pair[0], tuple)
            or not all(isinstance(handle, int) for handle in pair[0])
        ):
            raise ValueError(f"preprocessing() must map (debug handles, value) pairs, not {pair!r}")
