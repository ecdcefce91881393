"""Traces made event by event."""

from harness.strategies import Event, Run, trace_of

__all__ = ["Event", "Run", "trace_of"]
