"""How right a model is over samples: top-1 accuracy, AUC, and errors against references."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.extensions.dataset.samples import SampleFile, is_class, score_of
from harness.link.messages import TensorInfo
from harness.records.result import ACCURACY_METRICS, AccuracyRecord

_ERRORS: Final = ACCURACY_METRICS[2:]
"""Metrics of references."""

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
        """Add what the model said of one sample; a failure if its outputs have another shape."""
        references = self.file.references_of(number, outputs)
        if reason := self._unfit(inputs, outputs, references):
            self.fail(reason)
            return
        finite = all(np.isfinite(output).all() for output in outputs)
        self.ran.append(number)
        self.not_numbers += not finite
        if self._metric == "auc":
            self.scores.append(_score(self._score_is, inputs[0], outputs[0]))
        elif self._metric == "top1":
            first = outputs[0].ravel()
            chosen = first[0] if is_class(self.outputs[0]) else first.argmax()
            # -inf is the score of a class that is masked.
            self.predicted.append(int(chosen) if np.isfinite(first.max()) else _NO_CLASS)
        if references:
            self._add_errors(outputs, references)

    def fail(self, reason: str) -> None:
        """Count a sample that failed."""
        self.failures[reason] = self.failures.get(reason, 0) + 1

    @property
    def _metric(self) -> str:
        """What labels are for; "" without."""
        return "" if self.file.labels is None else self.file.metric_for(self.inputs, self.outputs)

    @property
    def _score_is(self) -> str:
        """What AUC orders samples by; "" without."""
        return score_of(self.inputs, self.outputs) if self._metric == "auc" else ""

    def _unfit(
        self,
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[npt.NDArray[Any]],
        references: Sequence[npt.NDArray[Any]],
    ) -> str:
        """Return why outputs cannot be compared or scored; their sizes may be dynamic."""
        for number, (output, reference) in enumerate(zip(outputs, references, strict=False)):
            if output.shape != reference.shape:
                shapes = f"{list(output.shape)}, its reference {list(reference.shape)}"
                return f"output {number} is {shapes}"
        if not self._metric:
            return ""
        size, what = outputs[0].size, "class" if self._metric == "top1" else "score"
        wanted = {"output": 1, "class 1 - class 0": 2}.get(self._score_is, inputs[0].size)
        if size and (what == "class" or size == wanted):
            return ""
        return f"output 0 is {list(outputs[0].shape)}, which is no {what}"

    def _add_errors(
        self, outputs: Sequence[npt.NDArray[Any]], references: Sequence[npt.NDArray[Any]]
    ) -> None:
        pairs = zip(outputs, references, strict=True)
        found = np.concatenate([_differences(output.ravel(), b.ravel()) for output, b in pairs])
        self.errors.append(float(found.mean()) if len(found) else 0.0)
        self._elements += len(found)
        self._absolute += float(found.sum())
        self._squares += float((found**2).sum())
        # max() of Python would lose what is no number.
        self._largest = float(np.max([self._largest, *found]))

    def record(self) -> AccuracyRecord:
        """Return the numbers of the samples so far; a number is None where it is unknown."""
        metrics, unknown = self._labelled()
        lost = [self._metric] if unknown and self.ran else []
        if self.file.references and self._elements:
            numbers = np.array([self._absolute, self._squares]) / self._elements
            found = [float(numbers[0]), float(np.sqrt(numbers[1])), self._largest]
            if np.isfinite(found).all():
                metrics |= dict(zip(_ERRORS, found, strict=True))
            else:
                unknown = "outputs are not numbers, so their errors are none"
                lost += _ERRORS
        return AccuracyRecord(
            self.file.name,
            self.file.sha256,
            self.file.count,
            len(self.ran),
            score=self._score_is,
            not_numbers=self.not_numbers,
            failures=self.failures,
            unknown=unknown,
            unknown_metrics=tuple(lost),
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


def _differences(output: npt.NDArray[Any], reference: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return how far elements are apart; those that are equal, such as -inf of both, are not."""
    first, second = output.astype(np.float64), reference.astype(np.float64)
    with np.errstate(invalid="ignore"):  # inf - inf
        apart: npt.NDArray[np.float64] = np.abs(first - second)
    apart[first == second] = 0
    return apart


def _score(score: str, given: npt.NDArray[Any], output: npt.NDArray[Any]) -> float:
    """Return a number that is larger for label 1."""
    numbers = output.astype(np.float64).ravel()
    if score == "output":
        return float(numbers[0])
    if score == "class 1 - class 0":
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
