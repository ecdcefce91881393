"""Reads traces with what was given beside them: clock, time scales, debug buffer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.clock.width import with_width
from harness.lab.source import Source, load_source
from harness.lab.time_scales import on_scales
from harness.report.reported import Given


def load_given(path: Path, given: Given) -> Source:
    """Read what is at ``path``, on the time scales given and those that its run recorded.

    Raises:
        UsageError: There is nothing at the path, or a time scale or the width does not fit.
        FormatError: The file is not what it should be.
    """
    source = load_source(path, given.clock, salvage=given.salvage, debug_buffer=given.debug_buffer)
    if given.clock_bits is not None:
        dumps = (
            replace(dump, trace=with_width(dump.trace, given.clock_bits)) for dump in source.dumps
        )
        source = replace(source, dumps=tuple(dumps))
    if not given.time_scales and (source.result is None or not source.result.time_scales):
        return source
    return on_scales(source, given.time_scales)
