"""``python -m harness``: the command ``etharness`` of this very installation."""

from harness.cli import main

main()
