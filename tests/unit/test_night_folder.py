"""Which night goes on: whatever the clock says, and whatever others there are."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.extensions.lab.nightly.journal import (
    Finished,
    documents,
    nights,
    open_folder,
    read_journal,
)
from tests.support.examples import examples

DOCUMENT = "night.json"
JOURNAL = "journal.jsonl"

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
jumps = st.sampled_from([-400_000.0, -86_400.0, -1.0, 0.0, 0.0, 1.0, 86_400.0])


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.tuples(jumps, st.sampled_from(["lab", "lab-2"]), st.booleans(), st.booleans()),
        max_size=12,
    )
)
def test_the_newest_night_of_a_name_goes_on_unless_it_is_over(
    moments: list[tuple[float, str, bool, bool]],
) -> None:
    """By the order in which they began, though the clock jumps in between."""
    now = NOON
    began: dict[str, list[Path]] = {"lab": [], "lab-2": []}
    over: set[Path] = set()
    with TemporaryDirectory() as place:
        for jump, name, fresh, ends in moments:
            now += timedelta(seconds=jump)
            with open_folder(Path(place), name, now, fresh=fresh) as journal:
                folder = journal.directory
                if fresh or not began[name] or began[name][-1] in over:
                    assert folder not in began[name]
                    began[name].append(folder)
                assert folder == began[name][-1]
                if ends:
                    journal.add(Finished("", 0))
                    over.add(folder)
            assert nights(Path(place), name) == began[name]


def test_what_is_no_file_in_the_folders_of_nights_is_passed_over(tmp_path: Path) -> None:
    """To open a FIFO would wait for whoever is at its other end."""
    folder = tmp_path / "lab-20260301T120000"
    folder.mkdir()
    os.mkfifo(folder / JOURNAL)
    os.mkfifo(folder / DOCUMENT)
    assert nights(tmp_path) == []
    assert list(documents([folder])) == []
    with pytest.raises(OSError, match="not a regular file"):
        read_journal(folder / JOURNAL)
    with open_folder(tmp_path, "lab", NOON, fresh=False) as journal:
        assert journal.directory != folder
