"""Boards without a link: traces from memory, through a debug probe (docs/probes.md)."""
