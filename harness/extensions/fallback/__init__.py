"""Operators that a delegate left to the CPU: which, why, and what they take (docs/fallback.md)."""
