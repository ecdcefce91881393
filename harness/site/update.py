"""Updates the site of a running night, in a process of its own: ``python -m harness.site.update``.

The night shares neither memory nor the interpreter's lock with it, so nothing that happens here
can end the night or slow it down.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from harness.errors import HarnessError
from harness.history import open_store
from harness.nightly.folder import add_results
from harness.records.decode_json import decode_json
from harness.site.running import RunningNight
from harness.site.writer import SiteOptions, write_site

_NICE = 10


class UpdateRequest(msgspec.Struct, frozen=True):
    """What to do.

    Attributes:
        url: The history.
        site: Folder of the site.
        directories: Run directories to add to the history first.
        running: The night.
    """

    url: str
    site: str
    directories: tuple[str, ...]
    running: RunningNight


def update(request: UpdateRequest) -> None:
    """Add results to the history and write the site.

    Raises:
        HarnessError: The history or the site cannot be written.
    """
    # Those that the history refuses are reported by the night at its end.
    add_results(request.url, [Path(directory) for directory in request.directories])
    with open_store(request.url) as store:
        write_site(store, Path(request.site), SiteOptions(running=request.running))


def main(file: str) -> int:
    """Do what a file says; return the exit code."""
    if sys.platform != "win32":
        os.nice(_NICE)
    try:
        update(decode_json(Path(file).read_bytes(), type_=UpdateRequest))
    except HarnessError as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
