"""Distances between a logged value and its reference, and ``compare_results``.

Tensors may be of torch or NumPy. Distances are computed in float64 with NaN as 0, as in
ExecuTorch's comparators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.plugins import require
from harness.printing import print_text

if TYPE_CHECKING:
    from harness.inspector.inspector import Inspector
    from harness.report.traces import OutputDocument


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


Floats = npt.NDArray[np.float64]


def _cosine(reference: Floats, value: Floats) -> float:
    lengths = np.sqrt((reference**2).sum()) * np.sqrt((value**2).sum())
    with np.errstate(invalid="ignore"):
        return float(np.float64((reference * value).sum()) / lengths)


METRICS: Final[dict[str, Callable[[Floats, Floats], float]]] = {
    "snr": SNRComparator().element_compare,
    "mse": MSEComparator().element_compare,
    "cosine_similarity": _cosine,
}
"""Signal-to-noise ratio in decibels, mean of squared differences, cosine of the angle between."""


def compare_results(
    reference_output: Sequence[Any],
    run_output: Sequence[Any],
    metrics: Sequence[str] | None = None,
    plot: bool = False,
) -> dict[str, list[float | None]]:
    """Compare a program's outputs with their references one by one, and print the result.

    Args:
        reference_output: Expected outputs.
        run_output: Actual outputs.
        metrics: Names from ``METRICS``; all by default.
        plot: Draw a bar chart per metric instead of printing: ``METRIC_output_plot.png`` in the
            current directory, which is also shown. Needs matplotlib.

    Returns:
        Per metric, the value for each pair of outputs; None for outputs that are not tensors.

    Raises:
        ValueError: The numbers of outputs or their shapes differ.
        UsageError: matplotlib is not installed.
    """
    found = measure_outputs(reference_output, run_output, metrics)
    for name, values in found.items():
        if plot:
            _plot(name, values)
            continue
        print_text(f"{name}\n{'-' * 20}")
        for index, value in enumerate(values):
            print_text(f"{index:<5}" + ("" if value is None else f"{value:>8.5f}"))
        print_text("\n")
    return found


def _plot(name: str, values: Sequence[float | None]) -> None:
    (pyplot,) = require("plot", "a plot of compared outputs", "matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 6))
    # An output that is not a tensor has no bar, and infinity cannot be drawn.
    drawn = [(n, v) for n, v in enumerate(values) if v is not None and np.isfinite(v)]
    axes.bar_label(axes.bar([number for number, _ in drawn], [value for _, value in drawn]))
    axes.set_xticks(range(len(values)))
    axes.set(title=f"Metric {name}", xlabel="Output value index", ylabel=name)
    if name == "cosine_similarity":
        axes.set_ylim(min(0.0, *(value for _, value in drawn), 0.0), 1.0)
    figure.savefig(f"{name}_output_plot.png")
    pyplot.show()
    pyplot.close(figure)


def measure_outputs(
    reference_output: Sequence[Any], run_output: Sequence[Any], metrics: Sequence[str] | None = None
) -> dict[str, list[float | None]]:
    """Return the result of ``compare_results`` without printing it.

    Raises:
        ValueError: The numbers of outputs or their shapes differ.
    """
    if len(reference_output) != len(run_output):
        raise ValueError(
            f"the run returned {len(run_output)} outputs, the reference has {len(reference_output)}"
        )
    pairs = list(zip(reference_output, run_output, strict=True))
    return {
        name: [_measured(metric, reference, value) for reference, value in pairs]
        for name, metric in METRICS.items()
        if metrics is None or name in metrics
    }


def _measured(
    metric: Callable[[Floats, Floats], float], reference: Any, value: Any
) -> float | None:
    if not (hasattr(reference, "shape") and hasattr(value, "shape")):
        return None
    if tuple(reference.shape) != tuple(value.shape):
        raise ValueError(
            f"an output has the shape {tuple(value.shape)}, the reference {tuple(reference.shape)}"
        )
    return metric(as_floats(reference), as_floats(value))


def compare_runs(inspector: Inspector) -> list[OutputDocument]:
    """Compare the outputs of every run with the references of its bundled input.

    Raises:
        UsageError: No run has outputs and references.
        ValueError: The numbers or shapes of outputs differ from the reference.
    """
    from harness.report.traces import OutputDocument

    found = []
    for block in inspector.event_blocks:
        if block.reference_output is None:
            continue
        for run, outputs in zip(block.runs, block.run_outputs or (), strict=True):
            measured = measure_outputs(block.reference_output, outputs)
            found += [
                OutputDocument(run, number, {name: of[number] for name, of in measured.items()})
                for number in range(len(outputs))
            ]
    if not found:
        raise UsageError(
            "no run has both outputs and references",
            hint="give an ETRecord with reference outputs; if the file does not record the test "
            "case, select it with --bundled-input",
        )
    return found
