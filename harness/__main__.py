"""``python -m harness``: the command ``etharness`` of this very installation."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it with 130 also while its modules are imported."""
    try:
        from harness.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
