"""A file of samples: the inputs of a model and what it should say of each.

An ``.npz`` file has arrays whose first axis is the sample: ``inputs``, and ``labels`` or
``references``. A model with several inputs has ``inputs_0``, ``inputs_1``; several outputs likewise
have ``references_0``. Arrays of integers may have a ``_scale`` and a ``_zero_point``.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final, Literal, cast, get_args
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError, did_you_mean
from harness.files import MOST_MODEL, data_directory, display_path, read_limited
from harness.link.messages import TensorInfo
from harness.printing import printable
from harness.report.words import counted
from harness.runs.device import dtype_of
from harness.runs.source import npy_array

Metric = Literal["top1", "auc"]

MOST_SAMPLES: Final = 1 << 30
"""Most bytes of all arrays of a file."""

_PARTS: Final = ("inputs", "references")
_OTHERS: Final = ("labels", "groups", "metric")
_SCALES: Final = ("_scale", "_zero_point")

_UNREADABLE: Final = (
    *(OSError, ValueError, EOFError, KeyError, BadZipFile, NotImplementedError, RuntimeError),
    *(SyntaxError, TokenError, OverflowError, MemoryError, zlib.error),
)


@dataclass(frozen=True, slots=True, eq=False)
class StoredArray:
    """One array of the file: numbers, or integers with a scale.

    Attributes:
        name: Its name in the file.
        values: One element of the first axis per sample.
        scale: What integers are multiplied by; None for numbers as they are.
        zero_point: What is subtracted from them first.
    """

    name: str
    values: npt.NDArray[Any]
    scale: float | None = None
    zero_point: int = 0

    def of(self, number: int) -> npt.NDArray[Any]:
        """Return the value of a sample; float32 if it has a scale."""
        stored = np.asarray(self.values[number])
        if self.scale is None:
            return stored
        with np.errstate(over="ignore"):
            return ((stored.astype(np.float64) - self.zero_point) * self.scale).astype(np.float32)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a sample."""
        return self.values.dtype if self.scale is None else np.dtype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class SampleFile:
    """The samples of a file.

    Attributes:
        path: The file.
        sha256: Its digest.
        count: Number of samples.
        inputs: One array per input of the model.
        references: One array per output; () without.
        labels: The class of each sample, or whether it is an anomaly; None without.
        groups: Samples of one number are one recording, for AUC; None for samples of their own.
        metric: What labels are for; None to decide by the shapes of the model.
    """

    path: Path
    sha256: str
    count: int
    inputs: tuple[StoredArray, ...]
    references: tuple[StoredArray, ...] = ()
    labels: npt.NDArray[np.int64] | None = None
    groups: npt.NDArray[np.int64] | None = None
    metric: Metric | None = None

    @property
    def name(self) -> str:
        """The file's name, as results have it."""
        return printable(self.path.name)

    def inputs_of(self, number: int, wanted: Sequence[TensorInfo]) -> list[npt.NDArray[Any]]:
        """Return the inputs of a sample in the shapes and types of the model."""
        arrays = zip(self.inputs, wanted, strict=True)
        with np.errstate(over="ignore"):  # float16 of large numbers is infinite
            return [
                _shaped(array.of(number), len(tensor.sizes)).astype(dtype_of(tensor.scalar_type))
                for array, tensor in arrays
            ]

    def references_of(
        self, number: int, outputs: Sequence[npt.NDArray[Any]]
    ) -> list[npt.NDArray[Any]]:
        """Return the references of a sample, with as many axes as the outputs have."""
        arrays = zip(self.references, outputs, strict=False)  # without references there are none
        return [_shaped(array.of(number), output.ndim) for array, output in arrays]

    def metric_for(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> Metric:
        """Return what labels are for, by the shapes of the model if the file does not say it.

        One number per sample is a score, unless it is the class itself. A reconstruction has a
        score, its error, if there are two labels. Anything else are scores of classes.
        """
        if self.metric is not None:
            return self.metric
        assert self.labels is not None
        score = score_of(inputs, outputs)
        if score == "output" and not is_class(outputs[0]):
            return "auc"
        binary = set(self.labels.tolist()) <= {0, 1}
        return "auc" if score == "reconstruction error" and binary else "top1"

    def require(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        """Check that the file fits the model, before any sample runs.

        Raises:
            UsageError: It has another number of arrays, or one has another shape or type.
        """
        for what, arrays, wanted in (
            ("inputs", self.inputs, inputs),
            ("references", self.references, outputs),
        ):
            if what == "references" and not arrays:
                continue
            if len(arrays) != len(wanted):
                kind = "input" if what == "inputs" else "output"
                raise self._error(
                    f"the model has {counted(len(wanted), kind)}, the file has "
                    f"{counted(len(arrays), 'array')} of {what}",
                    f"name them {_names(what, len(wanted))}",
                )
            for array, tensor in zip(arrays, wanted, strict=True):
                self._require_array(what, array, tensor)
        if self.labels is not None:
            self._require_labels(inputs, outputs)

    def _require_array(self, what: str, array: StoredArray, tensor: TensorInfo) -> None:
        given, dtype = array.values.shape[1:], dtype_of(tensor.scalar_type)
        typed = array.dtype == dtype or (array.scale is not None and dtype.kind == "f")
        if (typed or what == "references") and _fits(given, tensor):
            return
        most = " at most" if tensor.dynamic else ""
        hint = f"save it as {dtype}, one element of the first axis per sample"
        if array.scale is not None and dtype.kind != "f":
            hint += f", without {array.name}_scale"
        elif array.values.dtype.kind in "iu" and array.scale is None and dtype.kind == "f":
            hint += f"; for integers of another scale add {array.name}_scale"
        raise self._error(
            f"a sample of {array.name!r} must be {dtype}{list(tensor.sizes)}{most}, but it is "
            f"{array.dtype}{list(given)}",
            hint,
        )

    def _require_labels(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        assert self.labels is not None
        if not outputs:
            raise self._error("the model has no outputs", "labels are of what output 0 says")
        sizes, metric = list(outputs[0].sizes), self.metric_for(inputs, outputs)
        if metric == "auc" and not score_of(inputs, outputs):
            raise self._error(
                f"AUC needs one score per sample, but output 0 is {sizes}",
                "a score is one number, two classes, or a reconstruction of the only input",
            )
        names_class = metric == "top1" and is_class(outputs[0])
        classes = 2 if metric == "auc" else int(np.prod(sizes))
        if metric == "top1" and classes < 2 and not names_class:
            raise self._error(
                f"top1 needs a score for each class, but output 0 is {sizes}",
                "omit 'metric': AUC is for one score per sample",
            )
        wrong = np.flatnonzero((self.labels < 0) | (self.labels >= classes) & (not names_class))
        if len(wrong):
            of = "AUC needs" if metric == "auc" else f"the model's {classes} classes are"
            more = f", as are those of {len(wrong) - 1} other samples" if len(wrong) > 1 else ""
            raise self._error(
                f"label {self.labels[wrong[0]]} of sample {wrong[0]} is out of range{more}",
                "classes are numbers from 0 on"
                if names_class
                else f"{of} labels from 0 to {classes - 1}",
            )
        if metric == "auc" and len(set(self.labels.tolist())) < 2:
            raise self._error(
                f"all {self.count} samples have the label {self.labels[0]}",
                "AUC needs samples of both classes, 0 and 1",
            )

    def _error(self, message: str, hint: str) -> UsageError:
        return UsageError(f"{display_path(self.path)}: {message}", hint=hint)


def score_of(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> str:
    """Return what AUC orders samples by; "" if a model has no score.

    Two elements are two classes, also if the input has two.
    """
    first = outputs[0].sizes
    size = int(np.prod(first))
    if size in {1, 2}:
        return "output" if size == 1 else "class 1 - class 0"
    only = len(inputs) == 1 and inputs[0].sizes == first
    return "reconstruction error" if only else ""


def is_class(output: TensorInfo) -> bool:
    """Return whether an output is the number of a class, as of a model that ends in argmax."""
    dtype = dtype_of(output.scalar_type)
    return dtype.kind in "iu" and dtype.itemsize >= 4 and int(np.prod(output.sizes)) == 1


def find_samples(path: Path) -> Path:
    """Return ``path``, or the packaged file of samples if it is a bare name, such as ``kws``."""
    bare = path.suffix == "" and path.absolute().parent == Path.cwd()
    return packaged_samples().get(path.name, path) if bare and not path.exists() else path


def packaged_samples() -> dict[str, Path]:
    """Return the packaged files of samples by name."""
    folder = data_directory("firmware_stub") / "models" / "samples"
    return {path.stem: path for path in sorted(folder.glob("*.npz"))}


def read_samples(path: Path) -> SampleFile:
    """Read a file of samples.

    Raises:
        UsageError: It is missing or no such file, an array is missing or unknown, or the arrays are
            not of the same samples.
    """
    path = find_samples(path)
    name = display_path(path)
    try:
        data = read_limited(path, MOST_MODEL)
        arrays = _read_arrays(data)
    except FileNotFoundError:
        known = packaged_samples()
        raise UsageError(
            f"--dataset {name}: file not found",
            hint=f"{did_you_mean(path.name, known)}give an .npz file, or the name of one of this "
            f"package: {', '.join(known)}",
        ) from None
    except _UNREADABLE as error:
        raise UsageError(
            f"--dataset {name}: not a readable .npz file: {error}",
            hint="save it with numpy.savez_compressed(FILE, inputs=..., labels=...)",
        ) from error
    try:
        return _sample_file(path, sha256(data).hexdigest(), arrays)
    except ValueError as error:
        message, _, hint = str(error).partition("\n")
        raise UsageError(f"--dataset {name}: {message}", hint=hint) from None


def _read_arrays(data: bytes) -> dict[str, npt.NDArray[Any]]:
    with ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if (size := sum(member.file_size for member in members)) > MOST_SAMPLES:
            raise ValueError(f"its arrays have {size:,} bytes, more than {MOST_SAMPLES:,}")
        return {
            member.filename.removesuffix(".npy"): npy_array(archive.read(member))
            for member in members
        }


def _sample_file(path: Path, digest: str, arrays: Mapping[str, npt.NDArray[Any]]) -> SampleFile:
    inputs, references = (_numbered(arrays, part) for part in _PARTS)
    _require_known(arrays, [array.name for array in (*inputs, *references)])
    listed = ", ".join(map(printable, arrays)) or "none"
    if not inputs:
        raise ValueError(
            f"it has no array 'inputs' (arrays: {listed})\nname the array of inputs 'inputs', or "
            "'inputs_0', 'inputs_1' of a model with several"
        )
    if "labels" not in arrays and not references:
        raise ValueError(
            f"it has neither 'labels' nor 'references' (arrays: {listed})\nadd the class of each "
            "sample as 'labels', or its outputs as 'references'"
        )
    count = len(inputs[0].values)
    if not count:
        raise ValueError("it has no samples: 'inputs' is empty\nsave at least one sample")
    labels, groups = (_whole_numbers(arrays, name) for name in ("labels", "groups"))
    per_sample = [(array.name, array.values) for array in (*inputs, *references)]
    beside = (("labels", labels), ("groups", groups))
    per_sample += [(name, array) for name, array in beside if array is not None]
    for name, array in per_sample:
        if len(array) != count:
            raise ValueError(
                f"{inputs[0].name!r} has {count} samples, {name!r} has {len(array)}\nthe first "
                "axis of every array is the sample"
            )
    metric = str(arrays["metric"]) if "metric" in arrays else None
    _require_beside(labels, groups, metric)
    return SampleFile(
        *(path, digest, count, inputs, references, labels, groups), cast("Metric | None", metric)
    )


def _require_known(arrays: Iterable[str], used: Sequence[str]) -> None:
    known = [*used, *_PARTS, *_OTHERS, *(f"{name}{end}" for name in used for end in _SCALES)]
    for name in arrays:
        if name not in known:
            raise ValueError(
                f"unknown array {printable(name)!r}\n{did_you_mean(name, known)}arrays are "
                f"{', '.join((*_PARTS, *_OTHERS))}, and the _scale and _zero_point of an array"
            )


def _require_beside(
    labels: npt.NDArray[np.int64] | None, groups: npt.NDArray[np.int64] | None, metric: str | None
) -> None:
    if metric is not None and metric not in get_args(Metric):
        raise ValueError(f"unknown metric {printable(metric)!r}\nmetrics are top1 and auc")
    if labels is None:
        if groups is not None or metric is not None:
            raise ValueError("'groups' and 'metric' are of labels, which it lacks\nadd 'labels'")
        return
    for group in [] if groups is None else np.unique(groups).tolist():
        if len(set(labels[groups == group].tolist())) > 1:
            raise ValueError(
                f"the samples of group {group} have different labels\na group is one recording, "
                "with one label"
            )


def _numbered(arrays: Mapping[str, npt.NDArray[Any]], part: str) -> tuple[StoredArray, ...]:
    """Return the array of a part, or those with a number, as many as there are in sequence."""
    names = [part] if part in arrays else []
    while not names or names[-1] != part:
        if (name := f"{part}_{len(names)}") not in arrays:
            break
        names.append(name)
    found = []
    for name in names:
        values = arrays[name]
        if values.ndim < 1 or values.dtype.kind not in "fiub":
            raise ValueError(
                f"{name!r} is {values.dtype}{list(values.shape)}\nsave numbers, one element of the "
                "first axis per sample"
            )
        wrong = np.argwhere(np.isnan(values))[:, 0]
        if part == "references" and len(wrong):
            raise ValueError(
                f"{name!r} of sample {wrong[0]} has elements that are not numbers\n"
                "outputs have no error against them: leave such samples out"
            )
        found.append(StoredArray(name, values, *_scale_of(arrays, name)))
    return tuple(found)


def _scale_of(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> tuple[float | None, int]:
    """Return the scale and the zero point of an array; None without a scale."""
    numbers: dict[str, float] = {}
    for end in _SCALES:
        if (array := arrays.get(name + end)) is None:
            continue
        if array.size != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            text = f"{array.dtype}{list(array.shape)}" if array.size != 1 else printable(str(array))
            raise ValueError(
                f"{name}{end} must be one finite number, but it is {text}\nsave it as "
                f"numpy.{'float32' if end == '_scale' else 'int32'}(...), or omit it"
            )
        numbers[end] = float(array.reshape(()))
    scale, zero = (numbers.get(end) for end in _SCALES)
    if numbers and (scale is None or arrays[name].dtype.kind not in "iu"):
        raise ValueError(
            f"{name}_zero_point needs {name}_scale\nadd it, or omit both"
            if scale is None
            else f"{name}_scale and {name}_zero_point are for integers, but {name!r} is "
            f"{arrays[name].dtype}\nomit them"
        )
    if zero is not None and not zero.is_integer():
        raise ValueError(f"{name}_zero_point is {zero:g}\nsave a whole number")
    if scale is None:
        return None, 0
    with np.errstate(over="ignore"):
        rounded = float(np.float32(scale))
    if not 0 < rounded < np.inf:
        raise ValueError(f"{name}_scale is {scale:g}\nsave a positive number within float32")
    return rounded, int(zero or 0)


def _whole_numbers(
    arrays: Mapping[str, npt.NDArray[Any]], name: str
) -> npt.NDArray[np.int64] | None:
    if name not in arrays:
        return None
    found = arrays[name]
    if found.dtype.kind not in "iub" or found.size != (len(found) if found.ndim else -1):
        raise ValueError(
            f"{name!r} is {found.dtype}{list(found.shape)}\nsave one whole number per sample"
        )
    return found.reshape(-1).astype(np.int64)


def _names(part: str, count: int) -> str:
    if count == 1:
        return f"'{part}'"
    return f"'{part}_0' to '{part}_{count - 1}'"


def _fits(given: tuple[int, ...], tensor: TensorInfo) -> bool:
    """Return whether a sample has the shape of a tensor; leading axes of one may be left out."""
    sizes = tensor.sizes
    given = (*(1,) * (len(sizes) - len(given)), *given)
    if not tensor.dynamic or len(given) != len(sizes):
        return given == sizes
    return all(size <= bound for size, bound in zip(given, sizes, strict=True))


def _shaped(array: npt.NDArray[Any], axes: int) -> npt.NDArray[Any]:
    return array.reshape((*(1,) * (axes - array.ndim), *array.shape))
