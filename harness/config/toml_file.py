"""TOML files parsed into classes, with errors that name line and column.

``tomllib`` does not report the positions of keys, and libraries that do (``tomlkit``) are slow and
return containers of their own. So a second, shallow scan finds the positions in text that
``tomllib`` has accepted: it looks only at brackets, keys and the ends of values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from harness.errors import UsageError, did_you_mean
from harness.files import DESCRIBING, read_limited
from harness.records.store_address import StoreAddress

_T = TypeVar("_T")

Keys = tuple[str | int, ...]
"""Path of a value in a document: keys of tables and indices of arrays, outermost first."""

MOST_TOML: Final = 4 << 20
"""Largest TOML file, bytes; a file written by a person has some kilobytes."""

_BYTE_ORDER_MARKS: Final = {
    b"\xef\xbb\xbf": "UTF-8",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}

_KINDS: Final[dict[str | None, str]] = {
    **{"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"},
    **{"array": "a list", "object": "a table"},
}
_RELATIONS: Final[dict[str | None, str]] = {
    **{"<": "less than", "<=": "at most"},
    **{">": "more than", ">=": "at least"},
}
_PLAIN: Final = "begin with a letter or a digit; no spaces, quotes, `;` or control characters"
_MOST_SHOWN: Final = 60

_WHERE: Final = re.compile(r" - at `[^`]*`(?: in `.*`)?\Z", re.DOTALL)
_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_PATTERN: Final = re.compile("Expected `str` matching regex '(.*)'", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(.*?)`(?: (\W+) (\S+))?(?:, got `(.*)`)?")
_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"\d{4}-\d\d-\d\d[ ]\d[^\s,\]}#]*|[^\s,\]}#]+")


@dataclass(frozen=True)
class Document:
    """A parsed TOML file.

    Attributes:
        path: The file, for messages.
        text: Its text.
        data: Its tables.
    """

    path: Path
    text: str
    data: dict[str, Any]

    @cached_property
    def positions(self) -> dict[Keys, tuple[int, int]]:
        """Line and column, from 1, of every key, table and element of an array of tables."""
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        found, line = {}, 0
        for keys, offset in sorted(_Scanner(self.text).offsets.items(), key=lambda item: item[1]):
            while line + 1 < len(starts) and starts[line + 1] <= offset:
                line += 1
            found[keys] = line + 1, offset - starts[line] + 1
        return found

    def line(self, keys: Keys) -> int:
        """Return the line of a value, or of the nearest table around it."""
        return self._position(keys)[0]

    def where(self, keys: Keys) -> str:
        """Return ``file:line:column`` of a value, or of the nearest table around it."""
        return ":".join(map(str, (self.path, *self._position(keys))))

    def _position(self, keys: Keys) -> tuple[int, int]:
        while keys and keys not in self.positions:
            keys = keys[:-1]
        return self.positions[keys] if keys else (1, 1)

    def as_(self, type_: type[_T], table: tuple[str, ...] = ()) -> _T:
        """Convert the document, or one of its tables, to ``type_``; a missing table is empty.

        Raises:
            UsageError: The data does not match ``type_``; the message names file, line and key.
        """
        data: Any = self.data
        for key in table:
            data = data.get(key, {})
        try:
            with DESCRIBING:
                return msgspec.convert(data, type_, dec_hook=_converted)
        except msgspec.ValidationError as error:
            raise self._usage_error(error, type_, data, table) from error

    def _usage_error(
        self,
        error: msgspec.ValidationError,
        type_: type[Any],
        data: dict[str, Any],
        table: tuple[str, ...],
    ) -> UsageError:
        keys, text = _keys_of(str(error), data, type_), _WHERE.sub("", str(error))
        info, value = msgspec.inspect.type_info(type_), reduce(getitem, keys, cast("Any", data))
        name = ".".join(key for key in (*table, *keys) if isinstance(key, str))
        types, hint = [*_types(info, keys)], ""
        if wrong := _FIELD.fullmatch(text):
            keys, place = (*keys, wrong[2]), f" in [{name}]" if name else ""
            text = f"the key {wrong[2]!r} is missing{place}"
            hint = "begin the file with `schema = 1`" if wrong[2] == "schema" else ""
            if wrong[1] == "contains unknown":
                text = f"unknown key {wrong[2]!r}{place}"
                hint = _choice(wrong[2], "keys", map(_names, types))
        elif text.startswith("Invalid "):
            text = f"{name} cannot be {_shown(value)}"
            hint = _choice(str(value), "values", map(_values, types or _types(info, keys[:-1])))
        elif wrong := _PATTERN.fullmatch(text):
            text = f"{name} cannot be {_shown(value)}"
            hint = _PLAIN if r"\w" in wrong[1] else f"it must match {wrong[1]}"
        elif text.endswith(" of length >= 1"):
            text = f"{name} must not be empty"
        elif wrong := _EXPECTED.fullmatch(text):
            relation, limit = _RELATIONS.get(wrong[2], ""), wrong[3]
            kinds = [_KINDS[kind] for kind in wrong[1].split(" | ") if kind in _KINDS]
            allowed = f"{relation} {float(limit):g}" if limit else " or ".join(kinds)
            text = f"{name} must be {allowed}, not {_shown(value, wrong[4])}"
            if wrong[1] == "float" and wrong[2] in ("<", "<=") and float(limit) == 1 < value <= 100:
                hint = f"write it as a share: {value / 100:g} for {value:g} %"
        elif wrong := re.match(r"(\w+) is not a finite number", text):
            keys = (*keys, wrong[1])
        return UsageError(f"{self.where((*table, *keys))}: {text}", hint=hint)


def _converted(type_: type[Any], value: Any) -> Any:
    """Convert a value to a type that msgspec does not know."""
    if type_ is StoreAddress and isinstance(value, str):
        return StoreAddress(value)
    raise msgspec.ValidationError(f"Expected `str`, got `{type(value).__name__}`")


def read_document(path: Path) -> Document:
    """Read a TOML file.

    Raises:
        UsageError: It is missing or not valid TOML; the message names file, line and column.
    """
    try:
        text = _decoded(path, read_limited(path, MOST_TOML))
        return Document(path, text, tomllib.loads(text))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    except tomllib.TOMLDecodeError as error:
        at = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
        where, why = (f"{path}:{at[2]}:{at[3]}", at[1]) if at else (str(path), str(error))
        raise UsageError(f"{where}: not valid TOML: {why}") from error


def _decoded(path: Path, data: bytes) -> str:
    """Return the text of a file.

    Raises:
        UsageError: It begins with a byte order mark, which TOML does not allow, or is not UTF-8.
    """
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            raise UsageError(
                f"{path}:1:1: the file begins with a byte order mark ({encoding})",
                hint="save it as UTF-8 without a byte order mark (BOM)",
            )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise UsageError(
            f"{path}:{before.count(10) + 1}:{column}: not valid TOML: byte "
            f"0x{data[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        ) from error


class _Scanner:
    """Scans valid TOML for its keys.

    Attributes:
        offsets: Offset in characters of each key, table and element of an array of tables. An
            implicit table begins at the first header or key that names it.
    """

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._elements: dict[Keys, int] = {}
        """The last index of every array of tables."""
        self.offsets: dict[Keys, int] = {}
        table: Keys = ()
        while self._skip_space():
            start = self._at
            if text[start] == "[":
                double = text.startswith("[[", start)
                self._at += 1 + double
                table = self._header(self._key(), start, element=double)
                self._skip_space()
                self._at += 1 + double
            else:
                self._pair(table)

    def _skip_space(self) -> bool:
        """Skip whitespace and comments; False at the end of the text."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at < len(self._text)

    def _next(self) -> str:
        self._skip_space()
        return self._text[self._at]

    def _key(self) -> list[tuple[str, int]]:
        """Scan a bare, quoted or dotted key; return its parts with the offset of each."""
        parts = []
        while True:
            self._skip_space()
            start = self._at
            quoted = _STRING.match(self._text, start)
            match = quoted or _BARE.match(self._text, start)
            assert match, "tomllib has read it"
            self._at = match.end()
            name = tomllib.loads(f"key = {match[0]}")["key"] if quoted else match[0]
            parts.append((name, start))
            if self._next() != ".":
                return parts
            self._at += 1

    def _header(self, parts: list[tuple[str, int]], start: int, *, element: bool) -> Keys:
        table: Keys = ()
        for index, (name, _) in enumerate(parts):
            table = (*table, name)
            self.offsets.setdefault(table, start)
            if element and index == len(parts) - 1:
                self._elements[table] = self._elements.get(table, -1) + 1
            if table in self._elements:
                table = (*table, self._elements[table])
                self.offsets.setdefault(table, start)
        return table

    def _pair(self, table: Keys) -> None:
        for name, start in self._key():
            table = (*table, name)
            self.offsets.setdefault(table, start)
        self._next()
        self._at += 1  # the equals sign
        self._value(table)

    def _value(self, keys: Keys) -> None:
        opening = self._next()
        if opening not in "[{":
            match = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            assert match, "tomllib has read it"
            self._at = match.end()
            return
        self._at += 1
        count = 0
        while self._next() not in "]}":
            if opening == "{":
                self._pair(keys)
            else:
                self.offsets[(*keys, count)] = self._at
                self._value((*keys, count))
            count += 1
            if self._next() == ",":
                self._at += 1
        self._at += 1


def _shown(value: Any, kind: str | None = None) -> str:
    """Return a value as TOML spells it, shortened; a table or a list by its kind."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return str(value).lower() if isinstance(value, bool) else _KINDS.get(kind, "this one")
    # Python prints no integer as large as those that TOML can hold in hexadecimal digits.
    text = hex(value) if isinstance(value, int) and abs(value) > 2**63 else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _choice(wrong: str, noun: str, known: Iterable[Iterable[str]]) -> str:
    """Return a hint with the nearest allowed word and all others."""
    words = sorted({word for words in known for word in words})
    return f"{did_you_mean(wrong, words)}known {noun}: {', '.join(words)}"


def _keys_of(message: str, data: Mapping[str, Any], type_: type[Any]) -> Keys:
    """Return the keys of the path in a message of msgspec, such as ``$.time[3].limit_us``."""
    named = re.search(r" - at `\$(.*)`$", message, re.DOTALL)
    keys: Keys = ()
    for part in re.finditer(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", named[1] if named else ""):
        name, index = part.groups()
        if index == "...":  # msgspec does not name the key in a dict, so validate one at a time
            return (*keys, *_wrong_values(keys, message, data, type_))
        keys = (*keys, name if name is not None else int(index))
    return keys


def _wrong_values(
    keys: Keys, message: str, data: Mapping[str, Any], type_: type[Any]
) -> Iterator[str]:
    if not all(isinstance(key, str) for key in keys):
        return
    table: Any = data
    for key in keys:
        table = table[key]
    for name, value in table.items():
        document: Any = {name: value}
        for key in reversed(keys):
            document = {key: document}
        try:
            with DESCRIBING:
                msgspec.convert({**data, **document}, type_)
        except msgspec.ValidationError as error:
            if str(error) == message:
                yield name
                return


def _types(info: msgspec.inspect.Type, keys: Keys) -> Iterator[msgspec.inspect.Type]:
    """Yield the possible types of the value at ``keys`` in a document of type ``info``."""
    if isinstance(info, msgspec.inspect.Metadata):
        yield from _types(info.type, keys)
    elif isinstance(info, msgspec.inspect.UnionType):
        for each in info.types:
            yield from _types(each, keys)
    elif not keys:
        yield info
    elif isinstance(info, msgspec.inspect.StructType):
        for field in info.fields:
            if field.encode_name == keys[0]:
                yield from _types(field.type, keys[1:])
    elif isinstance(info, msgspec.inspect.DictType):
        yield from _types(info.value_type, keys[1:])
    elif isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        yield from _types(info.item_type, keys[1:])


def _names(info: msgspec.inspect.Type) -> list[str]:
    """Return the keys that a table may have."""
    if isinstance(info, msgspec.inspect.StructType):
        return [field.encode_name for field in info.fields]
    return []


def _values(info: msgspec.inspect.Type) -> list[str]:
    """Return the strings that a value may be, or that tell the kinds of a table apart."""
    if isinstance(info, msgspec.inspect.LiteralType):
        return [str(value) for value in info.values]
    return [str(info.tag)] if isinstance(info, msgspec.inspect.StructType) and info.tag else []
