"""A site that is brought up to date is the same, byte for byte, as one that is written at once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Decision, MeasurementSettings, Selection, open_store
from harness.extensions.web.site.writer import write_site
from tests.property.test_history_store import BOARDS, IDS, SETTINGS, decisions, subjects
from tests.support.results import Made

EXAMPLES = int(os.environ.get("ETHARNESS_SITE_EXAMPLES", "5"))
"""Every example writes several sites."""

Decided = tuple[Decision, str, MeasurementSettings | None]


def files_of(site: Path) -> dict[str, bytes]:
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file()
    }


@given(
    rounds=st.lists(
        st.tuples(
            st.lists(subjects(), max_size=4),
            st.none() | IDS,
            st.lists(st.tuples(decisions(), BOARDS, SETTINGS), max_size=2),
        ),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=EXAMPLES)
def test_an_updated_site_equals_a_new_one(
    rounds: list[tuple[list[Made], str | None, list[Decided]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/h.sqlite") as store:
        updated, new = Path(folder) / "updated", Path(folder) / "new"
        for items, removed, decided in rounds:
            for item in items:
                store.add(item.result, item.subject)
            for decision, board, used in decided:
                store.record_decisions(
                    board, "kws", "forward", used.key if used else "", [decision]
                )
            if removed is not None:
                store.remove(Selection(ids=[removed]))
            before = files_of(updated)
            changes = write_site(store, updated)
            after = files_of(updated)
            assert set(changes.removed) == before.keys() - after.keys()
            changed = {name for name, content in after.items() if before.get(name) != content}
            assert set(changes.written) == changed - {"etharness-site.json"}
        write_site(store, new)
        assert files_of(updated) == files_of(new)
        assert write_site(store, updated).written == ()
