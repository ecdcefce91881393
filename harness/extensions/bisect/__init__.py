"""Finds the commit that changed a measured number, or broke a run, although runs are noisy."""
