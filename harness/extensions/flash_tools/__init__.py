"""Tools of chip vendors and debug probes that flash real boards (docs/flashing.md)."""
