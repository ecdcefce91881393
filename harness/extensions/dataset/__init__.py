"""Accuracy of a model on a board, over all samples of a file (``docs/accuracy.md``)."""
