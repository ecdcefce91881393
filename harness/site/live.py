"""Writes the site of a running night again and again, beside the night and never in its way."""

from __future__ import annotations

import logging
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from harness.errors import UsageError
from harness.files import write_atomic
from harness.nightly.child import Children
from harness.nightly.folder import history_url
from harness.nightly.journal import Account, Ended, Journal, Record
from harness.nightly.orchestrator import Night, Prepared
from harness.records.nightly import NightDocument
from harness.records.result import encode, now_utc
from harness.report.html.environment import require_libraries
from harness.site.folder import SiteFolder
from harness.site.running import running_night
from harness.site.update import UpdateRequest

_log = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
"""Shortest pause between two updates."""

SHARE: Final = 0.1
"""The largest part of the time in which the site may be written."""

_UPDATE_S: Final = 600.0
"""Longest time for an update."""

_END_S: Final = 300.0
"""Longest wait for the last update when the night has ended."""

_REQUEST: Final = "site.json"
_LOG: Final = "site.log"


class LiveSite:
    """The site of a history, with the results of a running night as they come in.

    What happens is only noted by the threads of the night. Another thread starts a process that
    adds results to the history and writes the site. What fails there is a warning and a number.

    Attributes:
        updates: How often the site was to be written.
        failures: How often it could not be.
        reason: Why, the last time.
    """

    def __init__(self, prepared: Prepared, directory: Path) -> None:
        """Check that the site can be written, before the night begins.

        Args:
            prepared: The plan of the night.
            directory: Folder of the site.

        Raises:
            UsageError: The plan has no history, the folder is not one of a site, or a library is
                not installed.
        """
        if prepared.plan.history is None:
            raise UsageError(
                f"{prepared.document.path} has no history for the site to show",
                hint='add one to the plan: history = "results.sqlite"',
            )
        require_libraries()
        SiteFolder(directory)
        self.updates, self.failures, self.reason = 0, 0, ""
        self._prepared, self._directory = prepared, directory
        self._url = history_url(prepared.document, prepared.plan.history)
        self._name, self._times = "", ("", "")
        self._night_directory = Path()
        self._journal: Journal | None = None
        self._stored = 0
        self._changed, self._over = threading.Event(), threading.Event()
        self._document: NightDocument | None = None
        self._children = Children()
        self._thread = threading.Thread(target=self._work, name="site", daemon=True)

    def begin(self, night: Night) -> None:
        """Show a night that has been opened, and what happened in it before it was resumed."""
        self._name, self._night_directory = night.name, night.directory
        self._times = (night.began_utc, now_utc())
        self._journal = night.journal
        self._changed.set()
        self._thread.start()

    def learn(self, _record: Record) -> None:
        """Note that something happened, which the journal has; takes no time."""
        self._changed.set()

    def finish(self, document: NightDocument) -> None:
        """Show the end of the night."""
        self._document = document

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write the site a last time."""
        self._over.set()
        self._changed.set()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _work(self) -> None:
        over = False
        while not over:
            self._changed.wait()
            # Asked before the site is written, so that the last update has all.
            over = self._over.is_set()
            self._changed.clear()
            began = time.monotonic()
            self._update(over=over)
            took = time.monotonic() - began
            if not over:
                self._over.wait(max(PAUSE_S, took * (1 / SHARE - 1)))

    def _update(self, *, over: bool) -> None:
        self.updates += 1
        try:
            reason = self._write(over=over)
        except Exception as error:  # never the end of a night
            reason = str(error)
        if reason:
            self.failures, self.reason = self.failures + 1, reason
            _log.warning("the site was not written: %s", reason)

    def _write(self, *, over: bool) -> str:
        """Write the site in a process; return why that failed, or nothing."""
        assert self._journal is not None
        records = self._journal.records
        self._times = (self._times[0], now_utc())
        ended = [record.attempt for record in records if isinstance(record, Ended)]
        results = [self._night_directory / each.directory for each in ended if each.result]
        request = UpdateRequest(
            url=self._url,
            site=str(self._directory),
            directories=tuple(map(str, results[self._stored :])),
            running=running_night(
                *(self._prepared, self._name, self._times, Account(records), self._document),
                interrupted=over and self._document is None,
            ),
        )
        file = self._night_directory / _REQUEST
        write_atomic(file, encode(request))
        command = [sys.executable, "-m", "harness.site.update", str(file)]
        ending = self._children.run(command, _UPDATE_S, log=self._night_directory / _LOG)
        if ending.expired or ending.code != 0:
            return (ending.output.splitlines() or [ending.text])[-1]
        # The night adds them again at its end, which does no harm.
        self._stored = len(results)
        return ""
