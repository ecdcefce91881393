"""Proves a board, stage by stage, or says what is wrong with it (docs/qualify.md)."""
