"""Budget: what is to hold for one model on one board, put together from budget files.

A file is read as if the files that it extends stood at its top, each once. What comes later wins:
first a file's own rules, then its sections for the board and the model, in their order. A rule of a
later file or section changes the earlier one with its id, or without an id the one with the same
selection, and keeps of it what it does not say anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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
    DelegateLimit,
    ModuleLimit,
    Patterns,
    Rule,
    Rules,
    Section,
    TimeLimit,
    Waiver,
)
from harness.config.toml_file import Document, Keys, read_document
from harness.errors import UsageError, did_you_mean
from harness.records.check_codes import CODES

LISTS: Final[dict[str, type[Rule]]] = {
    "time": TimeLimit,
    "module": ModuleLimit,
    "delegate": DelegateLimit,
    "block": BlockLimit,
    "allocator": AllocatorLimit,
}
"""Kinds of rules of which there may be many, and their classes."""

SINGLES: Final = ("stack", "trace", "code", "arena", "losses", "history")
"""Kinds of which there is one."""

_Tables = dict[str, Any]


class Budget(Rules, frozen=True):
    r"""The rules for one board and model.

    Attributes:
        schema: Version of the file format.
        files: The files they come from, in the order in which they were read.
        lines: Where each rule and each of its fields stands, as ``file:line``, the file as the
            first one would extend it.

    Example:
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
        """Where a rule or a field stands, or the nearest around it; "" if in no file."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, "")

    def waiver(self, code: str) -> Waiver:
        """What ``[severity]`` says of a code."""
        said = self.severity.get(code)
        return said if isinstance(said, Waiver) else Waiver(severity=said)


@dataclass(frozen=True, slots=True)
class BudgetSource:
    """A budget file of a chain.

    Attributes:
        document: Its text and tables.
        content: What it says.
        name: As the first file of the chain would extend it.
    """

    document: Document
    content: BudgetFile
    name: str


def load_budget(path: Path, board: str = "", model: str = "", unit: str = "") -> Budget:
    """Read a budget file and those it extends, for one board and model.

    Args:
        path: The file.
        board: Name of the board type; what is not known only ``*`` matches, here and below.
        model: Name of the model's file.
        unit: Name of the board of this type.

    Raises:
        UsageError: A file is missing or wrong, or they extend each other in a circle; the message
            names file, line and key.
    """
    files = read_files(path)
    drafts = _Drafts()
    for file in files:
        drafts.layer(file, file.document.data, ())
        for index, section in enumerate(file.content.sections):
            if _is_for(section, board, model, unit):
                drafts.layer(file, file.document.data["for"][index], ("for", index))
    return drafts.budget(path, tuple(file.name for file in files))


def read_files(path: Path) -> list[BudgetSource]:
    """Read a budget file and all that it extends, each once, in the order in which they apply.

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
        there = Path(os.path.normpath(path.parent / name))
        told = ", which extends ".join(map(str, (*chain, there)))
        if Path(name).is_absolute():
            raise UsageError(f"{place}: {name!r} is not relative to this file")
        if there.resolve() in {each.resolve() for each in chain}:
            raise UsageError(f"{place}: budgets extend each other in a circle: {told}")
        if there.resolve() in files:
            continue
        if not there.is_file():
            raise UsageError(f"{place}: no such file: {told}")
        _read_into(files, there, home, chain)
    relative = Path(os.path.relpath(path, home)).as_posix()
    files[path.resolve()] = BudgetSource(document, content, relative)


def _check_codes(document: Document, content: BudgetFile) -> None:
    """Refuse severities of codes that do not exist, or always have their own.

    Raises:
        UsageError: There is one.
    """
    parts: list[tuple[Keys, Rules]] = [((), content)]
    parts += [(("for", index), part) for index, part in enumerate(content.sections)]
    for above, part in parts:
        for code, said in part.severity.items():
            where = document.where((*above, "severity", code))
            if code not in CODES:
                raise UsageError(
                    f"{where}: no check has the code {code!r}",
                    hint=f"{did_you_mean(code, CODES)}there are {', '.join(CODES)}",
                )
            if CODES[code].fixed:
                raise UsageError(
                    f"{where}: the severity of {code} cannot be changed",
                    hint=f"leave it out; `etharness explain {code}` says what {code} is for",
                )
            if isinstance(said, Waiver) and said.severity is None:
                raise UsageError(f"{where}: gives no severity for {code}")


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
    """A rule while it is put together.

    Attributes:
        data: What is said so far.
        lines: Where each field stands; "" is the table.
        layer: Number of the last part of a file that spoke of it.
    """

    data: _Tables = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    layer: int = -1

    def changed(self, data: Mapping[str, Any], lines: Mapping[str, str], layer: int) -> _Draft:
        """The same after a later table has spoken."""
        gone = {name for group in GROUPS if any(n in data for n in group) for name in group}
        kept = {name: value for name, value in self.data.items() if name not in gone}
        merged = {**kept, **data}
        if "of" not in data and not any(name.endswith("_percent") for name in merged):
            merged.pop("of", None)  # of a limit that has been replaced
        return _Draft(merged, {**self.lines, **lines}, layer)


class _Drafts:
    """All rules while they are put together."""

    def __init__(self) -> None:
        self._lists: dict[str, list[_Draft]] = {kind: [] for kind in LISTS}
        self._singles: dict[str, _Draft] = {}
        self._severity: dict[str, tuple[Any, str]] = {}
        self._layers = 0

    def layer(self, file: BudgetSource, data: Mapping[str, Any], above: Keys) -> None:
        """Take the rules of a file, or of a section of it that stands at ``above``."""
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
        for code, said in data.get("severity", {}).items():
            line = file.document.line((*above, "severity", code))
            self._severity[code] = said, f"{file.name}:{line}"

    def _add(self, file: BudgetSource, kind: str, table: _Tables, lines: dict[str, str]) -> None:
        drafts = self._lists[kind]
        meant = [n for n, draft in enumerate(drafts) if _is_meant(kind, draft, table)]
        if "id" in table and any(drafts[n].layer == self._layers for n in meant):
            where = f"{file.document.path}:{lines[''].rpartition(':')[2]}"
            raise UsageError(f"{where}: another [[{kind}]] here has the id {table['id']!r}, too")
        earlier = [n for n in meant if drafts[n].layer < self._layers]
        if not earlier:
            drafts.append(_Draft().changed(table, lines, self._layers))
            return
        first, *others = earlier
        drafts[first] = drafts[first].changed(table, lines, self._layers)
        for number in reversed(others):
            del drafts[number]

    def budget(self, path: Path, files: tuple[str, ...]) -> Budget:
        """The rules as they are in the end."""
        data: _Tables = {"files": files}
        places: dict[Keys, str] = {}
        for kind, drafts in self._lists.items():
            data[kind] = [draft.data for draft in drafts]
            for index, draft in enumerate(drafts):
                places |= _placed((kind, index), draft.lines)
        for kind, draft in self._singles.items():
            data[kind] = draft.data
            places |= _placed((kind,), draft.lines)
        data["severity"] = {code: said for code, (said, _) in self._severity.items()}
        places |= {("severity", code): line for code, (_, line) in self._severity.items()}
        budget = msgspec.structs.replace(msgspec.convert(data, Budget), lines=places)
        for keys, rule in each_rule(budget):
            if problem := rule.problem():
                where = os.path.normpath(path.parent / budget.source(*keys))
                raise UsageError(f"{where}: [{keys[0]}] {problem}", hint=self._missing(keys))
        return budget

    def _missing(self, keys: Keys) -> str:
        """What may be wrong with a rule that does not say enough: its id is no earlier one's."""
        kind = str(keys[0])
        own = self._lists[kind][int(keys[1])].data.get("id") if kind in LISTS else None
        if own is None:
            return ""
        others = [draft.data.get("id") for draft in self._lists[kind]]
        known = [name for name in others if name is not None and name != own]
        meant = did_you_mean(own, known).strip()
        return f"no earlier rule has the id {own!r}{': ' if meant else ''}{meant}"


def each_rule(budget: Budget) -> Iterator[tuple[Keys, Waiver]]:
    """Every rule of a budget, with the keys by which ``Budget.source`` finds it."""
    for kind in LISTS:
        for index, rule in enumerate(getattr(budget, kind)):
            yield (kind, index), rule
    for kind in SINGLES:
        if isinstance(rule := getattr(budget, kind), Waiver):
            yield (kind,), rule


def _is_meant(kind: str, draft: _Draft, table: _Tables) -> bool:
    """Whether a table speaks of this rule: by its id, or else by its selection."""
    if "id" in table:
        return bool(draft.data.get("id") == table["id"])
    class_ = LISTS[kind]
    mine, other = (msgspec.convert(data, class_) for data in (draft.data, table))
    return all(getattr(mine, name) == getattr(other, name) for name in class_.selection)


def _lines(file: BudgetSource, keys: Keys, table: Mapping[str, Any]) -> dict[str, str]:
    lines = {name: file.document.line((*keys, name)) for name in table}
    lines[""] = file.document.line(keys)
    return {name: f"{file.name}:{line}" for name, line in lines.items()}


def _placed(keys: Keys, lines: Mapping[str, str]) -> dict[Keys, str]:
    return {(*keys, name) if name else keys: line for name, line in lines.items()}
