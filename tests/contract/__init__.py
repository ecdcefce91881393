"""What users rely on: command line, public names, files, pages and devices."""

from pathlib import Path

CASES = Path(__file__).parents[1] / "fixtures/cases"
"""Input files of users' cases."""
