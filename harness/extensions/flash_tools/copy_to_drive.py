"""Program that copies an image to a drive: ``copy_to_drive.py IMAGE TARGET``.

A program of its own can be killed if the drive blocks. Windows has no ``cp`` and ``sync``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def copy_to_drive(image: Path, target: Path) -> None:
    """Copy the image, and wait until it is written or the drive has gone.

    Raises:
        SystemExit: It cannot be copied.
    """
    try:
        shutil.copyfile(image, target)
    except OSError as error:
        sys.exit(f"cannot copy to the drive, {target}: {error.strerror}")
    try:
        with target.open("rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        # The board takes the drive away when it has the whole file.
        if target.exists():
            sys.exit(f"cannot copy to the drive, {target}: {error.strerror}")


if __name__ == "__main__":
    copy_to_drive(Path(sys.argv[1]), Path(sys.argv[2]))
