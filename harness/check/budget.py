"""Budget: the rules for one model on one board, merged from budget files.

A file is read as if the files that it extends were included at its top, each once. Later rules
override earlier ones: first a file's own rules, then its sections for the board and the model, in
order. A rule in a later file or section changes the earlier rule with the same id, or, without an
id, with the same selection; fields that it does not set keep their earlier value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from harness.check.rules import (
    GROUPS,
    AllocatorLimit,
    BlockLimit,
    BudgetFile,
    CounterLimit,
    DelegateLimit,
    EnergyLimit,
    ModuleLimit,
    Patterns,
    Rule,
    Rules,
    Section,
    TimeLimit,
    TimeRule,
    Waiver,
)
from harness.config.board import board_names
from harness.config.toml_file import Document, Keys, read_document
from harness.errors import UsageError, did_you_mean
from harness.records.check_codes import CODES

LISTS: Final[dict[str, type[Rule]]] = {
    "time": TimeLimit,
    "module": ModuleLimit,
    "delegate": DelegateLimit,
    "block": BlockLimit,
    "counter": CounterLimit,
    "energy": EnergyLimit,
    "allocator": AllocatorLimit,
}
"""Kinds of rules that may occur several times, and their classes."""

SINGLES: Final = ("stack", "trace", "code", "arena", "losses", "history")
"""Kinds of rules that occur once."""

_Tables = dict[str, Any]


class Budget(Rules, frozen=True):
    r"""The rules for one board and model.

    Attributes:
        schema: Version of the file format.
        files: The files that the rules come from, in the order in which they were read.
        lines: ``file:line`` of each rule and each of its fields, relative to the first file.

    Examples:
        >>> import harness
        >>> from pathlib import Path
        >>> text = 'schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 9_000_000\n'
        >>> _ = Path("budget.toml").write_text(text)
        >>> budget = harness.Budget.load("budget.toml", board="native")
        >>> budget.time[0].event
        'Method::execute'
        >>> harness.run("kws_int8", board="native").check(budget).passed
        True
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    files: tuple[str, ...] = ()
    lines: Mapping[Keys, str] = msgspec.field(default_factory=dict)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], board: str = "", model: str = "", unit: str = ""
    ) -> Budget:
        """Read a budget file and those it extends, for one board and model.

        Raises:
            UsageError: As ``load_budget``.
        """
        return load_budget(Path(path), board, model, unit)

    def source(self, *keys: str | int) -> str:
        """Return ``file:line`` of a rule or field, or of the table around it; "" if in no file."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, "")

    def waiver(self, code: str) -> Waiver:
        """Return the entry for a code in the ``[severity]`` table."""
        entry = self.severity.get(code)
        return entry if isinstance(entry, Waiver) else Waiver(severity=entry)


@dataclass(frozen=True, slots=True)
class BudgetSource:
    """A budget file, one of a chain of files that extend each other.

    Attributes:
        document: Its text and tables.
        content: Its rules.
        name: Its path relative to the first file of the chain.
    """

    document: Document
    content: BudgetFile
    name: str


def load_budget(path: Path, board: str = "", model: str = "", unit: str = "") -> Budget:
    """Read a budget file and the files it extends, for one board and model.

    Args:
        path: The file.
        board: Name of the board type; if empty, only ``*`` matches. The same holds for the others.
        model: Name of the model's file.
        unit: Name of the unit (the physical board).

    Raises:
        UsageError: A file is missing or invalid, or files extend each other in a cycle; the message
            names file, line and key.
    """
    files = read_files(path)
    _check_boards(files, board)
    drafts = _Drafts()
    for file in files:
        drafts.layer(file, file.document.data, ())
        for index, section in enumerate(file.content.sections):
            if _is_for(section, board, model, unit):
                drafts.layer(file, file.document.data["for"][index], ("for", index))
    return drafts.budget(path, tuple(file.name for file in files))


def read_files(path: Path) -> list[BudgetSource]:
    """Read a budget file and all files it extends, each once, in the order in which they apply.

    Raises:
        UsageError: As ``load_budget``.
    """
    files: dict[Path, BudgetSource] = {}
    _read_into(files, path, path.parent, ())
    return list(files.values())


def _read_into(
    files: dict[Path, BudgetSource], path: Path, home: Path, chain: tuple[Path, ...]
) -> None:
    document = read_document(path)
    content = document.as_(BudgetFile)
    _check_codes(document, content)
    chain = (*chain, path)
    for index, name in enumerate(_patterns(content.extends)):
        place = document.where(("extends", index))
        extended = Path(os.path.normpath(path.parent / name))
        steps = ", which extends ".join(map(str, (*chain, extended)))
        if Path(name).is_absolute():
            raise UsageError(
                f"{place}: {name!r} is an absolute path",
                hint="write the path relative to this file",
            )
        if extended.resolve() in {each.resolve() for each in chain}:
            raise UsageError(
                f"{place}: budgets extend each other in a cycle: {steps}",
                hint="remove one of these extends",
            )
        if extended.resolve() in files:
            continue
        if not extended.is_file():
            raise UsageError(
                f"{place}: file not found: {steps}", hint="paths are relative to the budget file"
            )
        _read_into(files, extended, home, chain)
    relative = Path(os.path.relpath(path, home)).as_posix()
    files[path.resolve()] = BudgetSource(document, content, relative)


def _check_codes(document: Document, content: BudgetFile) -> None:
    """Raise UsageError for severities of unknown codes, and of codes with a fixed severity."""
    parts: list[tuple[Keys, Rules]] = [((), content)]
    parts += [(("for", index), part) for index, part in enumerate(content.sections)]
    for above, part in parts:
        for code, entry in part.severity.items():
            where = document.where((*above, "severity", code))
            if code not in CODES:
                raise UsageError(
                    f"{where}: unknown check code {code!r}",
                    hint=f"{did_you_mean(code, CODES)}codes are {', '.join(CODES)}",
                )
            if CODES[code].fixed:
                raise UsageError(
                    f"{where}: the severity of {code} cannot be changed",
                    hint=f"remove this line; `etharness explain {code}` explains the check",
                )
            if isinstance(entry, Waiver) and entry.severity is None:
                raise UsageError(
                    f"{where}: severity missing for {code}",
                    hint='add severity = "error", "warning", "note" or "off"',
                )


def _check_boards(files: Sequence[BudgetSource], board: str) -> None:
    """Raise UsageError for a section of a board that nobody knows: a typing error, most likely.

    Known are the packaged boards, the one that the budget is for, and those in ``boards`` of the
    files.
    """
    own = [name for file in files for name in file.content.boards]
    known = dict.fromkeys([*board_names(), board, *own, ""])
    for file in files:
        for index, section in enumerate(file.content.sections):
            for place, pattern in enumerate(_patterns(section.board)):
                if any(fnmatchcase(name, pattern) for name in known):
                    continue
                where = file.document.where(("for", index, "board", place))
                raise UsageError(
                    f"{where}: {pattern!r} matches no known board",
                    hint=f"{did_you_mean(pattern, list(known))}known boards: "
                    f"{', '.join(filter(None, known))}; name a board of your own in "
                    "boards = [...] at the top of the file",
                )


def _is_for(section: Section, board: str, model: str, unit: str) -> bool:
    asked = ((section.board, board), (section.model, model), (section.unit, unit))
    return all(
        any(fnmatchcase(name, pattern) for pattern in _patterns(patterns))
        for patterns, name in asked
    )


def _patterns(patterns: Patterns) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else patterns


@dataclass(frozen=True)
class _Draft:
    """A rule while files are merged.

    Attributes:
        data: The fields set so far.
        lines: ``file:line:column`` of each field; "" is the table.
        layer: Number of the last file or section that changed it.
    """

    data: _Tables = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    layer: int = -1

    def changed(self, data: Mapping[str, Any], lines: Mapping[str, str], layer: int) -> _Draft:
        """Return the rule with the fields of a later table."""
        replaced = {name for group in GROUPS if any(n in data for n in group) for name in group}
        kept = {name: value for name, value in self.data.items() if name not in replaced}
        merged = {**kept, **data}
        if "of" not in data and not any(name.endswith(("_percent", "_ratio")) for name in merged):
            merged.pop("of", None)  # belonged to a limit that was replaced
        return _Draft(merged, {**self.lines, **lines}, layer)


class _Drafts:
    """All rules while files are merged."""

    def __init__(self) -> None:
        self._lists: dict[str, list[_Draft]] = {kind: [] for kind in LISTS}
        self._singles: dict[str, _Draft] = {}
        self._severity: dict[str, tuple[Any, str]] = {}
        self._layers = 0

    def layer(self, file: BudgetSource, data: Mapping[str, Any], above: Keys) -> None:
        """Merge the rules of a file, or of its section at the keys ``above``."""
        self._layers += 1
        for kind in LISTS:
            for index, table in enumerate(data.get(kind, ())):
                lines = _lines(file, (*above, kind, index), table)
                self._add(file, kind, table, lines)
        for kind in SINGLES:
            if kind in data:
                lines = _lines(file, (*above, kind), data[kind])
                draft = self._singles.get(kind, _Draft())
                self._singles[kind] = draft.changed(data[kind], lines, self._layers)
        for code, entry in data.get("severity", {}).items():
            line = file.document.line((*above, "severity", code))
            self._severity[code] = entry, f"{file.name}:{line}"

    def _add(self, file: BudgetSource, kind: str, table: _Tables, lines: dict[str, str]) -> None:
        drafts = self._lists[kind]
        matching = [n for n, draft in enumerate(drafts) if _is_same_rule(kind, draft, table)]
        if "id" in table and any(drafts[n].layer == self._layers for n in matching):
            where = file.document.path.parent / Path(lines[""]).name
            raise UsageError(
                f"{where}: duplicate id {table['id']!r} in [[{kind}]]",
                hint="give each rule of a file its own id",
            )
        earlier = [n for n in matching if drafts[n].layer < self._layers]
        if not earlier:
            drafts.append(_Draft().changed(table, lines, self._layers))
            return
        first, *others = earlier
        drafts[first] = drafts[first].changed(table, lines, self._layers)
        for number in reversed(others):
            del drafts[number]

    def budget(self, path: Path, files: tuple[str, ...]) -> Budget:
        """Return the merged rules, after checking that each is complete."""
        data: _Tables = {"files": files}
        places: dict[Keys, str] = {}
        for kind, drafts in self._lists.items():
            data[kind] = [draft.data for draft in drafts]
            for index, draft in enumerate(drafts):
                places |= _placed((kind, index), draft.lines)
        for kind, draft in self._singles.items():
            data[kind] = draft.data
            places |= _placed((kind,), draft.lines)
        data["severity"] = {code: entry for code, (entry, _) in self._severity.items()}
        places |= {("severity", code): line for code, (_, line) in self._severity.items()}
        budget = msgspec.structs.replace(msgspec.convert(data, Budget), lines=places)
        for keys, rule in each_rule(budget):
            if problem := rule.problem():
                where = self._where(path, keys)
                raise UsageError(f"{where}: [{keys[0]}] {problem}", hint=self._id_hint(keys))
            if isinstance(rule, TimeRule | CounterLimit) and (found := rule.contradiction()):
                text, field = found
                what = "time" if isinstance(rule, TimeRule) else "count"
                raise UsageError(
                    f"{self._where(path, keys, field)}: [{keys[0]}] {text}",
                    hint=f"no {what} can keep to both: lower the first, or raise the second",
                )
        return budget

    def _where(self, path: Path, keys: Keys, field: str = "") -> str:
        """Return ``file:line:column`` of a rule or of one of its fields."""
        kind = str(keys[0])
        draft = self._lists[kind][int(keys[1])] if kind in LISTS else self._singles[kind]
        return os.path.normpath(path.parent / draft.lines[field])

    def _id_hint(self, keys: Keys) -> str:
        """Return a hint for an incomplete rule whose id matches no earlier rule."""
        kind = str(keys[0])
        own = self._lists[kind][int(keys[1])].data.get("id") if kind in LISTS else None
        if own is None:
            return ""
        others = [draft.data.get("id") for draft in self._lists[kind]]
        known = [name for name in others if name is not None and name != own]
        guess = did_you_mean(own, known).strip()
        return f"no earlier rule has the id {own!r}{': ' if guess else ''}{guess}"


def each_rule(budget: Budget) -> Iterator[tuple[Keys, Waiver]]:
    """Yield every rule of a budget, with its keys for ``Budget.source``."""
    for kind in LISTS:
        for index, rule in enumerate(getattr(budget, kind)):
            yield (kind, index), rule
    for kind in SINGLES:
        if isinstance(rule := getattr(budget, kind), Waiver):
            yield (kind,), rule


def _is_same_rule(kind: str, draft: _Draft, table: _Tables) -> bool:
    """Return whether a table changes this rule: same id, or, without an id, same selection."""
    if "id" in table:
        return bool(draft.data.get("id") == table["id"])
    class_ = LISTS[kind]
    mine, other = (msgspec.convert(data, class_) for data in (draft.data, table))
    return all(getattr(mine, name) == getattr(other, name) for name in class_.selection)


def _lines(file: BudgetSource, keys: Keys, table: Mapping[str, Any]) -> dict[str, str]:
    places = {"": keys, **{name: (*keys, name) for name in table}}
    found = {name: file.document.where(place) for name, place in places.items()}
    return {
        name: f"{file.name}{text[len(str(file.document.path)) :]}" for name, text in found.items()
    }


def _placed(keys: Keys, lines: Mapping[str, str]) -> dict[Keys, str]:
    """Return ``file:line`` of a rule and its fields, as checks cite them."""
    return {
        (*keys, name) if name else keys: place.rpartition(":")[0] for name, place in lines.items()
    }
