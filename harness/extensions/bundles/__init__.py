"""Bundles: archives of runs with all inputs of their verdicts, which can be replayed."""
