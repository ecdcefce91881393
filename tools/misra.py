"""The record of deviations from MISRA C:2012 of tracer and link, from cppcheck's addon.

Run without arguments to write ``docs/library/misra.md``, or with ``--check`` to fail if the addon
finds a rule for which the record has no reason. The texts of the rules are not free, so the record
has their numbers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/library/misra.md"
MARK: Final = "<!-- The table below is written by tools/misra.py. -->\n"
FOLDERS: Final = ("src/tracer", "src/clock", "src/recorder", "src/etdump", "src/link", "src/serial")

REASONS: Final = {
    "2.4": "Enumerations without a tag, which only group constants, count as unused tags.",
    "2.5": "Macros of public headers are for the caller.",
    "5.5": "Where ETD_OFF is defined, macros with the names of functions replace their calls.",
    "5.7": "Enumerations without a tag count as one tag that is used again.",
    "8.7": "The addon looks at one file at a time; other files call these functions.",
    "8.9": "Tables are at file scope, next to the function that reads them.",
    "9.3": "Designated initializers; omitted members are zero.",
    "10.1": "A comparison is 0 or 1, and is added to a count without a branch.",
    "10.3": "Explicit casts state the width where it narrows; GCC's -Wconversion checks the rest.",
    "10.4": "Constants without a suffix meet unsigned variables; -Wconversion checks the result.",
    "10.5": "A Boolean becomes a number that is stored.",
    "10.8": "A sum or difference is cast to the width of the field that holds it.",
    "11.4": "Code that stores the address of memory as a number, to compare or hash it.",
    "11.5": "Callers pass their buffers and contexts as void pointers.",
    "12.1": "Usual precedence of arithmetic, comparison and logic is used without parentheses.",
    "13.3": "An increment stands within the expression that uses the value.",
    "14.2": "Loops over records advance by what a record says, or end by a second condition.",
    "14.4": "The addon does not know that a compiler builtin returns a Boolean.",
    "15.5": "Functions return early when an argument is NULL or the log is full.",
    "15.7": "A chain of conditions ends when nothing remains to be done.",
    "17.7": "memcpy, memset and memmove return their first argument.",
    "17.8": "A parameter serves as a cursor or as the remaining size.",
    "18.4": "Positions in the caller's buffer are its start plus an offset that was checked.",
    "19.2": "A logged value is a union; its kind selects the valid member.",
    "20.1": "Functions that replace others need the types that the same header declares.",
    "20.7": "A parameter of a macro names a member of a structure, so it has no parentheses.",
}
"""Why the code departs from a rule."""


def findings() -> Counter[str]:
    """Return how often the addon reports each rule."""
    command = ["cppcheck", "--addon=misra", "--quiet", "--std=c11", "--platform=arm32-wchar_t4"]
    command += ["-Iinclude", "--template={id}", *FOLDERS]
    done = subprocess.run(
        command, cwd=ROOT / "firmware_stub", check=True, capture_output=True, text=True
    )
    return Counter(re.findall(r"misra-c2012-([\d.]+)", done.stderr + done.stdout))


def table(found: Counter[str]) -> str:
    """Return the record as Markdown."""
    lines = ["| rule | places | reason |", "|---|---|---|"]
    rules = sorted(found, key=lambda rule: [int(part) for part in rule.split(".")])
    lines += [f"| {rule} | {found[rule]} | {REASONS[rule]} |" for rule in rules]
    version = subprocess.run(["cppcheck", "--version"], check=True, capture_output=True, text=True)
    tool = version.stdout.strip()
    return "\n".join([*lines, "", f"Found by {tool} with its addon misra.", ""])


def main(arguments: list[str]) -> int:
    """Write the record, or check that it has a reason for each rule."""
    found = findings()
    if unknown := sorted(set(found) - set(REASONS)):
        print(
            f"misra: no reason is recorded for {', '.join(unknown)}\n"
            "change the code, or add a reason to tools/misra.py",
            file=sys.stderr,
        )
        return 1
    if "--check" not in arguments:
        head, _, _ = PAGE.read_text().partition(MARK)
        PAGE.write_text(head + MARK + "\n" + table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
