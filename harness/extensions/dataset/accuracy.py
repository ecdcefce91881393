"""How right a model is over samples: top-1 accuracy, AUC, and errors against references."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.extensions.dataset.samples import SampleFile
from harness.link.messages import TensorInfo
from harness.records.result import AccuracyRecord

_NO_CLASS: Final = -1
"""The class of outputs that are not numbers."""


@dataclass(slots=True, eq=False)
class SampleScores:
    """What a model said of the samples so far.

    Attributes:
        file: The samples.
        inputs: The model's inputs.
        outputs: Its outputs.
        ran: Numbers of the samples that ran.
        predicted: The class of each of these, for top-1.
        scores: The score of each, for AUC.
        errors: The mean absolute error of each, for references.
        failures: Samples that failed, by the reason.
        not_numbers: Number of samples with outputs that are infinite or no number.
    """

    file: SampleFile
    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    ran: list[int] = field(default_factory=list)
    predicted: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    not_numbers: int = 0
    _elements: int = 0
    _absolute: float = 0.0
    _squares: float = 0.0
    _largest: float = 0.0

    def add(
        self, number: int, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]
    ) -> None:
        """Add what the model said of one sample."""
        finite = all(np.isfinite(output).all() for output in outputs)
        self.ran.append(number)
        self.not_numbers += not finite
        if self.file.labels is not None:
            if self.file.metric_for(self.inputs, self.outputs) == "top1":
                self.predicted.append(int(outputs[0].argmax()) if finite else _NO_CLASS)
            else:
                self.scores.append(_score(inputs[0], outputs[0]))
        if self.file.references:
            shapes = [output.shape for output in outputs]
            self._add_errors(outputs, self.file.references_of(number, shapes))

    def _add_errors(
        self, outputs: Sequence[npt.NDArray[Any]], references: Sequence[npt.NDArray[Any]]
    ) -> None:
        with np.errstate(invalid="ignore"):  # inf - inf
            pairs = zip(outputs, references, strict=True)
            both = [np.abs(a.astype(np.float64) - b.astype(np.float64)).ravel() for a, b in pairs]
        found = np.concatenate(both)
        self.errors.append(float(found.mean()) if len(found) else 0.0)
        self._elements += len(found)
        self._absolute += float(found.sum())
        self._squares += float((found**2).sum())
        # max() of Python would lose what is no number.
        self._largest = float(np.max([self._largest, *found]))

    def record(self) -> AccuracyRecord:
        """Return the numbers of the samples so far; a number is None where it is unknown."""
        metrics, unknown = self._labelled()
        if self.file.references and self._elements:
            numbers = np.array([self._absolute, self._squares]) / self._elements
            found = [float(numbers[0]), float(np.sqrt(numbers[1])), self._largest]
            if np.isfinite(found).all():
                metrics |= dict(zip(("mean_error", "rms_error", "max_error"), found, strict=True))
            else:
                unknown = "outputs are not numbers, so their errors are none"
        return AccuracyRecord(
            self.file.name,
            self.file.sha256,
            self.file.count,
            len(self.ran),
            not_numbers=self.not_numbers,
            failures=self.failures,
            unknown=unknown,
            **metrics,
        )

    def _labelled(self) -> tuple[dict[str, float], str]:
        """Return the metric that labels are for, or why it is unknown."""
        if self.file.labels is None or not self.ran:
            return {}, "" if self.ran else "no sample ran"
        labels = self.file.labels[self.ran]
        if self.predicted:
            return {"top1": float(np.mean(labels == self.predicted))}, ""
        scores = np.array(self.scores)
        if not np.isfinite(scores).all():
            return {}, "outputs are not numbers, so samples have no order by their scores"
        if self.file.groups is not None:
            groups, place = np.unique(self.file.groups[self.ran], return_inverse=True)
            sizes = np.bincount(place, minlength=len(groups))
            scores = np.bincount(place, scores) / sizes
            labels = np.rint(np.bincount(place, labels) / sizes).astype(np.int64)
        if len(set(labels.tolist())) < 2:
            return {}, f"all samples that ran have the label {labels[0]}: AUC needs both classes"
        return {"auc": area_under_curve(scores, labels)}, ""

    def details(self) -> bytes:
        """Return what is known of each sample that ran, as an ``.npz`` file."""
        columns = {"predicted": self.predicted, "score": self.scores, "error": self.errors}
        known: dict[str, Any] = {name: np.array(found) for name, found in columns.items() if found}
        with io.BytesIO() as file:
            np.savez_compressed(file, sample=np.array(self.ran, np.int64), **known)
            return file.getvalue()


def _score(given: npt.NDArray[Any], output: npt.NDArray[Any]) -> float:
    """Return a number that is larger for label 1: a score, class 1 above class 0, or an error."""
    numbers = output.astype(np.float64).ravel()
    if numbers.size == 1:
        return float(numbers[0])
    if numbers.size == 2 and given.size != 2:
        return float(numbers[1] - numbers[0])
    return float(np.mean((numbers - given.astype(np.float64).ravel()) ** 2))


def area_under_curve(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> float:
    """Return the probability that a sample of label 1 scores above one of label 0; a tie is half.

    The area under the ROC curve, as the statistic of Mann and Whitney.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # ties share the mean of their ranks
    ones = int((labels == 1).sum())
    above = float(ranks[labels == 1].sum()) - ones * (ones + 1) / 2
    return above / (ones * (len(labels) - ones))
