"""Formats of other tools: drawn ones, which share a timeline, operator times, and Parquet."""
