"""Checks that every sound trace passes, whatever ran; one module per theme."""
