"""Formats that other tools read, but for the most used ones (``harness.export``)."""
