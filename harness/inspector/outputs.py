"""Compares a program's outputs with their references: ``compare_results``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extras import require
from harness.inspector.comparators import MSEComparator, SNRComparator, as_floats

if TYPE_CHECKING:
    from harness.inspector.inspector import Inspector

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
        print(f"{name}\n{'-' * 20}")
        for index, value in enumerate(values):
            print(f"{index:<5}" + ("" if value is None else f"{value:>8.5f}"))
        print("\n")
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


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One output of one run, compared with its reference.

    Attributes:
        run: Index of the run in all blocks.
        output: Index of the output.
        metrics: Values by name of ``METRICS``; None for outputs that are not tensors.
    """

    run: int
    output: int
    metrics: dict[str, float | None]


def compare_runs(inspector: Inspector) -> list[OutputComparison]:
    """Compare the outputs of every run with the references of its bundled input.

    Raises:
        UsageError: No run has outputs and references.
        ValueError: The numbers or shapes of outputs differ from the reference.
    """
    found = []
    for block in inspector.event_blocks:
        if block.reference_output is None:
            continue
        for run, outputs in zip(block.runs, block.run_outputs or (), strict=True):
            measured = measure_outputs(block.reference_output, outputs)
            found += [
                OutputComparison(run, number, {name: of[number] for name, of in measured.items()})
                for number in range(len(outputs))
            ]
    if not found:
        raise UsageError(
            "no run has both outputs and references",
            hint="give an ETRecord with reference outputs; if the file does not record the test "
            "case, select it with --bundled-input",
        )
    return found
