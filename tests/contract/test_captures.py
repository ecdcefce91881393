"""ETDumps as recorders and serializers leave them: with colours, without padding, with a prefix."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

Etharness = Callable[..., Any]

CASES = Path(__file__).parents[1] / "fixtures/cases"
TRACE = CASES.parent / "kws_f32_executorch.etdp"


def events(etharness: Etharness, file: Path) -> Any:
    code, out, err = etharness("decode", file, "--json")
    assert code == 0, err
    return json.loads(out)["operators"]


@pytest.mark.parametrize("case", ["console_colour_reset.log", "console_unpadded.log"])
def test_a_capture_holds_the_dump_that_was_printed(etharness: Etharness, case: str) -> None:
    assert events(etharness, CASES / case) == events(etharness, TRACE)


def capture(dump: bytes, line: Callable[[str], str], *, padded: bool = True) -> bytes:
    text = base64.b64encode(dump).decode()
    text = text if padded else text.rstrip("=")
    words = f'#[RUN THIS]\necho "{text}" | base64 -d >etdump.bin\n#[END]\n'
    return "".join(f"{line(each)}\n" for each in re.findall(".{1,100}", words)).encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    begin=st.sampled_from(["", "\x1b[32m", "\x1b[0;1;31m"]),
    end=st.sampled_from(["\x1b[0m", "\x1b[m\x1b[K"]),
    at=st.integers(0, 100),
)
def test_colours_anywhere_in_a_line_are_no_data(
    etharness: Etharness, tmp_path: Path, begin: str, end: str, at: int
) -> None:
    file = tmp_path / "console.log"
    # Before base64 begins, and from the command on, other text would be another command.
    file.write_bytes(
        capture(
            TRACE.read_bytes(),
            lambda line: line if "echo" in line else f"{begin}{line[:at]}{end}{line[at:]}",
        )
    )
    assert events(etharness, file) == events(etharness, TRACE)


def interleaved(capture: bytes, at: int, line: bytes) -> bytes:
    """What another task printed between two lines of a capture."""
    lines = capture.split(b"\n")
    return b"\n".join([*lines[:at], line, *lines[at:]])


OTHER_TASK = b'[00:00:12.345] <inf> sensor: "front" 23.4 C'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(places=st.lists(st.integers(3, 60), min_size=1, max_size=9))
def test_lines_of_other_tasks_are_no_data(
    etharness: Etharness, tmp_path: Path, places: list[int]
) -> None:
    text = capture(TRACE.read_bytes(), str)
    for at in places:
        text = interleaved(text, at, OTHER_TASK)
    file = tmp_path / "console.log"
    file.write_bytes(text)
    assert events(etharness, file) == events(etharness, TRACE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(data=st.data())
def test_a_character_lost_to_another_task_is_damage(
    etharness: Etharness, tmp_path: Path, data: st.DataObject
) -> None:
    text = interleaved(capture(TRACE.read_bytes(), str), 5, OTHER_TASK)
    lines = text.split(b"\n")
    whole = [number for number, line in enumerate(lines) if len(line) == 100]
    number = data.draw(st.sampled_from(whole))
    at = data.draw(st.integers(30, 99))
    lines[number] = lines[number][:at] + lines[number][at + 1 :]
    file = tmp_path / "console.log"
    file.write_bytes(b"\n".join(lines))
    code, _, err = etharness("decode", file)
    assert code == 2
    assert f"{file}: other text within base64 in console capture at byte" in err


def test_a_dump_that_a_reset_ended_takes_nothing_of_the_next_one(
    etharness: Etharness, tmp_path: Path
) -> None:
    whole = capture(TRACE.read_bytes(), str)
    file = tmp_path / "console.log"
    file.write_bytes(b"\n".join(whole.split(b"\n")[:30]) + b"\nreset: 4\n" + whole)
    code, _, err = etharness("decode", file)
    assert (code, "other text within base64" in err) == (2, True)
    assert etharness("decode", file, "--salvage")[0] in (0, 1)


@pytest.mark.parametrize("of", [TRACE, CASES / "console_colour_reset.log"])
def test_files_may_be_packed(etharness: Etharness, tmp_path: Path, of: Path) -> None:
    file = tmp_path / "packed.gz"
    packed = gzip.compress(of.read_bytes())
    file.write_bytes(packed)
    assert events(etharness, file) == events(etharness, TRACE)
    file.write_bytes(packed[: len(packed) // 2])
    code, _, err = etharness("decode", file)
    assert (code, "gzip data is cut off" in err) == (2, True)


@pytest.mark.parametrize("order", ["utf-16", "utf-16-be"])
def test_a_capture_may_be_utf_16(etharness: Etharness, tmp_path: Path, order: str) -> None:
    file = tmp_path / "console.log"
    text = (CASES / "console_colour_reset.log").read_text("ascii")
    file.write_bytes((text if order == "utf-16" else "\ufeff" + text).encode(order))
    assert events(etharness, file) == events(etharness, TRACE)


def test_a_gzip_bomb_is_refused(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.decode.dumps.MOST_UNPACKED", 1 << 20)
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(bytes(2 << 20)))
    code, _, err = etharness("decode", file)
    assert (code, "unpacks to more than 1,048,576 bytes" in err) == (2, True)


def test_names_of_packaged_models_are_known(etharness: Etharness) -> None:
    named = events(etharness, TRACE)
    code, out, err = etharness("decode", TRACE, "--model", "kws_f32", "--json")
    assert code == 0, err
    assert len(json.loads(out)["operators"]) == len(named)
    code, _, err = etharness("decode", TRACE, "--model", "kws_f33")
    assert (code, "kws_f33 not found" in err) == (2, True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(data=st.data())
def test_a_lost_character_is_not_taken_for_missing_padding(
    etharness: Etharness, tmp_path: Path, data: st.DataObject
) -> None:
    file = tmp_path / "console.log"
    whole = capture(TRACE.read_bytes(), str, padded=False)
    file.write_bytes(whole)
    assert events(etharness, file) == events(etharness, TRACE)
    at = data.draw(st.integers(whole.index(b'echo "') + 30, whole.index(b'" |') - 1))
    assume(whole[at : at + 1] != b"\n")
    file.write_bytes(whole[:at] + whole[at + 1 :])
    code, _, err = etharness("decode", file)
    assert code == 2
    assert "console capture" in err or "in the dump at byte" in err


def test_a_dump_that_was_serialized_with_a_prefix(etharness: Etharness, tmp_path: Path) -> None:
    """Its fields are aligned behind the prefix; the same dump without the prefix is the same."""
    file = CASES / "serialized_with_prefix.etdp"
    bare = tmp_path / "bare.etdp"
    bare.write_bytes(file.read_bytes()[4:])
    assert events(etharness, file) == events(etharness, bare)


@pytest.mark.parametrize("recorded", [TRACE, CASES / "serialized_with_prefix.etdp"])
@pytest.mark.parametrize("added", [0, 4])
def test_the_size_of_a_dump_says_nothing_of_its_alignment(
    etharness: Etharness, tmp_path: Path, recorded: Path, added: int
) -> None:
    """The device library's writer ends a dump at a multiple of 4 bytes, others at one of 8."""
    bare = recorded.read_bytes()[4:] + bytes(added)
    prefixed, unprefixed = tmp_path / "prefixed.etdp", tmp_path / "bare.etdp"
    prefixed.write_bytes(len(bare).to_bytes(4, "little") + bare)
    unprefixed.write_bytes(bare)
    expected = events(etharness, recorded)
    assert events(etharness, prefixed) == events(etharness, unprefixed) == expected
