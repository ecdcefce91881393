"""Distances between a value that was logged and the one it should be.

Tensors may be torch's or NumPy's. Distances are computed in float64, nan counting as 0, as
ExecuTorch's comparators do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from harness.inspector.inspector import Inspector

Handle = tuple[int, ...]
"""Debug handles of the operators behind a value."""

Mapping = dict[tuple[Handle, Any], tuple[Handle, Any]]
"""Values of the exported program, each with the one that was logged for it."""

Names = dict[Handle, list[str]]


class NumericalComparatorBase(ABC):
    """What ``calculate_numeric_gap`` measures with; subclasses give it a distance.

    Attributes:
        inspector: The Inspector that compares, set by it; for what ``preprocessing`` may need.
    """

    def __init__(self, inspector: Inspector | None = None) -> None:
        """Compare for ``inspector``."""
        self.inspector = inspector

    @abstractmethod
    def element_compare(self, a: Any, b: Any) -> float:
        """The distance of ``b``, which was logged, from ``a``, which the program computed."""

    def preprocessing(self, mapping: Mapping) -> Mapping:
        """Change values before they are compared, such as their layout; as they are by default."""
        return mapping

    def compare(self, mapping: Mapping, aot_names: Names, runtime_names: Names) -> Any:
        """A pandas DataFrame with a row per pair of values.

        Pairs without a value on one side are left out, as are several values on the program's.

        Raises:
            TypeError: ``preprocessing`` returned no mapping of pairs to pairs.
            ValueError: One side is a list and the other is not, or a shorter one.
        """
        from harness.inspector.event import pandas

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
    """Signal-to-noise ratio in decibels; infinite when nothing differs."""

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
    """``10 log10(signal / noise)``; inf without noise, nan without both."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(signal) / np.float64(noise)))


def as_floats(value: Any) -> npt.NDArray[np.float64]:
    """A number or tensor as float64, nan as 0.

    Raises:
        ValueError: It is none of these.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    try:
        return np.nan_to_num(np.asarray(value, np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{type(value).__name__} is no number and no tensor") from None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence)


def _within(handle: Handle, names: Names) -> list[str]:
    """The operators whose handles are among ``handle``."""
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
