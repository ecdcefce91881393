"""The quarantine of a night: what an entry is about, until when, and when it has proved itself."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Attempt, NightlyStep, Owner, StepOutcome, UsageError
from harness.extensions.lab.nightly.verdict import load_quarantine, with_passes

TODAY = date(2026, 11, 22)
ENTRY = """
[[quarantine]]
owner = "jane"
reason = "its cable is loose"
expires = 2026-12-01
issue = "https://example.com/7"
unit = "desk-*"
failures = ["link"]
"""


def written(home: Path, text: str) -> Path:
    file = home / "quarantine.toml"
    file.write_text(f"schema = 1\n{text}")
    return file


def outcome(owner: Owner | None, unit: str = "desk-1", number: int = 1) -> StepOutcome:
    """A step that failed by this owner, or passed."""
    attempt = Attempt(
        number=number,
        directory=f"runs/{number}",
        started_utc=f"2026-11-22T00:{number:02}:00+00:00",
        outcome="fail" if owner else "pass",
        owner=owner,
    )
    step = NightlyStep(unit, "desk", "net", "only", number)
    return StepOutcome(
        step=step, outcome="fail" if owner else "pass", owner=owner, attempts=(attempt,)
    )


def test_an_entry_keeps_what_it_is_about_from_counting(tmp_path: Path) -> None:
    quarantine = with_passes(written(tmp_path, ENTRY), [], TODAY)
    said = quarantine.entry_for(outcome(Owner.LINK))
    for part in ("its cable is loose", "jane", "2026-12-01", "example.com/7", "quarantine.toml:3"):
        assert part in said
    assert not quarantine.entry_for(outcome(Owner.PRODUCT))
    assert not quarantine.entry_for(outcome(Owner.LINK, "rack-1"))


def test_an_entry_ends_on_its_day(tmp_path: Path) -> None:
    file = written(tmp_path, ENTRY)
    assert with_passes(file, [], date(2026, 12, 1)).entry_for(outcome(Owner.LINK))
    over = with_passes(file, [], date(2026, 12, 2))
    assert not over.entry_for(outcome(Owner.LINK))
    assert [entry.state for entry in over.status(())] == ["expired"]


@pytest.mark.parametrize("missing", ["owner", "reason", "expires"])
def test_an_entry_says_who_why_and_until_when(tmp_path: Path, missing: str) -> None:
    text = "\n".join(line for line in ENTRY.splitlines() if not line.startswith(missing))
    with pytest.raises(UsageError, match=rf"quarantine.toml:3:1: .*{missing}"):
        load_quarantine(written(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"jane"', '""', "owner"),
        ("2026-12-01", '"soon"', "expires"),
        ('["link"]', '["cable"]', "failures"),
        ('unit = "desk-*"\nfailures = ["link"]', "", "every failure of every unit"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_quarantine(written(tmp_path, ENTRY.replace(old, new)))


def test_an_entry_that_has_passed_often_enough_counts_again(tmp_path: Path) -> None:
    night = [outcome(None, number=number) for number in (1, 2)]
    file = written(tmp_path, f"{ENTRY}reprove = 3\n")
    one = with_passes(file, [night], TODAY)
    assert one.entry_for(outcome(Owner.LINK))
    assert [entry.state for entry in one.status(night)] == ["ready"]
    two = with_passes(file, [night, night], TODAY)
    assert not two.entry_for(outcome(Owner.LINK))
    [status] = two.status(())
    assert (status.state, status.passes, status.wanted) == ("proved", 4, 3)
    unasked = with_passes(written(tmp_path, ENTRY), [night] * 9, TODAY)
    assert unasked.entry_for(outcome(Owner.LINK)), "without a number it ends on its day"
    assert [entry.state for entry in unasked.status(())] == ["ready"]


def test_excused_failures_are_counted(tmp_path: Path) -> None:
    quarantine = with_passes(written(tmp_path, ENTRY), [], TODAY)
    failed = outcome(Owner.LINK)
    known = StepOutcome(
        step=failed.step, outcome="fail", owner=Owner.LINK, quarantine=quarantine.entry_for(failed)
    )
    assert quarantine.status([known])[0].excused == 1


OWNERS = st.sampled_from([None, Owner.LINK, Owner.PRODUCT])


@given(st.lists(st.lists(OWNERS, max_size=5), max_size=5))
def test_passes_are_counted_since_the_last_failure_of_that_kind(
    nights: list[list[Owner | None]],
) -> None:
    text = ENTRY.replace('"desk-*"', '"desk-1"') + "reprove = 99\n"
    made = [[outcome(o, number=1 + i) for i, o in enumerate(night)] for night in nights]
    flat = [o for night in nights for o in night]
    since = flat[len(flat) - flat[::-1].index(Owner.LINK) :] if Owner.LINK in flat else flat
    with TemporaryDirectory() as folder:
        [status] = with_passes(written(Path(folder), text), made, TODAY).status(())
    assert status.passes == since.count(None)
