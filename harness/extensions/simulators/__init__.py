"""Simulators other than QEMU: RTL of cores under Verilator (docs/cycles.md), and commands."""
