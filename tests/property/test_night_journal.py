"""The journal of a night: what was written is read again, whatever was cut off or changed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import BusyError, FormatError
from harness.extensions.lab.nightly.journal import (
    Began,
    Finished,
    Journal,
    JournalError,
    Record,
    Resumed,
    encoded,
    read_journal,
)

JOURNAL = "journal.jsonl"

TEXTS = st.text(max_size=20)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(Began, TEXTS, TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=2)),
    st.builds(Resumed, TEXTS, st.integers(0, 9)),
    st.builds(Finished, TEXTS, st.integers(0, 255)),
)
JOURNALS = st.lists(RECORDS, max_size=6)


def written(folder: Path, records: list[Record]) -> Path:
    with Journal.open(folder) as journal:
        for record in records:
            journal.add(record)
    return folder / JOURNAL


@settings(max_examples=25)  # each line waits for the disk
@given(JOURNALS, JOURNALS)
def test_what_was_written_is_read_again(first: list[Record], second: list[Record]) -> None:
    with TemporaryDirectory() as name:
        written(Path(name), first)
        with Journal.open(Path(name)) as journal:
            assert journal.records == first
            for record in second:
                journal.add(record)
        assert read_journal(Path(name) / JOURNAL)[0] == first + second


@pytest.mark.attack(
    "Nights and history",
    "a journal truncated anywhere",
    "the nightly run continues where it stopped",
)
@settings(max_examples=50)
@given(JOURNALS, st.data())
def test_a_journal_that_was_cut_off_goes_on(records: list[Record], data: st.DataObject) -> None:
    lines = [encoded(record) for record in records]
    whole = b"".join(lines)
    kept = data.draw(st.integers(0, len(whole)))
    with TemporaryDirectory() as name:
        file = Path(name) / JOURNAL
        file.write_bytes(whole[:kept])
        with Journal.open(Path(name)) as journal:
            count = len(journal.records)
            assert journal.records == records[:count]
            assert len(b"".join(lines[:count])) + journal.dropped == kept
            assert journal.dropped < len([*lines, b"."][count])
            journal.add(Finished("now", 0))
        assert read_journal(file)[0] == [*records[:count], Finished("now", 0)]


@given(st.lists(RECORDS, min_size=1, max_size=6), st.data())
def test_no_changed_byte_is_taken_for_a_record(records: list[Record], data: st.DataObject) -> None:
    whole = bytearray(b"".join(map(encoded, records)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with TemporaryDirectory() as name:
        file = Path(name) / JOURNAL
        file.write_bytes(whole)
        try:
            found, sound = read_journal(file)
        except FormatError:
            pass  # a line in the middle: it says which
        else:
            assert found == records[: len(found)]
            assert len(found) < len(records)
            assert sound < len(whole)


def test_only_one_process_writes(tmp_path: Path) -> None:
    with Journal.open(tmp_path), pytest.raises(BusyError, match="another process"):
        Journal.open(tmp_path)
    Journal.open(tmp_path).close()


@pytest.mark.attack(
    "Nights and history", "a full disk while the journal is written", "no partial line is left"
)
def test_a_full_disk_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def some(descriptor: int, data: bytes) -> int:
        if len(data) > 20:
            return real(descriptor, bytes(data)[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal.open(tmp_path) as journal:
        journal.add(Finished("a", 0))
        monkeypatch.setattr(os, "write", some)
        with pytest.raises(JournalError, match="No space left"):
            journal.add(Finished("b", 0))
        monkeypatch.undo()
        with pytest.raises(JournalError, match="No space left"):  # what relied on it is not known
            journal.add(Finished("c", 0))
    with Journal.open(tmp_path) as journal:
        assert journal.records == [Finished("a", 0)]
        assert journal.dropped == 0
