"""Runs all samples of ``--dataset`` on a board, after the executions that the log has.

The log, and so all times, are of the first sample that the device does not refuse, ``--runs``
times. Then each sample executes once with its inputs uploaded and its outputs read, in the same
session and without a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.errors import DeviceRefusedError, HarnessError, UsageError
from harness.extensions.dataset.accuracy import SampleScores
from harness.extensions.dataset.samples import SampleFile, read_samples
from harness.interrupts import heed, interrupts
from harness.link.messages import PROFILES, VALUES, ModelInfo, RunOptions
from harness.link.wire import Region
from harness.printing import printable
from harness.records.result import AccuracyRecord
from harness.report.words import ReportTable, counted
from harness.runs.device import CANCEL_S, declared_tensors, tensor_from_bytes, tensor_to_bytes
from harness.runs.directory import SAMPLES

if TYPE_CHECKING:
    import numpy as np

    from harness.check.subject import Subject
    from harness.decode.pte import ModelFile
    from harness.flash.plan import Stages
    from harness.link.session import Session
    from harness.runs.directory import RunDirectory
    from harness.runs.request import RunRequest

_UNLOGGED: Final = RunOptions(debug_level=VALUES["none"], profiling_level=PROFILES["method"])


@dataclass(slots=True)
class DatasetRun:
    """The samples of a run, as its steps see them.

    Attributes:
        file: The samples.
        first: Number of the sample that the log is of.
    """

    file: SampleFile
    first: int = 0

    def inputs(self, loaded: ModelInfo) -> list[np.ndarray]:
        """Return the inputs of the executions that are logged.

        Raises:
            UsageError: The samples do not fit, as those of another model than that of the request.
        """
        self.file.require(loaded.inputs, loaded.outputs)
        return self.file.inputs_of(self.first, loaded.inputs)

    def skip(
        self,
        error: DeviceRefusedError,
        session: Session,
        loaded: ModelInfo,
        timeout_s: float,
        stages: Stages,
        record: Callable[[AccuracyRecord], None],
    ) -> None:
        """Choose the first sample that the device does not refuse for the log.

        Args:
            error: The refusal of the chosen sample with a log.
            session: The session with the loaded model.
            loaded: The model as the device describes it.
            timeout_s: Longest wait for one execution, seconds.
            stages: Called to report progress.
            record: Called with the result if all samples are refused.

        Raises:
            HarnessError: ``error``, if the reason is not the sample, or there is no other; or the
                link failed, or the device restarted or hangs.
        """
        scores = SampleScores(self.file, loaded.inputs, loaded.outputs)
        for number in range(self.first, self.file.count):
            try:
                self._execute(session, loaded, number, timeout_s, stages)
            except DeviceRefusedError as refusal:
                scores.fail(refusal.message)
            else:
                if number == self.first:
                    raise error
                self.first = number
                return
        record(scores.record())
        error.message = f"all {counted(self.file.count, 'sample')} failed: {error.message}"
        raise error

    def run(
        self,
        session: Session,
        loaded: ModelInfo,
        timeout_s: float,
        stages: Stages,
        record: Callable[[AccuracyRecord], None],
        directory: RunDirectory,
    ) -> None:
        """Run all samples, and record how right the model is, also of a part of them.

        A sample that the device refuses, such as one on which a kernel fails, is counted, and the
        next one runs.

        Args:
            session: The session with the loaded model.
            loaded: The model as the device describes it.
            timeout_s: Longest wait for one execution, seconds.
            stages: Called to report progress.
            record: Called with the result.
            directory: The run directory.

        Raises:
            HarnessError: The link failed, or the device restarted or hangs; the message says at
                which sample.
        """
        scores = SampleScores(self.file, loaded.inputs, loaded.outputs)
        try:
            for number in range(self.file.count):
                try:
                    scores.add(number, *self._execute(session, loaded, number, timeout_s, stages))
                except DeviceRefusedError as error:
                    scores.fail(error.message)
            stages("samples", self.file.count, self.file.count)
        finally:
            record(scores.record())
            directory.write(SAMPLES, scores.details())

    def _execute(
        self, session: Session, loaded: ModelInfo, number: int, timeout_s: float, stages: Stages
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Execute a sample, and return its inputs and outputs."""
        inputs, outputs = self.file.inputs_of(number, loaded.inputs), []
        try:
            heed()
            stages("samples", number, self.file.count)
            for index, (array, tensor) in enumerate(zip(inputs, loaded.inputs, strict=True)):
                sizes = array.shape if tensor.dynamic else ()
                session.set_input(index, tensor_to_bytes(array, tensor), sizes=sizes)
            with interrupts(terminate=False):
                session.run(1, _UNLOGGED, timeout_s=timeout_s)
            for index, declared in enumerate(loaded.outputs):
                tensor = session.output_info(index, declared)
                data = session.read(Region.OUTPUT, index, most=declared.nbytes)
                outputs.append(tensor_from_bytes(data, tensor))
        except KeyboardInterrupt as interrupt:
            if session.is_running:
                session.cancel(CANCEL_S)
            done = f"{number:,} of {counted(self.file.count, 'sample')} completed"
            raise type(interrupt)(done) from None
        except HarnessError as error:
            if not isinstance(error, DeviceRefusedError):
                error.message = f"sample {number} of {self.file.count}: {error.message}"
            raise
        return inputs, outputs


def read_dataset(request: RunRequest, model: ModelFile) -> DatasetRun:
    """Read the samples of a request, and check that they fit its model.

    Raises:
        UsageError: They do not, the file is wrong, or the request has inputs of its own.
    """
    assert request.dataset is not None
    if request.inputs or request.references:
        raise UsageError(
            "--dataset has the inputs and what the model should say of them",
            hint="omit --input and --reference, or give these without --dataset",
        )
    if request.steps is not None or request.state != "auto":
        raise UsageError(
            "--dataset cannot be combined with --steps or --state",
            hint="each sample begins with the initial contents of the model's own buffers",
        )
    file = read_samples(request.dataset)
    method = model.method(request.method_name)
    if method is not None:  # else the run says that there is none
        inputs, outputs = (
            declared_tensors(method, numbers) for numbers in (method.inputs, method.outputs)
        )
        if inputs is not None and outputs is not None:  # else the device refuses the model
            file.require(inputs, outputs)
    return DatasetRun(file)


def measure(_found: Any, subject: Subject) -> AccuracyRecord | None:
    """Return the accuracy of a run, for reports."""
    return subject.accuracy


def tables(record: AccuracyRecord) -> Iterator[ReportTable]:
    """Yield the table of reports."""
    ran = record.ran if record.ran == record.samples else f"{record.ran:,} of {record.samples:,}"
    rows = [[name, text, f"{ran} samples"] for name, text in _values(record)]
    notes = [f"accuracy: data set {record.file}, SHA-256 {record.sha256[:12]}"]
    notes += [f"accuracy: unknown: {record.unknown}"] if record.unknown else []
    notes += [f"accuracy: AUC by {record.score}"] if record.score else []
    if record.not_numbers:
        samples = counted(record.not_numbers, "sample")
        notes.append(f"accuracy: outputs of {samples} are infinite or not numbers")
    for why, count in record.failures.items():
        notes.append(f"accuracy: {counted(count, 'sample')} failed: {printable(why)}")
    yield ReportTable("Accuracy", ["metric", "value", "of"], rows, (1,), notes)


def _values(record: AccuracyRecord) -> Iterator[tuple[str, str]]:
    if record.top1 is not None:
        yield "top-1", f"{record.top1:.2%}"
    if record.auc is not None:
        yield "AUC", f"{record.auc:.4f}"
    for name in ("mean_error", "rms_error", "max_error"):
        if (value := getattr(record, name)) is not None:
            yield name.replace("_", " "), f"{value:.4g}"
