"""Boards of RTL: cores whose source code Verilator simulates (docs/cycles.md)."""
