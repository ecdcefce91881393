"""Pulls the trace of a device's last run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.decode.device_log import join_debug_buffers, split_chunk, without_repeated
from harness.errors import DeviceRefusedError, PartialReadError
from harness.link.exchange import Progress
from harness.link.session import Session
from harness.link.values import TargetInfo
from harness.link.wire import Region, Status
from harness.records.result import TraceSummary
from harness.records.trace import Trace
from harness.runs.device_data import save_trace
from harness.runs.directory import PARTIAL, RunDirectory


def pull_trace(
    session: Session,
    info: TargetInfo,
    directory: RunDirectory,
    progress: Progress = lambda *_: None,
    chunks: Sequence[bytes] = (),
    amend: Callable[[bytes], bytes] = lambda image: image,
) -> tuple[Trace, TraceSummary]:
    """Pull the trace of the last run, and save it as ``save_trace`` does.

    ``chunks`` are the parts of a device log streamed during the run, each followed by its debug
    buffer. ``amend`` may change the log before it is saved.

    Raises:
        FormatError: The log is inconsistent; its raw bytes are saved in any case.
    """
    image, buffer = read_log_image(session, directory, progress, chunks)
    return save_trace(amend(image), buffer, info.clocks, directory)


def read_log_image(
    session: Session,
    directory: RunDirectory,
    progress: Progress = lambda *_: None,
    chunks: Sequence[bytes] = (),
) -> tuple[bytes, bytes]:
    """Read the whole log of the last run and its debug buffer; save what arrived if that fails."""
    try:
        last = session.read(Region.TRACE, progress=progress)
    except PartialReadError as error:
        directory.write(PARTIAL, b"".join(split_chunk(c)[0] for c in chunks) + error.data)
        raise
    if chunks:
        chunks = without_repeated(chunks, last)
    pieces = [split_chunk(chunk) for chunk in chunks]
    buffer = join_debug_buffers([*(debug for _, debug in pieces), read_debug_buffer(session)])
    return b"".join(log for log, _ in pieces) + last, buffer


def read_debug_buffer(session: Session) -> bytes:
    """Read the bytes of logged tensors; empty if the device has no debug buffer."""
    if not session.may_have_values:
        return b""
    try:
        return session.read(Region.TRACE, 1)
    except DeviceRefusedError as error:
        if error.status != Status.BAD_REGION:
            raise
        return b""
