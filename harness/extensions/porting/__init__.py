"""Begins a port for a new board."""
