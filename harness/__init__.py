"""Run ExecuTorch models on small targets, pull their ETDump, decode it on a correct clock, check it."""

__version__ = "0.1.0"
