"""Traces made event by event."""

from harness.strategies import EventSpec, RunSpec, trace_of

__all__ = ["EventSpec", "RunSpec", "trace_of"]
