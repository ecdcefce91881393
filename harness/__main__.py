"""``python -m harness``: the command ``etharness`` of this very installation."""

import sys
import traceback


def main() -> None:
    """Run the command line; Ctrl-C ends it with 130 also while its modules are imported."""
    try:
        from harness.interrupts import interrupt_behind, interrupts, settle

        with interrupts(terminate=True):
            try:
                from harness.cli import main as command
            except BaseException as error:
                if (interrupt := interrupt_behind(error)) is None:
                    traceback.print_exc()  # a broken installation
                    sys.exit(70)
                sys.exit(settle(interrupt))
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
