"""Firmware that links ExecuTorch itself instead of our runtime (docs/executorch.md)."""
