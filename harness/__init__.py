"""Run ExecuTorch models on small targets, pull their ETDump, decode and check it."""

__version__ = "0.1.0"
